/* Cyclone DDS for the Rust side: entities, samples as CDR, statuses, discovery. */
#include "shim.h"

#include <string.h>

#include <dds/ddsi/ddsi_endpoint.h>
#include <dds/ddsi/ddsi_entity_index.h>
#include <dds/ddsi/ddsi_plist.h>
#include <dds/ddsi/ddsi_protocol.h>
#include <dds/ddsi/ddsi_proxy_endpoint.h>
#include <dds/ddsi/ddsi_proxy_participant.h>
#include <dds/ddsi/ddsi_serdata.h>
#include <dds/ddsi/ddsi_sertype.h>
#include <dds/ddsi/ddsi_thread.h>
#include <dds/ddsi/ddsi_tran.h>
#include <dds/ddsi/ddsi_typelib.h>
#include <dds/ddsrt/log.h>

/* Cyclone's own, from its sources: what it knows of a writer's readers. */
#include <ddsi__endpoint_match.h>

static void (*heard_by)(const char *message, size_t length);

static void hear(void *unused, const dds_log_data_t *data)
{
    (void)unused;
    heard_by(data->message, data->size);
}

/* Warnings and errors of Cyclone's, which else it writes to the standard error, as many as there are. Once. */
void campanile_dds_listen(void (*heard)(const char *message, size_t length))
{
    heard_by = heard;
    dds_set_log_sink(hear, NULL);
}

int32_t campanile_dds_domain_create(uint32_t id, const char *configuration) { return dds_create_domain(id, configuration); }

int32_t campanile_dds_participant_create(uint32_t domain, const char *name)
{
    dds_qos_t *qos = dds_create_qos();
    if (name[0] != 0)
        dds_qset_entity_name(qos, name);
    int32_t result = dds_create_participant(domain, qos, NULL);
    dds_delete_qos(qos);
    return result;
}

int32_t campanile_dds_delete(int32_t entity) { return dds_delete(entity); }

const char *campanile_dds_error_text(int32_t result) { return dds_strretcode(result); }

int32_t campanile_dds_guid(int32_t entity, uint8_t *guid)
{
    dds_guid_t found;
    int32_t result = dds_get_guid(entity, &found);
    if (result == DDS_RETCODE_OK)
        memcpy(guid, found.v, sizeof found.v);
    return result;
}

/* ---- Writers and readers ---- */

static dds_qos_t *qos_of(const campanile_dds_qos *wanted)
{
    dds_qos_t *qos = dds_create_qos();
    dds_qset_reliability(qos, wanted->reliable ? DDS_RELIABILITY_RELIABLE : DDS_RELIABILITY_BEST_EFFORT, wanted->blocking_max);
    dds_qset_history(qos, wanted->keep_all ? DDS_HISTORY_KEEP_ALL : DDS_HISTORY_KEEP_LAST, wanted->depth);
    dds_qset_resource_limits(qos, wanted->samples_max, DDS_LENGTH_UNLIMITED, DDS_LENGTH_UNLIMITED);
    dds_qset_durability(qos, wanted->transient_local ? DDS_DURABILITY_TRANSIENT_LOCAL : DDS_DURABILITY_VOLATILE);
    if (wanted->transient_local && wanted->late_depth > 0)
        dds_qset_durability_service(qos, 0, DDS_HISTORY_KEEP_LAST, wanted->late_depth, DDS_LENGTH_UNLIMITED, DDS_LENGTH_UNLIMITED, DDS_LENGTH_UNLIMITED);
    if (wanted->deadline > 0)
        dds_qset_deadline(qos, wanted->deadline);
    if (wanted->lifespan > 0)
        dds_qset_lifespan(qos, wanted->lifespan);
    dds_qset_transport_priority(qos, wanted->transport_priority);
    if (wanted->ignore_own)
        dds_qset_ignorelocal(qos, DDS_IGNORELOCAL_PARTICIPANT);
    dds_data_representation_id_t representations[2];
    uint32_t count = 0;
    if (wanted->representations & 1)
        representations[count++] = DDS_DATA_REPRESENTATION_XCDR1;
    if (wanted->representations & 2)
        representations[count++] = DDS_DATA_REPRESENTATION_XCDR2;
    dds_qset_data_representation(qos, count, representations);
    if (wanted->partition_count > 0)
        dds_qset_partition(qos, wanted->partition_count, (const char **)wanted->partitions);
    if (wanted->user_data_length > 0)
        dds_qset_userdata(qos, wanted->user_data, wanted->user_data_length);
    return qos;
}

