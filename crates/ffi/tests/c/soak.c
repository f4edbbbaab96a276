/* Subscribers that come and go, on a service and over DDS at once: soak VISITS DOMAIN PERIOD_MS.
 *
 * On each transport one thread publishes two events each period, one consumer stays, and gets each event once and in order, and two threads
 * make consumers of all sorts and end them in all ways, so many each. When those are gone, a line that begins with `> ` tells as JSON how
 * many there were and what is on the heap. A line `done` has it go on; when there is none, all is freed and the same is told once more. The
 * library must have nothing to log. */

#include "must.h"

#include <campanile.h>

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void); /* which gcc has no header for */
#endif

static const char IDL[] = "struct Reading { unsigned long long number; unsigned long source; double value; sequence<octet> raw; };";
static const char CHANNEL[] = "Soak";

enum { RAW = 400, CHURNERS = 2 };

/* As it lies in CDR: nothing stands behind the last octet. */
struct reading {
    uint64_t number;
    uint32_t source;
    double value;
    uint32_t raw_size;
    uint8_t raw[RAW];
};
enum { READING_SIZE = 8 + 4 + 4 + 8 + 4 + RAW };

/* Whose an event is: those that are answered one by one, gathered ones, and those of a supplier that comes and goes. */
enum source { ANSWERED, GATHERED, PASSING, SOURCES };

/* A supplier, a consumer that stays, and what has come and gone. */
struct transport {
    const char *name;
    campanile_settings *settings;
    campanile_type *type;
    campanile_supplier *supplier;
    campanile_publisher *publisher;
    campanile_consumer *stays;
    uint64_t published[SOURCES - 1];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t received[SOURCES - 1]; /* by the consumer that stays */
    atomic_uint_fast64_t subscribers;
    atomic_uint_fast64_t suppliers;
};

/* How many consumers each thread makes. */
static uint64_t visits;
static long period_ns;
/* Those who publish are to stop. */
static atomic_bool is_over;

static struct reading reading(enum source source, uint64_t number) {
    struct reading reading = {.number = number, .source = source, .value = 11.5, .raw_size = RAW};
    memset(reading.raw, (int)number & 255, RAW);
    return reading;
}

/* What came, which has to be as it was published. */
static struct reading reading_of(const campanile_event *event) {
    struct reading reading;
    MUST(event->cdr_size == READING_SIZE);
    memcpy(&reading, event->cdr, READING_SIZE);
    MUST(reading.raw_size == RAW && reading.raw[0] == (reading.number & 255) && reading.raw[RAW - 1] == (reading.number & 255));
    return reading;
}

/* ---- who publishes, and who stays ---- */

static int32_t on_each(void *context, const campanile_event *event) {
    struct transport *transport = context;
    const struct reading came = reading_of(event);
    if (came.source != PASSING) {
        pthread_mutex_lock(&transport->mutex);
        if (came.number != ++transport->received[came.source]) {
            fprintf(stderr, "%s: event %" PRIu64 " of source %" PRIu32 " came in place of %" PRIu64 "\n", transport->name, came.number,
                came.source, transport->received[came.source]);
            _Exit(1);
        }
        pthread_cond_broadcast(&transport->changed);
        pthread_mutex_unlock(&transport->mutex);
    }
    return CAMPANILE_ANSWER_DONE;
}

static void *publish(void *context) {
    struct transport *transport = context;
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    while (!atomic_load(&is_over)) {
        const struct reading answered = reading(ANSWERED, ++transport->published[ANSWERED]);
        const struct reading gathered = reading(GATHERED, ++transport->published[GATHERED]);
        campanile_status status;
        do { /* readers may have been behind */
            status = campanile_supplier_publish(transport->supplier, transport->type, (const uint8_t *)&answered, READING_SIZE);
        } while (status == CAMPANILE_STATUS_SLOWED);
        OK(status);
        OK(campanile_publisher_publish(transport->publisher, transport->type, (const uint8_t *)&gathered, READING_SIZE, NULL));
        due.tv_nsec += period_ns;
        if (due.tv_nsec >= 1000000000) {
            due.tv_nsec -= 1000000000;
            ++due.tv_sec;
        }
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) != 0) {
        }
    }
    return NULL;
}

