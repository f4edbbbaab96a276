/* What the Rust side calls: plain numbers, pointers and handles, so that no layout of Cyclone's is written down twice.
 *
 * Results are Cyclone's: negative for errors. `src/raw.rs` declares each of these functions; the two change together. */
#ifndef CAMPANILE_SHIM_H
#define CAMPANILE_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <dds/dds.h>

typedef struct campanile_dds_type campanile_dds_type;

/* Durations are nanoseconds; `DDS_INFINITY` is INT64_MAX. A count that is -1 has no limit. */
typedef struct campanile_dds_qos {
    int32_t reliable;
    int64_t blocking_max;
    int32_t keep_all; /* or keep the last `depth` */
    int32_t depth;
    int32_t samples_max;
    int32_t transient_local;
    int32_t late_depth; /* of the durability service's own history */
    int64_t deadline;   /* 0: none */
    int64_t lifespan;   /* 0: none */
    int32_t transport_priority;
    int32_t ignore_own;
    int32_t representations; /* bit 0: XCDR1, bit 1: XCDR2 */
    const char *const *partitions;
    uint32_t partition_count;
    const uint8_t *user_data;
    size_t user_data_length;
} campanile_dds_qos;

/* What an endpoint offers or asks for, as Cyclone has it: of kinds, what is more has the higher number. */
typedef struct campanile_dds_policies {
    int32_t reliability, durability, ownership, destination_order;
    int32_t liveliness;
    int32_t presentation;    /* access scope, and behind it a bit each: coherent, ordered */
    int32_t representation;  /* of a writer, the one in which it writes */
    int32_t representations; /* of a reader, a bit for each that it reads */
    int64_t deadline, latency_budget, lease;
} campanile_dds_policies;

typedef struct campanile_dds_endpoint {
    uint8_t key[16];
    uint8_t participant[16];
    uint64_t handle;
    uint64_t participant_handle;
    int32_t is_gone; /* then only `key` counts */
    const char *topic;
    const char *type;
    const char *const *partitions;
    uint32_t partition_count;
    const uint8_t *user_data;
    size_t user_data_length;
    campanile_dds_policies policies;
    int32_t is_typed;
    char type_id[64];
} campanile_dds_endpoint;

/* What a participant says of itself. What it does not say is NULL. */
typedef struct campanile_dds_participant {
    const char *name;
    const char *addresses;
    const char *host;
    const char *process;
    const char *pid;
} campanile_dds_participant;

typedef struct campanile_dds_sample {
    const uint8_t *bytes; /* behind the encapsulation header, without its padding */
    size_t length;
    uint16_t encapsulation; /* as on the wire, read as big-endian */
    int32_t is_valid;
    int64_t source_timestamp;
    uint64_t publication;
} campanile_dds_sample;

typedef struct campanile_dds_status {
    uint32_t matched_now, matched_total;
    uint32_t incompatible_total;
    uint32_t lost_total, rejected_total; /* readers only */
} campanile_dds_status;

/* A reader elsewhere that a writer waits for. Where its participant does not say what it is, the text is NULL. */
typedef struct campanile_dds_reliable {
    uint8_t key[16];
    uint8_t participant[16];
    uint64_t confirmed; /* so many of the writer's samples, from its first one on */
    uint64_t written;   /* by the writer */
    const char *address;
    const char *host;
    const char *process;
    const char *pid;
} campanile_dds_reliable;

