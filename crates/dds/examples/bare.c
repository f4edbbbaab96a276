/* `latency.rs` in C, with Cyclone's own interface and C structs: what the crate is measured against. The type alone is made as the crate does.
 *
 *   built=$(ls -td target/release/build/campanile-dds-*\/out | head -1)
 *   cc -O2 -I$built/include -Icrates/dds/shim crates/dds/examples/bare.c -L$built -L$built/lib -lcampanile_ddsc_shim -lddsc -lpthread -ldl -lm -o bare
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim.h"

typedef struct { uint32_t _maximum, _length; uint8_t *_buffer; bool _release; } octets;
typedef struct { uint32_t number; octets octets; } blob;

static dds_entity_t participant, writer, reader, set;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static dds_entity_t topic(const char *name)
{
    int32_t error = 0;
    campanile_type *type = campanile_type_structure(participant, "bench::Blob", &error);
    campanile_type_add_member(type, "number", campanile_type_primitive(7));
    campanile_type_add_member(type, "octets", campanile_type_sequence(participant, "sequence", campanile_type_primitive(2), 0, &error));
    dds_entity_t made = campanile_topic_create(participant, name, type);
    campanile_type_free(type);
    return made;
}

static void begin(const char *writes, const char *reads)
{
    dds_create_domain(71, "<CycloneDDS><Domain><General><Interfaces><NetworkInterface address=\"127.0.0.1\"/></Interfaces><AllowMulticast>false</AllowMulticast></General>"
                          "<Discovery><Peers><Peer address=\"127.0.0.1\"/></Peers><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>31</MaxAutoParticipantIndex></Discovery>"
                          "<Internal><Watermarks><WhcHigh>1048576 B</WhcHigh></Watermarks></Internal></Domain></CycloneDDS>");
    participant = dds_create_participant(71, NULL, NULL);
    dds_qos_t *qos = dds_create_qos();
    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(10));
    dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 1);
    dds_qset_resource_limits(qos, 4096, -1, -1);
    writer = dds_create_writer(participant, topic(writes), qos, NULL);
    reader = dds_create_reader(participant, topic(reads), qos, NULL);
    set = dds_create_waitset(participant);
    dds_waitset_attach(set, dds_create_readcondition(reader, DDS_ANY_STATE), 0);
    dds_publication_matched_status_t written;
    dds_subscription_matched_status_t read;
    do {
        dds_sleepfor(DDS_MSECS(10));
        dds_get_publication_matched_status(writer, &written);
        dds_get_subscription_matched_status(reader, &read);
    } while (written.current_count == 0 || read.current_count == 0);
}

static int32_t next(void **samples, dds_sample_info_t *information)
{
    dds_attach_t fired[1];
    dds_waitset_wait(set, fired, 1, DDS_SECS(10));
    samples[0] = NULL;
    return dds_take(reader, samples, information, 64, 64);
}

static int compare(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

int main(int argc, char **argv)
{
    void *samples[64];
    dds_sample_info_t information[64];
    if (argc < 2)
        return 1;
    uint32_t a = argc > 2 ? strtoul(argv[2], NULL, 10) : 0, b = argc > 3 ? strtoul(argv[3], NULL, 10) : 0, c = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
    uint32_t last = 0, size = strcmp(argv[1], "ask") == 0 ? c : b;
    blob value = {.octets = {size, size, calloc(1, size + 1), false}};
    if (strcmp(argv[1], "answer") == 0) {
        begin("Answer", "Ask");
        while (last != UINT32_MAX) {
            int32_t taken = next(samples, information);
            for (int32_t i = 0; i < taken; i++) {
                last = ((blob *)samples[i])->number;
                dds_write(writer, samples[i]);
            }
            if (taken <= 0)
                break;
            dds_return_loan(reader, samples, taken);
        }
    } else if (strcmp(argv[1], "ask") == 0) {
        begin("Ask", "Answer");
        double *times = calloc(b, sizeof *times), began = now();
        for (uint32_t turn = 0; turn < b; turn++) {
            double due = began + 1e6 / a * turn;
            while (now() < due)
                dds_sleepfor((dds_duration_t)((due - now()) * 1e3) + 1);
            double sent = now();
            value.number = turn;
            dds_write(writer, &value);
            for (int back = 0; !back;) {
                int32_t taken = next(samples, information);
                for (int32_t i = 0; i < taken; i++)
                    back |= ((blob *)samples[i])->number == turn;
                if (taken > 0)
                    dds_return_loan(reader, samples, taken);
            }
            times[turn] = now() - sent;
        }
        value.number = UINT32_MAX;
        dds_write(writer, &value);
        next(samples, information);
        qsort(times, b, sizeof *times, compare);
        fprintf(stderr, "bare: one way p50 %.1f us, p99 %.1f us\n", times[b / 2] / 2, times[b * 99ull / 100] / 2);
    } else if (strcmp(argv[1], "count") == 0) {
        begin("Answer", "Ask");
        uint32_t count = 0;
        double began = 0;
        while (last != UINT32_MAX) {
            int32_t taken = next(samples, information);
            if (count == 0 && taken > 0)
                began = now();
            for (int32_t i = 0; i < taken; i++)
                last = ((blob *)samples[i])->number, count++;
            if (taken > 0)
                dds_return_loan(reader, samples, taken);
        }
        fprintf(stderr, "bare: %.0f a second, %u of them\n", count / (now() - began) * 1e6, count);
        dds_write(writer, &value);
        dds_wait_for_acks(writer, DDS_SECS(5));
    } else {
        begin("Ask", "Answer");
        for (uint32_t turn = 0; turn <= a; turn++) {
            value.number = turn == a ? UINT32_MAX : turn;
            while (dds_write(writer, &value) == DDS_RETCODE_TIMEOUT) {}
        }
        next(samples, information);
    }
    dds_delete(participant);
    return 0;
}