int32_t campanile_dds_writer_create(int32_t participant, int32_t topic, const campanile_dds_qos *wanted)
{
    dds_qos_t *qos = qos_of(wanted);
    int32_t result = dds_create_writer(participant, topic, qos, NULL);
    dds_delete_qos(qos);
    return result;
}

static bool is_kept(const dds_sample_info_t *unused, void *is_over)
{
    (void)unused;
    return __atomic_load_n((const uint8_t *)is_over, __ATOMIC_ACQUIRE) == 0;
}

/* The same topic once more, which keeps what comes until `*is_over` is not 0. */
static int32_t topic_until(int32_t participant, int32_t topic, const uint8_t *is_over)
{
    char name[256];
    const struct ddsi_sertype *type;
    int32_t result;
    if ((result = dds_get_name(topic, name, sizeof name)) < 0)
        return result;
    if ((result = dds_get_entity_sertype(topic, &type)) != DDS_RETCODE_OK)
        return result;
    dds_qos_t *qos = dds_create_qos();
    if ((result = dds_get_qos(topic, qos)) == DDS_RETCODE_OK) {
        struct ddsi_sertype *held = ddsi_sertype_ref(type);
        result = dds_create_topic_sertype(participant, name, &held, qos, NULL, NULL);
        if (result < 0)
            ddsi_sertype_unref(held);
    }
    dds_delete_qos(qos);
    if (result < 0)
        return result;
    struct dds_topic_filter filter = {.mode = DDS_TOPIC_FILTER_SAMPLEINFO_ARG, .f = {.sampleinfo_arg = is_kept}, .arg = (void *)is_over};
    int32_t filtered = dds_set_topic_filter_extended(result, &filter);
    if (filtered != DDS_RETCODE_OK) {
        dds_delete(result);
        return filtered;
    }
    return result;
}

/* While a reader has no room, the thread that brings samples tries again and again. It does not notice that the reader is being deleted, and
 * the deletion waits until that thread has gone on: neither ever does. So the reader is told beforehand that it needs no room any more, by the
 * filter of its topic; that is why it has a topic of its own. */
int32_t campanile_dds_reader_create(int32_t participant, int32_t topic, const campanile_dds_qos *wanted, const uint8_t *is_over)
{
    int32_t own = topic_until(participant, topic, is_over);
    if (own < 0)
        return own;
    dds_qos_t *qos = qos_of(wanted);
    int32_t result = dds_create_reader(participant, own, qos, NULL);
    dds_delete_qos(qos);
    /* It stays as long as the reader does. */
    dds_delete(own);
    return result;
}

/* The value is checked against the topic's type as it becomes a sample. `source_timestamp` < 0: now. */
int32_t campanile_dds_write(int32_t writer, const uint8_t *cdr, size_t length, int64_t source_timestamp)
{
    const struct ddsi_sertype *type;
    int32_t result = dds_get_entity_sertype(writer, &type);
    if (result != DDS_RETCODE_OK)
        return result;
    /* RTPS wants multiples of four; the header says how many octets that added. XCDR1 in this machine's order. */
    size_t padding = (4 - length % 4) % 4;
    uint8_t header[4] = {0, 0, 0, (uint8_t)padding};
    header[1] = DDSRT_ENDIAN == DDSRT_LITTLE_ENDIAN;
    static const uint8_t zeroes[4];
    ddsrt_iovec_t parts[3] = {
        {.iov_base = header, .iov_len = sizeof header},
        {.iov_base = (void *)cdr, .iov_len = length},
        {.iov_base = (void *)zeroes, .iov_len = padding},
    };
    struct ddsi_serdata *sample = ddsi_serdata_from_ser_iov(type, SDK_DATA, 3, parts, sizeof header + length + padding);
    if (sample == NULL)
        return DDS_RETCODE_BAD_PARAMETER;
    if (source_timestamp < 0)
        return dds_writecdr(writer, sample);
    sample->statusinfo = 0;
    sample->timestamp.v = source_timestamp;
    return dds_forwardcdr(writer, sample);
}