static void begin(struct transport *transport, const char *name, const char *domain) {
    transport->name = name;
    OK(campanile_settings_load(&transport->settings));
    OK(campanile_settings_set(transport->settings, "transport", name));
    OK(campanile_settings_set(transport->settings, "dds.domain_default", domain));
    OK(campanile_settings_set(transport->settings, "dds.interface", "127.0.0.1"));
    OK(campanile_settings_set(transport->settings, "dds.peers", "[\"127.0.0.1\"]"));
    OK(campanile_type_new(IDL, NULL, NULL, &transport->type));
    OK(campanile_consumer_new(CHANNEL, transport->settings, &transport->stays));
    OK(campanile_consumer_on(transport->stays, transport->type, on_each, transport, NULL));
    OK(campanile_consumer_ready(transport->stays));
    OK(campanile_supplier_new(CHANNEL, transport->settings, &transport->supplier));
    OK(campanile_publisher_new(transport->supplier, NULL, &transport->publisher));
}

/* Waits until all that was published has come to the consumer that stays. */
static void catch_up(struct transport *transport) {
    campanile_tally tally;
    OK(campanile_publisher_sync(transport->publisher, &tally));
    MUST(tally.published == transport->published[GATHERED] && tally.confirmed == tally.published);
    pthread_mutex_lock(&transport->mutex);
    for (int source = 0; source < SOURCES - 1; ++source) {
        while (transport->received[source] < transport->published[source]) {
            pthread_cond_wait(&transport->changed, &transport->mutex);
        }
    }
    pthread_mutex_unlock(&transport->mutex);
}

static void end(struct transport *transport) {
    campanile_publisher_free(transport->publisher);
    campanile_supplier_free(transport->supplier);
    campanile_consumer_free(transport->stays);
    campanile_type_free(transport->type);
    campanile_settings_free(transport->settings);
}

/* ---- who comes and goes ---- */

/* What a consumer is told, and what it has seen. */
struct visit {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t events, enough;
    int released;
};

static int32_t on_some(void *context, const campanile_event *event) {
    struct visit *visit = context;
    reading_of(event);
    pthread_mutex_lock(&visit->mutex);
    ++visit->events;
    const int has_enough = visit->enough > 0 && visit->events >= visit->enough;
    pthread_cond_signal(&visit->changed);
    pthread_mutex_unlock(&visit->mutex);
    return has_enough ? CAMPANILE_ANSWER_ENOUGH : CAMPANILE_ANSWER_DONE;
}

static int32_t on_whatever(void *context, const campanile_event *event) {
    char *json, *idl;
    OK(campanile_event_json(event, &json));
    OK(campanile_event_idl(event, &idl));
    MUST(strstr(json, "\"number\"") != NULL && strstr(idl, "Reading") != NULL);
    campanile_text_free(json);
    campanile_text_free(idl);
    struct visit *visit = context;
    pthread_mutex_lock(&visit->mutex);
    ++visit->events;
    pthread_cond_signal(&visit->changed);
    pthread_mutex_unlock(&visit->mutex);
    return CAMPANILE_ANSWER_DONE;
}

static void on_trouble(void *context, const campanile_trouble *trouble) {
    (void)context;
    /* On a machine that is busy with other things a callback may be slow; nothing else may be. */
    MUST(trouble->code == CAMPANILE_TROUBLE_CODE_SLOW);
}

static void on_release(void *context) {
    ++((struct visit *)context)->released; /* by the thread that frees */
}

static void wait_for(struct visit *visit, uint64_t events) {
    pthread_mutex_lock(&visit->mutex);
    while (visit->events < events) {
        pthread_cond_wait(&visit->changed, &visit->mutex);
    }
    pthread_mutex_unlock(&visit->mutex);
}

enum sort { CLOSED, FREED, HAS_ENOUGH, ASKS, OF_ANY, FILTERED, LEAVES_AT_ONCE, SORTS };