/* shim.c */
void campanile_dds_listen(void (*heard)(const char *message, size_t length));
int32_t campanile_dds_domain_create(uint32_t id, const char *configuration);
int32_t campanile_dds_participant_create(uint32_t domain, const char *name);
int32_t campanile_dds_delete(int32_t entity);
const char *campanile_dds_error_text(int32_t result);
int32_t campanile_dds_guid(int32_t entity, uint8_t *guid);
int32_t campanile_dds_writer_create(int32_t participant, int32_t topic, const campanile_dds_qos *qos);
/* From when on `*is_over` is not 0 the reader keeps nothing more; it is looked at until the reader has been deleted. */
int32_t campanile_dds_reader_create(int32_t participant, int32_t topic, const campanile_dds_qos *qos, const uint8_t *is_over);
int32_t campanile_dds_write(int32_t writer, const uint8_t *cdr, size_t length, int64_t source_timestamp);
int32_t campanile_dds_wait_for_acknowledgments(int32_t writer, int64_t timeout);
int32_t campanile_dds_take(int32_t reader, uint32_t count, void (*visit)(void *context, const campanile_dds_sample *sample), void *context);
int32_t campanile_dds_writer_status(int32_t writer, campanile_dds_status *status);
int32_t campanile_dds_reader_status(int32_t reader, campanile_dds_status *status);
int32_t campanile_dds_reliable_readers(int32_t writer, void (*visit)(void *context, const campanile_dds_reliable *reader), void *context);
int32_t campanile_dds_unmatch(int32_t writer, const uint8_t *reader);
int32_t campanile_dds_match_again(int32_t writer, const uint8_t *reader);
int32_t campanile_dds_waitset_create(int32_t participant);
int32_t campanile_dds_guard_create(int32_t participant);
int32_t campanile_dds_guard_set(int32_t guard, int32_t is_set);
int32_t campanile_dds_waitset_attach(int32_t waitset, int32_t entity, uint64_t token);
int32_t campanile_dds_data_condition_create(int32_t reader);
int32_t campanile_dds_news_condition_create(int32_t reader);
int32_t campanile_dds_news_take(int32_t reader, void (*visit)(void *context, const campanile_dds_endpoint *endpoint), void *context);
int32_t campanile_dds_waitset_wait(int32_t waitset, uint64_t *tokens, size_t count, int64_t timeout);
/* 0: of readers, 1: of writers, 2: of participants */
int32_t campanile_dds_builtin_create(int32_t participant, int32_t kind);
int32_t campanile_dds_participant_of(int32_t builtin, uint64_t handle, void (*visit)(void *context, const campanile_dds_participant *found), void *context);
int32_t campanile_dds_endpoints(int32_t builtin, void (*visit)(void *context, const campanile_dds_endpoint *endpoint), void *context);
int32_t campanile_dds_endpoint_describe(int32_t participant, int32_t builtin, uint64_t handle, int64_t timeout, uint8_t **bytes, size_t *length);
int32_t campanile_dds_endpoint_topic(int32_t participant, int32_t builtin, uint64_t handle, int64_t timeout, const char *name);
int32_t campanile_dds_topic_type_id(int32_t topic, char *text, size_t capacity);

/* types.c */
campanile_dds_type *campanile_dds_type_primitive(uint32_t kind);
campanile_dds_type *campanile_dds_type_string(int32_t participant, int wide, uint32_t bound, int32_t *error);
campanile_dds_type *campanile_dds_type_enumeration(int32_t participant, const char *name, int32_t *error);
int32_t campanile_dds_type_add_literal(campanile_dds_type *type, const char *name, int32_t value);
campanile_dds_type *campanile_dds_type_alias(int32_t participant, const char *name, campanile_dds_type *original, int32_t *error);
campanile_dds_type *campanile_dds_type_sequence(int32_t participant, const char *name, campanile_dds_type *element, uint32_t bound, int32_t *error);
campanile_dds_type *campanile_dds_type_array(int32_t participant, const char *name, campanile_dds_type *element, uint32_t dimensions, const uint32_t *lengths, int32_t *error);
campanile_dds_type *campanile_dds_type_structure(int32_t participant, const char *name, int32_t *error);
campanile_dds_type *campanile_dds_type_union(int32_t participant, const char *name, campanile_dds_type *discriminator, int32_t *error);
int32_t campanile_dds_type_add_member(campanile_dds_type *type, const char *name, campanile_dds_type *member);
int32_t campanile_dds_type_add_case(campanile_dds_type *type, const char *name, campanile_dds_type *member, uint32_t count, const int32_t *labels, int is_default);
void campanile_dds_type_free(campanile_dds_type *type);
int32_t campanile_dds_topic_create(int32_t participant, const char *name, campanile_dds_type *type, int is_told);
int32_t campanile_dds_describe(int32_t participant, const dds_typeinfo_t *information, int64_t timeout, uint8_t **bytes, size_t *length);
void campanile_dds_bytes_free(uint8_t *bytes);

#endif