int32_t campanile_dds_wait_for_acknowledgments(int32_t writer, int64_t timeout) { return dds_wait_for_acks(writer, timeout); }

enum { TAKEN_AT_ONCE = 64 };

int32_t campanile_dds_take(int32_t reader, uint32_t count, void (*visit)(void *, const campanile_dds_sample *), void *context)
{
    struct ddsi_serdata *samples[TAKEN_AT_ONCE];
    dds_sample_info_t information[TAKEN_AT_ONCE];
    if (count > TAKEN_AT_ONCE)
        count = TAKEN_AT_ONCE;
    int32_t taken = dds_takecdr(reader, samples, count, information, DDS_ANY_STATE);
    for (int32_t i = 0; i < taken; i++) {
        uint32_t size = ddsi_serdata_size(samples[i]);
        campanile_dds_sample sample = {
            .is_valid = information[i].valid_data,
            .source_timestamp = information[i].source_timestamp,
            .publication = information[i].publication_handle,
        };
        if (sample.is_valid && size >= 4) {
            ddsrt_iovec_t part;
            struct ddsi_serdata *held = ddsi_serdata_to_ser_ref(samples[i], 0, size, &part);
            const uint8_t *octets = part.iov_base;
            size_t padding = octets[3] & 3;
            size_t length = (size_t)part.iov_len - 4;
            sample.encapsulation = (uint16_t)(octets[0] << 8 | octets[1]);
            sample.bytes = octets + 4;
            sample.length = length >= padding ? length - padding : 0;
            visit(context, &sample);
            ddsi_serdata_to_ser_unref(held, &part);
        } else {
            sample.is_valid = 0;
            visit(context, &sample);
        }
        ddsi_serdata_unref(samples[i]);
    }
    return taken;
}

/* ---- Statuses ---- */

int32_t campanile_dds_writer_status(int32_t writer, campanile_dds_status *status)
{
    dds_publication_matched_status_t matched;
    dds_offered_incompatible_qos_status_t incompatible;
    int32_t result;
    if ((result = dds_get_publication_matched_status(writer, &matched)) != DDS_RETCODE_OK)
        return result;
    if ((result = dds_get_offered_incompatible_qos_status(writer, &incompatible)) != DDS_RETCODE_OK)
        return result;
    *status = (campanile_dds_status){
        .matched_now = matched.current_count,
        .matched_total = matched.total_count,
        .incompatible_total = incompatible.total_count,
    };
    return DDS_RETCODE_OK;
}

int32_t campanile_dds_reader_status(int32_t reader, campanile_dds_status *status)
{
    dds_subscription_matched_status_t matched;
    dds_requested_incompatible_qos_status_t incompatible;
    dds_sample_lost_status_t lost;
    dds_sample_rejected_status_t rejected;
    int32_t result;
    if ((result = dds_get_subscription_matched_status(reader, &matched)) != DDS_RETCODE_OK)
        return result;
    if ((result = dds_get_requested_incompatible_qos_status(reader, &incompatible)) != DDS_RETCODE_OK)
        return result;
    if ((result = dds_get_sample_lost_status(reader, &lost)) != DDS_RETCODE_OK)
        return result;
    if ((result = dds_get_sample_rejected_status(reader, &rejected)) != DDS_RETCODE_OK)
        return result;
    *status = (campanile_dds_status){
        .matched_now = matched.current_count,
        .matched_total = matched.total_count,
        .incompatible_total = incompatible.total_count,
        .lost_total = lost.total_count,
        .rejected_total = rejected.total_count,
    };
    return DDS_RETCODE_OK;
}

/* ---- Readers that a writer waits for ----
 *
 * DDS has no way to say that a reader is to be waited for no more, and Cyclone has: it is what happens when one is gone. The same is done here
 * with one that is there: its match is taken out of the writer, and put back. Cyclone's rules for that hold: entities that were looked up stay
 * as long as the thread is awake, and a match is looked at only under the writer's lock, which these functions of Cyclone's take themselves. */