static void subscribe(struct transport *transport, enum sort sort, uint64_t events) {
    struct visit visit = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, sort == HAS_ENOUGH ? events : 0, 0};
    campanile_consumer *consumer;
    campanile_type *type;
    OK(campanile_type_new(IDL, "Reading", NULL, &type));
    OK(campanile_consumer_new(CHANNEL, transport->settings, &consumer));
    if (sort == OF_ANY) {
        OK(campanile_consumer_on_any(consumer, on_whatever, &visit, on_release));
    } else {
        OK(campanile_consumer_on(consumer, type, sort == ASKS ? NULL : on_some, &visit, on_release));
    }
    OK(campanile_consumer_on_trouble(consumer, on_trouble, &visit, on_release));
    if (sort == FILTERED) {
        OK(campanile_consumer_filter(consumer, "$source == 1 and $value > 10"));
    }
    campanile_type_free(type);
    OK(campanile_consumer_ready(consumer));
    if (sort == ASKS) {
        for (uint64_t taken = 0; taken < events; ++taken) {
            campanile_event *event;
            OK(campanile_consumer_next(consumer, -1, &event));
            reading_of(event);
            campanile_event_free(event);
        }
    } else if (sort != LEAVES_AT_ONCE) {
        wait_for(&visit, events);
    }
    if (sort == CLOSED) {
        OK(campanile_consumer_close(consumer));
        MUST(visit.released == 2 && campanile_consumer_has_ended(consumer));
    }
    campanile_consumer_free(consumer);
    MUST(visit.released == 2);
    atomic_fetch_add(&transport->subscribers, 1);
}

static void supply(struct transport *transport, uint64_t number) {
    const struct reading event = reading(PASSING, number);
    campanile_supplier *supplier;
    campanile_publisher *publisher;
    campanile_tally tally;
    OK(campanile_supplier_new(CHANNEL, transport->settings, &supplier));
    OK(campanile_publisher_new(supplier, NULL, &publisher));
    OK(campanile_publisher_publish(publisher, transport->type, (const uint8_t *)&event, READING_SIZE, NULL));
    if (number % 2 == 0) {
        OK(campanile_publisher_close(publisher, 10000, &tally));
        MUST(tally.confirmed == 1);
    }
    campanile_publisher_free(publisher);
    campanile_supplier_free(supplier);
    atomic_fetch_add(&transport->suppliers, 1);
}

static void *come_and_go(void *context) {
    struct transport *transport = context;
    for (uint64_t visit = 0; visit < visits; ++visit) {
        subscribe(transport, (enum sort)(visit % SORTS), 1 + visit % 5);
        if (visit % SORTS == 0) {
            supply(transport, visit);
        }
    }
    return NULL;
}

/* ---- what is told ---- */

static void on_log(void *context, int level, const char *text) {
    (void)context;
    fprintf(stderr, "logged at level %d: %s\n", level, text);
    _Exit(1);
}

static void tell(const struct transport *transports) {
#ifdef __SANITIZE_ADDRESS__
    const size_t heap = __sanitizer_get_current_allocated_bytes();
#else
    const struct mallinfo2 info = mallinfo2();
    const size_t heap = info.uordblks + info.hblkhd;
#endif
    printf("> {");
    for (int i = 0; i < 2; ++i) {
        const struct transport *of = &transports[i];
        printf("\"%s\":{\"subscribers\":%" PRIu64 ",\"suppliers\":%" PRIu64 ",\"published\":%" PRIu64 ",\"received\":%" PRIu64 "},",
            of->name, (uint64_t)atomic_load(&of->subscribers), (uint64_t)atomic_load(&of->suppliers),
            of->published[ANSWERED] + of->published[GATHERED], of->received[ANSWERED] + of->received[GATHERED]);
    }
    printf("\"heap_bytes\":%zu}\n", heap);
    fflush(stdout);
}

static void run(struct transport *transports) {
    pthread_t publishers[2], churners[2][CHURNERS];
    atomic_store(&is_over, false);
    for (int i = 0; i < 2; ++i) {
        MUST(pthread_create(&publishers[i], NULL, publish, &transports[i]) == 0);
        for (int j = 0; j < CHURNERS; ++j) {
            MUST(pthread_create(&churners[i][j], NULL, come_and_go, &transports[i]) == 0);
        }
    }
    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < CHURNERS; ++j) {
            pthread_join(churners[i][j], NULL);
        }
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; ++i) {
        pthread_join(publishers[i], NULL);
        catch_up(&transports[i]);
    }
}

int main(int argc, char **argv) {
    static struct transport transports[2] = {
        {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER},
        {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER},
    };
    char line[16];
    if (argc != 4) {
        return 2;
    }
    visits = strtoull(argv[1], NULL, 10);
    period_ns = strtol(argv[3], NULL, 10) % 1000 * 1000000;
    campanile_log(2, on_log, NULL);
    begin(&transports[0], "notification", argv[2]);
    begin(&transports[1], "dds", argv[2]);
    do {
        run(transports);
        tell(transports);
    } while (fgets(line, sizeof line, stdin) != NULL);
    end(&transports[0]);
    end(&transports[1]);
    tell(transports);
    return 0;
}
