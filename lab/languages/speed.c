/* How fast C is: speed supplier|consumer CHANNEL. What it is told and answers, README.md says. */

#include <campanile.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OK(call)                                                              \
    do {                                                                      \
        if ((call) != CAMPANILE_STATUS_OK) {                                  \
            fprintf(stderr, "%s: %s\n", #call, campanile_last_error());       \
            _Exit(1);                                                         \
        }                                                                     \
    } while (0)

enum { LATENCIES_MAX = 100000 };

/* As it lies in CDR: the padding behind it is left out. */
struct wind {
    uint64_t sent_ns;
    double speed;
    float direction;
    uint32_t station_size;
    char station[6];
};
enum { WIND_SIZE = 30 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t count, wanted = UINT64_MAX, last, latencies[LATENCIES_MAX];

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void sleep_until(uint64_t due) {
    const struct timespec time = {(time_t)(due / 1000000000), (long)(due % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0) {
    }
}

static int32_t on_wind(void *context, const campanile_event *event) {
    struct wind wind;
    (void)context;
    if (event->cdr_size != WIND_SIZE) {
        return CAMPANILE_ANSWER_FAILED;
    }
    memcpy(&wind, event->cdr, WIND_SIZE);
    const uint64_t at = now();
    pthread_mutex_lock(&mutex);
    if (wind.sent_ns > 0 && count < LATENCIES_MAX) {
        latencies[count] = at - wind.sent_ns;
    }
    last = at;
    if (++count >= wanted) {
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&mutex);
    return CAMPANILE_ANSWER_DONE;
}

static void take(uint64_t events, int are_timed) {
    pthread_mutex_lock(&mutex);
    wanted = events;
    while (count < wanted) {
        pthread_cond_wait(&changed, &mutex);
    }
    printf("answer: {\"last\":%" PRIu64 ",\"latencies\":[", last);
    for (uint64_t i = 0; are_timed && i < events; i++) {
        printf("%s%" PRIu64, i > 0 ? "," : "", latencies[i]);
    }
    printf("]}\n");
    count = 0;
    wanted = UINT64_MAX;
    pthread_mutex_unlock(&mutex);
}

int main(int argc, char **argv) {
    campanile_type *type;
    campanile_consumer *consumer = NULL;
    campanile_supplier *supplier = NULL;
    campanile_publisher *publisher = NULL;
    char line[128];
    if (argc != 3) {
        return 2;
    }
    OK(campanile_type_new(
        "struct Wind { unsigned long long sent_ns; double speed; float direction; string station; };", NULL, NULL, &type));
    if (strcmp(argv[1], "consumer") == 0) {
        OK(campanile_consumer_new(argv[2], NULL, &consumer));
        OK(campanile_consumer_on(consumer, type, on_wind, NULL, NULL));
        OK(campanile_consumer_ready(consumer));
    } else {
        OK(campanile_supplier_new(argv[2], NULL, &supplier));
        OK(campanile_publisher_new(supplier, NULL, &publisher));
    }
    printf("answer: started\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        char what[16];
        uint64_t events, number;
        struct wind wind = {0, 11.5, 270, 6, "north"};
        if (sscanf(line, "\"%15s %" SCNu64 " %" SCNu64, what, &events, &number) != 3) {
            return 2;
        }
        const uint64_t began = now();
        if (strcmp(what, "take") == 0) {
            take(events, number != 0);
        } else if (strcmp(what, "flood") == 0) {
            for (uint64_t i = 0; i < events; i++) {
                OK(campanile_publisher_publish(publisher, type, (const uint8_t *)&wind, WIND_SIZE, NULL));
            }
            campanile_tally tally;
            OK(campanile_publisher_sync(publisher, &tally));
            printf("answer: {\"began\":%" PRIu64 ",\"lost\":%" PRIu64 "}\n", began, tally.published - tally.confirmed);
        } else {
            for (uint64_t i = 1; i <= events; i++) {
                sleep_until(began + i * number);
                wind.sent_ns = now();
                OK(campanile_supplier_publish(supplier, type, (const uint8_t *)&wind, WIND_SIZE));
            }
            printf("answer: {\"began\":%" PRIu64 ",\"lost\":0}\n", began);
        }
        fflush(stdout);
    }
    campanile_publisher_free(publisher);
    campanile_supplier_free(supplier);
    campanile_consumer_free(consumer);
    campanile_type_free(type);
    return 0;
}