static ddsi_guid_t guid_of(const uint8_t *octets)
{
    ddsi_guid_t guid;
    memcpy(&guid, octets, sizeof guid);
    return ddsi_ntoh_guid(guid);
}

/* The domain in which a writer is, which outlives it, and what it is called there. */
static int32_t domain_of_writer(int32_t writer, struct ddsi_domaingv **domain, ddsi_guid_t *guid)
{
    const struct ddsi_sertype *type;
    dds_guid_t found;
    int32_t result;
    if ((result = dds_get_entity_sertype(writer, &type)) != DDS_RETCODE_OK)
        return result;
    if ((result = dds_get_guid(writer, &found)) != DDS_RETCODE_OK)
        return result;
    *domain = ddsrt_atomic_ldvoidp(&type->gv);
    *guid = guid_of(found.v);
    return *domain != NULL ? DDS_RETCODE_OK : DDS_RETCODE_PRECONDITION_NOT_MET;
}

struct confirmed {
    ddsi_guid_t reader;
    uint64_t count;
};

/* Those that are waited for. The list is to be freed. */
static uint32_t reliable_of(struct ddsi_writer *writer, struct confirmed **list, uint64_t *written)
{
    uint32_t count = 0;
    ddsrt_avl_iter_t at;
    ddsrt_mutex_lock(&writer->e.lock);
    *written = writer->seq;
    *list = dds_alloc((writer->num_readers + 1) * sizeof **list);
    for (struct ddsi_wr_prd_match *match = ddsrt_avl_iter_first(&ddsi_wr_readers_treedef, &writer->readers, &at);
         match != NULL && count < writer->num_readers; match = ddsrt_avl_iter_next(&at)) {
        /* One that is not waited for has the highest number that there is: who is not reliable, or about to go. */
        if (match->seq <= writer->seq)
            (*list)[count++] = (struct confirmed){match->prd_guid, match->seq};
    }
    ddsrt_mutex_unlock(&writer->e.lock);
    return count;
}

static void visit_reliable(struct ddsi_proxy_reader *reader, uint64_t confirmed, uint64_t written, void (*visit)(void *, const campanile_dds_reliable *), void *context)
{
    struct ddsi_proxy_participant *participant = reader->c.proxypp;
    ddsi_guid_t key = ddsi_hton_guid(reader->e.guid), of = ddsi_hton_guid(participant->e.guid);
    char address[DDSI_LOCSTRLEN], *host = NULL, *process = NULL, *pid = NULL;
    ddsi_locator_to_string(address, sizeof address, &reader->c.loc_uc.c);
    ddsrt_mutex_lock(&participant->e.qos_lock);
    const dds_qos_t *qos = &participant->plist->qos;
    dds_qget_prop(qos, DDS_BUILTIN_TOPIC_PARTICIPANT_PROPERTY_HOSTNAME, &host);
    dds_qget_prop(qos, DDS_BUILTIN_TOPIC_PARTICIPANT_PROPERTY_PROCESS_NAME, &process);
    dds_qget_prop(qos, DDS_BUILTIN_TOPIC_PARTICIPANT_PROPERTY_PID, &pid);
    ddsrt_mutex_unlock(&participant->e.qos_lock);
    campanile_dds_reliable found = {.confirmed = confirmed, .written = written, .address = address, .host = host, .process = process, .pid = pid};
    memcpy(found.key, &key, sizeof found.key);
    memcpy(found.participant, &of, sizeof found.participant);
    visit(context, &found);
    dds_free(host);
    dds_free(process);
    dds_free(pid);
}

int32_t campanile_dds_reliable_readers(int32_t entity, void (*visit)(void *, const campanile_dds_reliable *), void *context)
{
    struct ddsi_domaingv *domain;
    ddsi_guid_t guid;
    int32_t result = domain_of_writer(entity, &domain, &guid);
    if (result != DDS_RETCODE_OK)
        return result;
    struct ddsi_thread_state *thread = ddsi_lookup_thread_state();
    ddsi_thread_state_awake(thread, domain);
    struct ddsi_writer *writer = ddsi_entidx_lookup_writer_guid(domain->entity_index, &guid);
    if (writer == NULL) {
        result = DDS_RETCODE_ALREADY_DELETED;
    } else {
        struct confirmed *list;
        uint64_t written;
        uint32_t count = reliable_of(writer, &list, &written);
        for (uint32_t i = 0; i < count; i++) {
            struct ddsi_proxy_reader *reader = ddsi_entidx_lookup_proxy_reader_guid(domain->entity_index, &list[i].reader);
            if (reader != NULL)
                visit_reliable(reader, list[i].count, written, visit, context);
        }
        dds_free(list);
    }
    ddsi_thread_state_asleep(thread);
    return result;
}

typedef void (*with_match)(struct ddsi_writer *writer, struct ddsi_proxy_reader *reader);

static int32_t with_reader(int32_t entity, const uint8_t *key, with_match act)
{
    struct ddsi_domaingv *domain;
    ddsi_guid_t guid, of_reader = guid_of(key);
    int32_t result = domain_of_writer(entity, &domain, &guid);
    if (result != DDS_RETCODE_OK)
        return result;
    struct ddsi_thread_state *thread = ddsi_lookup_thread_state();
    ddsi_thread_state_awake(thread, domain);
    struct ddsi_writer *writer = ddsi_entidx_lookup_writer_guid(domain->entity_index, &guid);
    struct ddsi_proxy_reader *reader = ddsi_entidx_lookup_proxy_reader_guid(domain->entity_index, &of_reader);
    if (writer != NULL && reader != NULL)
        act(writer, reader);
    else
        result = DDS_RETCODE_NO_DATA;
    ddsi_thread_state_asleep(thread);
    return result;
}

static void unmatch(struct ddsi_writer *writer, struct ddsi_proxy_reader *reader)
{
    ddsi_proxy_reader_drop_connection(&reader->e.guid, writer);
    ddsi_writer_drop_connection(&writer->e.guid, reader);
}

static void match_again(struct ddsi_writer *writer, struct ddsi_proxy_reader *reader)
{
    ddsi_proxy_reader_add_connection(reader, writer, 0);
    ddsi_writer_add_connection(writer, reader, 0);
}

/* The writer goes on as if the reader were not there: neither sends it anything nor waits for it. */
int32_t campanile_dds_unmatch(int32_t writer, const uint8_t *reader) { return with_reader(writer, reader, unmatch); }

/* The reader gets what the writer writes from now on. */
int32_t campanile_dds_match_again(int32_t writer, const uint8_t *reader) { return with_reader(writer, reader, match_again); }

/* ---- Waiting ---- */

int32_t campanile_dds_waitset_create(int32_t participant) { return dds_create_waitset(participant); }

int32_t campanile_dds_guard_create(int32_t participant) { return dds_create_guardcondition(participant); }

int32_t campanile_dds_guard_set(int32_t guard, int32_t is_set) { return dds_set_guardcondition(guard, is_set != 0); }

int32_t campanile_dds_waitset_attach(int32_t waitset, int32_t entity, uint64_t token) { return dds_waitset_attach(waitset, entity, (dds_attach_t)token); }

int32_t campanile_dds_data_condition_create(int32_t reader) { return dds_create_readcondition(reader, DDS_ANY_STATE); }

int32_t campanile_dds_news_condition_create(int32_t reader)
{
    return dds_create_readcondition(reader, DDS_NOT_READ_SAMPLE_STATE | DDS_ANY_VIEW_STATE | DDS_ANY_INSTANCE_STATE);
}

static void visit_endpoint(const dds_builtintopic_endpoint_t *found, uint64_t handle, void (*visit)(void *, const campanile_dds_endpoint *), void *context);

/* Takes all samples in a state, and shows them if somebody is to see them. */
static int32_t take_all(int32_t reader, uint32_t state, void (*visit)(void *, const campanile_dds_endpoint *), void *context)
{
    enum { AT_ONCE = 64 };
    void *samples[AT_ONCE];
    dds_sample_info_t information[AT_ONCE];
    int32_t taken;
    do {
        memset(samples, 0, sizeof samples);
        taken = dds_take_mask(reader, samples, information, AT_ONCE, AT_ONCE, state);
        for (int32_t i = 0; visit != NULL && i < taken; i++) {
            const dds_builtintopic_endpoint_t *found = samples[i];
            if (information[i].valid_data && information[i].instance_state == DDS_ALIVE_INSTANCE_STATE) {
                visit_endpoint(found, information[i].instance_handle, visit, context);
            } else {
                campanile_dds_endpoint gone = {.is_gone = 1};
                memcpy(gone.key, found->key.v, 16);
                visit(context, &gone);
            }
        }
        if (taken > 0)
            dds_return_loan(reader, samples, taken);
    } while (taken == AT_ONCE);
    return taken < 0 ? taken : DDS_RETCODE_OK;
}

/* A reader that is for news alone has none any more. */
int32_t campanile_dds_news_take(int32_t reader, void (*visit)(void *, const campanile_dds_endpoint *), void *context)
{
    return take_all(reader, DDS_ANY_SAMPLE_STATE | DDS_ANY_VIEW_STATE | DDS_ANY_INSTANCE_STATE, visit, context);
}

_Static_assert(sizeof(dds_attach_t) == sizeof(uint64_t), "Cyclone has tokens as they are");

/* How many were written to `tokens`, which has room for `count`. */
int32_t campanile_dds_waitset_wait(int32_t waitset, uint64_t *tokens, size_t count, int64_t timeout)
{
    int32_t result = dds_waitset_wait(waitset, (dds_attach_t *)tokens, count, timeout);
    if (result < 0)
        return result;
    return (size_t)result < count ? result : (int32_t)count;
}

/* ---- Discovery ---- */

int32_t campanile_dds_builtin_create(int32_t participant, int32_t kind)
{
    static const dds_entity_t topics[] = {DDS_BUILTIN_TOPIC_DCPSSUBSCRIPTION, DDS_BUILTIN_TOPIC_DCPSPUBLICATION, DDS_BUILTIN_TOPIC_DCPSPARTICIPANT};
    return dds_create_reader(participant, topics[kind], NULL, NULL);
}

int32_t campanile_dds_participant_of(int32_t builtin, uint64_t handle, void (*visit)(void *, const campanile_dds_participant *), void *context)
{
    void *samples[1] = {NULL};
    dds_sample_info_t information;
    int32_t read = dds_read_instance(builtin, samples, &information, 1, 1, handle);
    if (read <= 0)
        return read < 0 ? read : DDS_RETCODE_NO_DATA;
    char *name = NULL, *addresses = NULL, *host = NULL, *process = NULL, *pid = NULL;
    const dds_builtintopic_participant_t *found = samples[0];
    if (information.valid_data && found->qos != NULL) {
        dds_qget_entity_name(found->qos, &name);
        dds_qget_prop(found->qos, DDS_BUILTIN_TOPIC_PARTICIPANT_PROPERTY_NETWORKADDRESSES, &addresses);
        dds_qget_prop(found->qos, DDS_BUILTIN_TOPIC_PARTICIPANT_PROPERTY_HOSTNAME, &host);
        dds_qget_prop(found->qos, DDS_BUILTIN_TOPIC_PARTICIPANT_PROPERTY_PROCESS_NAME, &process);
        dds_qget_prop(found->qos, DDS_BUILTIN_TOPIC_PARTICIPANT_PROPERTY_PID, &pid);
        visit(context, &(campanile_dds_participant){.name = name, .addresses = addresses, .host = host, .process = process, .pid = pid});
    }
    dds_return_loan(builtin, samples, read);
    dds_free(name);
    dds_free(addresses);
    dds_free(host);
    dds_free(process);
    dds_free(pid);
    return DDS_RETCODE_OK;
}

static campanile_dds_policies policies_of(const dds_qos_t *qos)
{
    dds_reliability_kind_t reliability = DDS_RELIABILITY_BEST_EFFORT;
    dds_durability_kind_t durability = DDS_DURABILITY_VOLATILE;
    dds_ownership_kind_t ownership = DDS_OWNERSHIP_SHARED;
    dds_destination_order_kind_t order = DDS_DESTINATIONORDER_BY_RECEPTION_TIMESTAMP;
    dds_liveliness_kind_t liveliness = DDS_LIVELINESS_AUTOMATIC;
    dds_presentation_access_scope_kind_t scope = DDS_PRESENTATION_INSTANCE;
    bool coherent = false, ordered = false;
    uint32_t count = 0;
    dds_data_representation_id_t *ids = NULL;
    campanile_dds_policies of = {.deadline = DDS_INFINITY, .lease = DDS_INFINITY, .representations = 1};
    dds_qget_reliability(qos, &reliability, NULL);
    dds_qget_durability(qos, &durability);
    dds_qget_ownership(qos, &ownership);
    dds_qget_destination_order(qos, &order);
    dds_qget_liveliness(qos, &liveliness, &of.lease);
    dds_qget_presentation(qos, &scope, &coherent, &ordered);
    dds_qget_deadline(qos, &of.deadline);
    dds_qget_latency_budget(qos, &of.latency_budget);
    if (dds_qget_data_representation(qos, &count, &ids) && count > 0) {
        of.representation = ids[0];
        of.representations = 0;
        for (uint32_t i = 0; i < count; i++)
            of.representations |= ids[i] >= 0 && ids[i] < 31 ? 1 << ids[i] : 0;
    }
    dds_free(ids);
    of.reliability = (int32_t)reliability;
    of.durability = (int32_t)durability;
    of.ownership = (int32_t)ownership;
    of.destination_order = (int32_t)order;
    of.liveliness = (int32_t)liveliness;
    of.presentation = (int32_t)scope << 2 | coherent << 1 | ordered;
    return of;
}

static void visit_endpoint(const dds_builtintopic_endpoint_t *found, uint64_t handle, void (*visit)(void *, const campanile_dds_endpoint *), void *context)
{
    campanile_dds_endpoint endpoint = {.handle = handle, .participant_handle = found->participant_instance_handle, .topic = found->topic_name, .type = found->type_name};
    memcpy(endpoint.key, found->key.v, 16);
    memcpy(endpoint.participant, found->participant_key.v, 16);
    uint32_t partition_count = 0;
    char **partitions = NULL;
    void *user_data = NULL;
    size_t user_data_length = 0;
    if (found->qos != NULL) {
        if (dds_qget_partition(found->qos, &partition_count, &partitions)) {
            endpoint.partitions = (const char *const *)partitions;
            endpoint.partition_count = partition_count;
        }
        if (dds_qget_userdata(found->qos, &user_data, &user_data_length)) {
            endpoint.user_data = user_data;
            endpoint.user_data_length = user_data_length;
        }
        endpoint.policies = policies_of(found->qos);
        const dds_typeinfo_t *information = NULL;
        if (dds_builtintopic_get_endpoint_type_info((dds_builtintopic_endpoint_t *)found, &information) == DDS_RETCODE_OK && information != NULL) {
            const ddsi_typeid_t *id = ddsi_typeinfo_complete_typeid(information);
            if (id != NULL && !ddsi_typeid_is_none(id)) {
                struct ddsi_typeid_str text;
                endpoint.is_typed = 1;
                ddsi_make_typeid_str(&text, id);
                strncpy(endpoint.type_id, text.str, sizeof endpoint.type_id - 1);
            }
        }
    }
    visit(context, &endpoint);
    for (uint32_t i = 0; i < partition_count; i++)
        dds_free(partitions[i]);
    dds_free(partitions);
    dds_free(user_data);
}

enum { ENDPOINTS_MAX = 4096 };

/* Those that are alive. */
int32_t campanile_dds_endpoints(int32_t builtin, void (*visit)(void *, const campanile_dds_endpoint *), void *context)
{
    static const uint32_t state = DDS_ANY_SAMPLE_STATE | DDS_ANY_VIEW_STATE | DDS_ALIVE_INSTANCE_STATE;
    void **samples = dds_alloc(ENDPOINTS_MAX * sizeof *samples);
    dds_sample_info_t *information = dds_alloc(ENDPOINTS_MAX * sizeof *information);
    int32_t read = DDS_RETCODE_OUT_OF_RESOURCES;
    if (samples != NULL && information != NULL) {
        memset(samples, 0, ENDPOINTS_MAX * sizeof *samples);
        read = dds_read_mask(builtin, samples, information, ENDPOINTS_MAX, ENDPOINTS_MAX, state);
        for (int32_t i = 0; i < read; i++) {
            if (information[i].valid_data)
                visit_endpoint(samples[i], information[i].instance_handle, visit, context);
        }
        if (read > 0)
            dds_return_loan(builtin, samples, read);
        /* Of those that are gone something would stay for good. */
        take_all(builtin, DDS_ANY_SAMPLE_STATE | DDS_ANY_VIEW_STATE | DDS_NOT_ALIVE_DISPOSED_INSTANCE_STATE | DDS_NOT_ALIVE_NO_WRITERS_INSTANCE_STATE, NULL, NULL);
    }
    dds_free(samples);
    dds_free(information);
    return read;
}

typedef int32_t (*with_type)(int32_t participant, const dds_typeinfo_t *information, int64_t timeout, void *context);

static int32_t with_endpoint_type(int32_t participant, int32_t builtin, uint64_t handle, int64_t timeout, with_type act, void *context)
{
    void *samples[1] = {NULL};
    dds_sample_info_t information;
    int32_t read = dds_read_instance(builtin, samples, &information, 1, 1, handle);
    if (read <= 0)
        return read < 0 ? read : DDS_RETCODE_NO_DATA;
    int32_t result = DDS_RETCODE_NO_DATA;
    const dds_typeinfo_t *type = NULL;
    if (information.valid_data && dds_builtintopic_get_endpoint_type_info(samples[0], &type) == DDS_RETCODE_OK && type != NULL)
        result = act(participant, type, timeout, context);
    dds_return_loan(builtin, samples, read);
    return result;
}

struct description {
    uint8_t **bytes;
    size_t *length;
};

static int32_t describe(int32_t participant, const dds_typeinfo_t *information, int64_t timeout, void *context)
{
    struct description *description = context;
    return campanile_dds_describe(participant, information, timeout, description->bytes, description->length);
}

int32_t campanile_dds_endpoint_describe(int32_t participant, int32_t builtin, uint64_t handle, int64_t timeout, uint8_t **bytes, size_t *length)
{
    struct description description = {bytes, length};
    return with_endpoint_type(participant, builtin, handle, timeout, describe, &description);
}

static int32_t topic_of(int32_t participant, const dds_typeinfo_t *information, int64_t timeout, void *context)
{
    dds_topic_descriptor_t *descriptor = NULL;
    int32_t result = dds_create_topic_descriptor(DDS_FIND_SCOPE_GLOBAL, participant, information, timeout, &descriptor);
    if (result != DDS_RETCODE_OK)
        return result;
    result = dds_create_topic(participant, descriptor, context, NULL, NULL);
    dds_delete_topic_descriptor(descriptor);
    return result;
}

/* A topic of exactly the type that a discovered endpoint has. */
int32_t campanile_dds_endpoint_topic(int32_t participant, int32_t builtin, uint64_t handle, int64_t timeout, const char *name)
{
    return with_endpoint_type(participant, builtin, handle, timeout, topic_of, (void *)name);
}

int32_t campanile_dds_topic_type_id(int32_t topic, char *text, size_t capacity)
{
    dds_typeinfo_t *information = NULL;
    int32_t result = dds_get_typeinfo(topic, &information);
    if (result != DDS_RETCODE_OK)
        return result;
    const ddsi_typeid_t *id = ddsi_typeinfo_complete_typeid(information);
    if (id == NULL || ddsi_typeid_is_none(id)) {
        result = DDS_RETCODE_NO_DATA;
    } else {
        struct ddsi_typeid_str buffer;
        ddsi_make_typeid_str(&buffer, id);
        strncpy(text, buffer.str, capacity - 1);
        text[capacity - 1] = 0;
    }
    dds_free_typeinfo(information);
    return result;
}
