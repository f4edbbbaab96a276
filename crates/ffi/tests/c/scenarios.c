/* The shared scenarios in C: `scenarios NAME`. Exit status 0 is passed. What the driver has to do for a scenario is asked for in a line
 * that begins with `> `, and answered with a line. */

#include "must.h"

#include <campanile.h>

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct wind {
    double speed, direction;
};

static campanile_type *wind_type;
static campanile_supplier *supplier, *hasty;

static void ask(const char *what) {
    char line[64];
    printf("> %s\n", what);
    fflush(stdout);
    MUST(fgets(line, sizeof line, stdin) != NULL);
}

static campanile_status publish_by(campanile_supplier *by, double speed) {
    const struct wind wind = {speed, 270};
    return campanile_supplier_publish(by, wind_type, (const uint8_t *)&wind, sizeof wind);
}

static campanile_status publish(double speed) {
    return publish_by(supplier, speed);
}

static void *publish_meanwhile(void *outcome) {
    *(campanile_status *)outcome = publish(2);
    return NULL;
}

static struct wind wind_of(const campanile_event *event) {
    struct wind wind;
    MUST(event->cdr_size == sizeof wind);
    memcpy(&wind, event->cdr, sizeof wind);
    return wind;
}

/* What callbacks tell the main thread. */
struct inbox {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    double values[64];
    size_t begin, end;
    int released;
};
#define INBOX {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0, 0}

static void put(struct inbox *inbox, double value) {
    pthread_mutex_lock(&inbox->mutex);
    MUST(inbox->end - inbox->begin < 64);
    inbox->values[inbox->end++ % 64] = value;
    pthread_cond_broadcast(&inbox->changed);
    pthread_mutex_unlock(&inbox->mutex);
}

static double next(struct inbox *inbox) {
    double value;
    pthread_mutex_lock(&inbox->mutex);
    while (inbox->begin == inbox->end) {
        pthread_cond_wait(&inbox->changed, &inbox->mutex);
    }
    value = inbox->values[inbox->begin++ % 64];
    pthread_mutex_unlock(&inbox->mutex);
    return value;
}

static int32_t on_wind(void *context, const campanile_event *event) {
    const double speed = wind_of(event).speed;
    MUST(event->name.size == 4 && memcmp(event->name.data, "Wind", 4) == 0);
    if (speed == 13) {
        campanile_callback_failed("thirteen");
        return CAMPANILE_ANSWER_FAILED;
    }
    if (speed == 15) { /* again, from within */
        OK(publish(16));
    }
    put(context, speed);
    return speed == 99 ? CAMPANILE_ANSWER_ENOUGH : CAMPANILE_ANSWER_DONE;
}

static void on_trouble(void *context, const campanile_trouble *trouble) {
    if (trouble->code == CAMPANILE_TROUBLE_CODE_CALLBACK) {
        MUST(strcmp(trouble->reason, "thirteen") == 0 && strcmp(trouble->name, "Wind") == 0);
    }
    if (trouble->code == CAMPANILE_TROUBLE_CODE_MISMATCH) {
        MUST(strcmp(trouble->path, "speed") == 0 && strstr(trouble->declared, "string") && strstr(trouble->came, "double"));
    }
    if (trouble->code == CAMPANILE_TROUBLE_CODE_INCOMPATIBLE) {
        MUST(strcmp(trouble->name, "Wind") == 0 && strcmp(trouble->path, "reliability") == 0);
        MUST(strncmp(trouble->supplier, "writer ", 7) == 0 || strncmp(trouble->supplier, "reader ", 7) == 0);
        MUST(strstr(trouble->reason, "dds.reliable") != NULL);
    }
    put(context, trouble->code);
}

static void on_release(void *context) {
    ++((struct inbox *)context)->released; /* by the thread that closes */
}

static campanile_consumer *consumer_of(struct inbox *events, struct inbox *troubles) {
    campanile_consumer *consumer;
    OK(campanile_consumer_new("Weather", NULL, &consumer));
    OK(campanile_consumer_on(consumer, wind_type, on_wind, events, on_release));
    if (troubles != NULL) {
        OK(campanile_consumer_on_trouble(consumer, on_trouble, troubles, on_release));
    }
    OK(campanile_consumer_ready(consumer));
    return consumer;
}

/* Whether events go from program to program, with no service between. */
static int is_over_dds(void) {
    const char *transport = getenv("CAMPANILE_TRANSPORT");
    return transport != NULL && strcmp(transport, "dds") == 0;
}

static void scenario_publish(void) {
    struct inbox events = INBOX;
    campanile_consumer *consumer = consumer_of(&events, NULL);
    campanile_publisher *publisher;
    campanile_tally tally;
    struct wind wind = {0, 0};
    uint64_t number;
    OK(publish(1));
    MUST(next(&events) == 1);
    OK(campanile_publisher_new(supplier, NULL, &publisher));
    for (int i = 0; i < 32; ++i) {
        wind.speed = 20 + i;
        OK(campanile_publisher_publish(publisher, wind_type, (const uint8_t *)&wind, sizeof wind, &number));
        MUST(number == (uint64_t)i);
    }
    OK(campanile_publisher_flush(publisher));
    for (int i = 0; i < 32; ++i) {
        MUST(next(&events) == 20 + i);
    }
    OK(campanile_publisher_sync(publisher, NULL));
    OK(campanile_publisher_tally(publisher, &tally));
    MUST(tally.published == 32 && tally.confirmed == 32);
    OK(campanile_publisher_close(publisher, 60000, &tally));
    MUST(tally.confirmed == 32);
    MUST(campanile_publisher_flush(publisher) == CAMPANILE_STATUS_CLOSED);
    campanile_publisher_free(publisher);
    OK(campanile_consumer_close(consumer));
    MUST(campanile_consumer_has_ended(consumer));
    campanile_consumer_free(consumer);
    MUST(events.released == 1);
}

static void scenario_filter(void) {
    campanile_consumer *consumer;
    campanile_event *event;
    char *text;
    int tag;
    OK(campanile_consumer_new("Weather", NULL, &consumer));
    OK(campanile_consumer_filter(consumer, "$speed > 10"));
    OK(campanile_consumer_on_any(consumer, NULL, &tag, NULL));
    MUST(campanile_consumer_next(consumer, 0, &event) == CAMPANILE_STATUS_ARGUMENT);
    OK(campanile_consumer_ready(consumer));
    MUST(campanile_consumer_next(consumer, 1, &event) == CAMPANILE_STATUS_TIMEOUT);
    OK(publish(9));
    OK(publish(11));
    OK(campanile_consumer_next(consumer, -1, &event));
    MUST(wind_of(event).speed == 11 && event->context == &tag && event->domain.size == 0);
    OK(campanile_event_json(event, &text));
    MUST(strcmp(text, "{\"speed\":11.0,\"direction\":270.0}") == 0);
    campanile_text_free(text);
    OK(campanile_event_idl(event, &text));
    MUST(strstr(text, "struct Wind") != NULL);
    campanile_text_free(text);
    campanile_event_free(event);
    OK(campanile_consumer_close(consumer));
    MUST(campanile_consumer_next(consumer, -1, &event) == CAMPANILE_STATUS_CLOSED);
    campanile_consumer_free(consumer);
}

static void scenario_restart(void) {
    struct inbox events = INBOX, troubles = INBOX;
    campanile_consumer *consumer = consumer_of(&events, &troubles);
    campanile_settings *settings;
    campanile_status outcome = CAMPANILE_STATUS_OTHER;
    pthread_t waits;
    double speed;
    OK(campanile_settings_load(&settings));
    OK(campanile_settings_set(settings, "wait_for_restart_ms", "0"));
    OK(campanile_supplier_new("Weather", settings, &hasty));
    campanile_settings_free(settings);
    OK(publish(1));
    MUST(next(&events) == 1);
    OK(publish_by(hasty, 1));
    MUST(next(&events) == 1);
    ask("stop");
    MUST(publish_by(hasty, 4) == CAMPANILE_STATUS_UNREACHABLE);
    MUST(campanile_last_was_not_carried_out());
    MUST(pthread_create(&waits, NULL, publish_meanwhile, &outcome) == 0);
    while (campanile_supplier_waiting(supplier) == 0) {
        sched_yield();
    }
    ask("start");
    MUST(pthread_join(waits, NULL) == 0);
    OK(outcome);
    while (campanile_consumer_check(consumer) != CAMPANILE_STATUS_OK) {
        sched_yield();
    }
    while (next(&troubles) != CAMPANILE_TROUBLE_CODE_GAP) {
    }
    OK(publish(3));
    OK(publish_by(hasty, 5));
    /* What was published meanwhile has come, too, if the consumer was there before the supplier. */
    do {
        speed = next(&events);
    } while (speed == 2);
    MUST(speed == 3);
    MUST(next(&events) == 5);
    MUST(campanile_supplier_reconnections(supplier) > 0);
    ask("stop");
    MUST(pthread_create(&waits, NULL, publish_meanwhile, &outcome) == 0);
    while (campanile_supplier_waiting(supplier) == 0) {
        sched_yield();
    }
    campanile_supplier_stop_waiting(supplier);
    MUST(pthread_join(waits, NULL) == 0);
    MUST(outcome == CAMPANILE_STATUS_UNREACHABLE);
    campanile_supplier_free(hasty);
    campanile_consumer_free(consumer);
}

static void scenario_mismatch(void) {
    struct inbox troubles = INBOX;
    campanile_consumer *consumer;
    campanile_type *other;
    OK(campanile_type_new("struct Wind { string speed; };", NULL, NULL, &other));
    OK(campanile_consumer_new("Weather", NULL, &consumer));
    OK(campanile_consumer_on(consumer, other, NULL, NULL, NULL));
    OK(campanile_consumer_on_trouble(consumer, on_trouble, &troubles, on_release));
    campanile_type_free(other);
    OK(campanile_consumer_ready(consumer));
    OK(publish(1));
    MUST(next(&troubles) == CAMPANILE_TROUBLE_CODE_MISMATCH);
    campanile_consumer_free(consumer);
    MUST(troubles.released == 1);
}

/* Over DDS: a supplier that is not reliable, for a consumer that is. */
static void scenario_incompatible(void) {
    const struct wind wind = {1, 2};
    struct inbox events = INBOX, troubles = INBOX, of_supplier = INBOX;
    campanile_settings *settings;
    campanile_supplier *loose;
    campanile_consumer *consumer = consumer_of(&events, &troubles);
    OK(campanile_settings_load(&settings));
    OK(campanile_settings_set(settings, "dds.reliable", "false"));
    OK(campanile_supplier_new("Weather", settings, &loose));
    campanile_settings_free(settings);
    OK(campanile_supplier_on_trouble(loose, on_trouble, &of_supplier, NULL));
    OK(campanile_supplier_publish(loose, wind_type, (const uint8_t *)&wind, sizeof wind));
    MUST(next(&troubles) == CAMPANILE_TROUBLE_CODE_INCOMPATIBLE);
    MUST(next(&of_supplier) == CAMPANILE_TROUBLE_CODE_INCOMPATIBLE);
    campanile_supplier_free(loose);
    campanile_consumer_free(consumer);
}

static void scenario_misuse(void) {
    struct inbox events = INBOX, troubles = INBOX;
    campanile_settings *settings;
    campanile_type *type;
    campanile_supplier *nobody;
    campanile_consumer *consumer;
    const uint8_t octets[16] = {0};
    char *text;
    /* Null pointers. */
    MUST(campanile_settings_load(NULL) == CAMPANILE_STATUS_ARGUMENT);
    OK(campanile_settings_load(&settings));
    MUST(campanile_settings_set(settings, NULL, "x") == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_settings_set(NULL, "server", "x") == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_settings_set(settings, "server", "\xFF") == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_settings_set(settings, "sever", "x") == CAMPANILE_STATUS_SETTINGS);
    MUST(campanile_settings_set(settings, "dds.domains.a", "233") == CAMPANILE_STATUS_SETTINGS);
    OK(campanile_settings_set(settings, "dds.domains.a", "7"));
    MUST(campanile_settings_of_context("there is none", &settings) == CAMPANILE_STATUS_SETTINGS);
    MUST(campanile_type_new(NULL, NULL, NULL, &type) == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_type_new("struct T { long a; };", NULL, NULL, NULL) == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_type_new("struct T { long a };", NULL, NULL, &type) == CAMPANILE_STATUS_TYPE);
    MUST(strstr(campanile_last_error(), "IDL") != NULL);
    MUST(campanile_type_new("struct T { long a; };", "U", NULL, &type) == CAMPANILE_STATUS_TYPE);
    MUST(campanile_type_new("enum E { A };", NULL, NULL, &type) == CAMPANILE_STATUS_TYPE);
    MUST(campanile_type_new("", NULL, NULL, &type) == CAMPANILE_STATUS_TYPE);
    MUST(campanile_type_name(NULL) == NULL && campanile_type_idl(NULL) == NULL);
    MUST(campanile_supplier_new(NULL, NULL, &nobody) == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_supplier_new("Weather", NULL, NULL) == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_supplier_new("", NULL, &nobody) == CAMPANILE_STATUS_CHANNEL_NAME);
    MUST(campanile_supplier_publish(NULL, wind_type, octets, 16) == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_supplier_publish(supplier, NULL, octets, 16) == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_supplier_publish(supplier, wind_type, NULL, 16) == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_publisher_publish(NULL, wind_type, octets, 16, NULL) == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_consumer_on(NULL, wind_type, on_wind, &events, on_release) == CAMPANILE_STATUS_ARGUMENT);
    MUST(events.released == 1);
    MUST(campanile_consumer_ready(NULL) == CAMPANILE_STATUS_ARGUMENT && campanile_consumer_has_ended(NULL));
    MUST(campanile_consumer_close(NULL) == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_event_json(NULL, &text) == CAMPANILE_STATUS_ARGUMENT);
    campanile_settings_free(NULL), campanile_type_free(NULL), campanile_supplier_free(NULL), campanile_publisher_free(NULL);
    campanile_consumer_free(NULL), campanile_event_free(NULL), campanile_text_free(NULL);
    /* Octets that are no value. */
    for (size_t size = 0; size < 16; ++size) {
        MUST(campanile_supplier_publish(supplier, wind_type, octets, size) == CAMPANILE_STATUS_VALUE);
    }
    MUST(campanile_last_was_not_carried_out());
    MUST(campanile_supplier_publish(supplier, wind_type, octets, SIZE_MAX) == CAMPANILE_STATUS_ARGUMENT);
    OK(campanile_type_check(wind_type, octets, 16));
    OK(campanile_type_json(wind_type, octets, 16, &text));
    MUST(strcmp(text, "{\"speed\":0.0,\"direction\":0.0}") == 0);
    campanile_text_free(text);
    /* Callbacks. */
    consumer = consumer_of(&events, &troubles);
    MUST(campanile_consumer_ready(consumer) == CAMPANILE_STATUS_ARGUMENT);
    MUST(campanile_consumer_filter(consumer, "$speed > 10") == CAMPANILE_STATUS_ARGUMENT);
    OK(publish(13));
    MUST(next(&troubles) == CAMPANILE_TROUBLE_CODE_CALLBACK);
    OK(publish(15));
    MUST(next(&events) == 15 && next(&events) == 16);
    OK(publish(NAN));
    MUST(isnan(next(&events)));
    OK(publish(99));
    MUST(next(&events) == 99);
    while (!campanile_consumer_has_ended(consumer)) {
        sched_yield();
    }
    campanile_consumer_free(consumer);
    MUST(events.released == 2 && troubles.released == 1);
    /* Without a service. */
    OK(campanile_settings_set(settings, "server", "127.0.0.1:1"));
    MUST(campanile_supplier_new("Weather", settings, &nobody) == CAMPANILE_STATUS_UNREACHABLE);
    MUST(strstr(campanile_last_error(), "campanile serve") != NULL);
    campanile_settings_free(settings);
}

static void scenario_fork(void) {
    struct inbox events = INBOX;
    campanile_consumer *consumer = consumer_of(&events, NULL);
    int status = -1;
    pid_t child;
    OK(publish(1));
    MUST(next(&events) == 1);
    child = fork();
    if (child == 0) {
        campanile_event *event;
        MUST(publish(2) == CAMPANILE_STATUS_FORKED);
        MUST(campanile_consumer_next(consumer, -1, &event) == CAMPANILE_STATUS_FORKED);
        MUST(campanile_consumer_has_ended(consumer));
        campanile_consumer_free(consumer);
        campanile_supplier_free(supplier);
        if (is_over_dds()) { /* which a process can begin but once */
            MUST(campanile_supplier_new("Weather", NULL, &supplier) == CAMPANILE_STATUS_FORKED);
        } else {
            OK(campanile_supplier_new("Weather", NULL, &supplier));
            OK(publish(3));
        }
        exit(0);
    }
    MUST(waitpid(child, &status, 0) == child && status == 0);
    MUST(is_over_dds() || next(&events) == 3);
    OK(publish(4));
    MUST(next(&events) == 4);
    campanile_consumer_free(consumer);
}

/* Begins in the history, and goes on where it was when the service was restarted. */
static void scenario_history(void) {
    struct inbox troubles = INBOX;
    const uint16_t seven = 7;
    campanile_consumer *consumer;
    campanile_event *event;
    campanile_type *grown;
    struct pollfd readable = {-1, POLLIN, 0};
    char start[32];
    uint64_t third = 0;
    for (int speed = 1; speed <= 5; ++speed) {
        OK(publish(speed));
    }
    /* A member that the supplier lacks has a value of its own. */
    OK(campanile_type_new("struct Wind { double speed; unsigned short count; };", NULL, NULL, &grown));
    MUST(campanile_type_default(grown, "Wind", "cuont", (const uint8_t *)&seven, sizeof seven) == CAMPANILE_STATUS_TYPE);
    OK(campanile_type_default(grown, "Wind", "count", (const uint8_t *)&seven, sizeof seven));
    OK(campanile_consumer_new("Weather", NULL, &consumer));
    MUST(campanile_consumer_start_from(consumer, "firts") == CAMPANILE_STATUS_SETTINGS);
    MUST(strstr(campanile_last_error(), "after:N") != NULL && campanile_last_column() == 0);
    OK(campanile_consumer_start_from(consumer, "first"));
    OK(campanile_consumer_on(consumer, grown, NULL, NULL, NULL));
    OK(campanile_consumer_descriptor(consumer, &readable.fd));
    OK(campanile_consumer_ready(consumer));
    for (int speed = 1; speed <= 5; ++speed) {
        uint16_t count;
        MUST(poll(&readable, 1, -1) == 1);
        OK(campanile_consumer_next(consumer, 0, &event));
        memcpy(&count, event->cdr + 8, sizeof count);
        MUST(event->number > third && event->came_ns > 1700000000000000000U && event->cdr_size == 10 && count == seven);
        third = speed <= 3 ? event->number : third;
        campanile_event_free(event);
    }
    MUST(poll(&readable, 1, 0) == 0 && campanile_consumer_reconnections(consumer) == 0);
    ask("restart");
    OK(publish(6));
    OK(campanile_consumer_next(consumer, -1, &event));
    MUST(event->number > third);
    campanile_event_free(event);
    while (campanile_consumer_check(consumer) != CAMPANILE_STATUS_OK) {
        sched_yield();
    }
    MUST(campanile_consumer_reconnections(consumer) == 1 && campanile_supplier_reconnections(supplier) == 1);
    OK(campanile_consumer_stop(consumer));
    MUST(poll(&readable, 1, -1) == 1 && campanile_consumer_next(consumer, -1, &event) == CAMPANILE_STATUS_CLOSED);
    campanile_consumer_free(consumer);
    campanile_type_free(grown);
    /* A program that comes again goes on there. */
    OK(campanile_consumer_new("Weather", NULL, &consumer));
    snprintf(start, sizeof start, "after:%llu", (unsigned long long)third);
    OK(campanile_consumer_start_from(consumer, start));
    OK(campanile_consumer_on(consumer, wind_type, NULL, NULL, NULL));
    OK(campanile_consumer_ready(consumer));
    OK(campanile_consumer_next(consumer, -1, &event));
    MUST(wind_of(event).speed == 4);
    campanile_event_free(event);
    campanile_consumer_free(consumer);
    /* What filters say of mistakes. */
    OK(campanile_consumer_new("Weather", NULL, &consumer));
    OK(campanile_consumer_filter(consumer, "$sped > 10"));
    OK(campanile_consumer_on_trouble(consumer, on_trouble, &troubles, NULL));
    OK(campanile_consumer_on(consumer, wind_type, NULL, NULL, NULL));
    OK(campanile_consumer_ready(consumer));
    MUST(next(&troubles) == CAMPANILE_TROUBLE_CODE_UNKNOWN_NAME);
    campanile_consumer_free(consumer);
    OK(campanile_consumer_new("Weather", NULL, &consumer));
    OK(campanile_consumer_filter(consumer, "$speed >"));
    OK(campanile_consumer_on(consumer, wind_type, NULL, NULL, NULL));
    MUST(campanile_consumer_ready(consumer) == CAMPANILE_STATUS_FILTER && campanile_last_column() == 9);
    MUST(strstr(campanile_last_error(), "CORBA") == NULL && strstr(campanile_last_error(), "Constraint") == NULL);
    campanile_consumer_free(consumer);
}

/* Leaves with events under way: the driver stops the service, so that nothing is answered. */
static void scenario_exit(void) {
    const struct wind wind = {1, 2};
    campanile_publisher *publisher;
    OK(campanile_publisher_new(supplier, NULL, &publisher));
    OK(campanile_publisher_publish(publisher, wind_type, (const uint8_t *)&wind, sizeof wind, NULL));
    OK(campanile_publisher_sync(publisher, NULL));
    ask("freeze");
    for (int i = 0; i < 10; ++i) {
        OK(campanile_publisher_publish(publisher, wind_type, (const uint8_t *)&wind, sizeof wind, NULL));
    }
    exit(0);
}

/* Publishes into a channel what comes from another: octets of a type whose IDL the driver says. */
static campanile_type *passed;

static int32_t on_passed(void *context, const campanile_event *event) {
    OK(campanile_supplier_publish(context, passed, event->cdr, event->cdr_size));
    return CAMPANILE_ANSWER_DONE;
}

static void scenario_pass(char **args) {
    campanile_supplier *to;
    campanile_consumer *from;
    OK(campanile_type_new(args[2], args[3], NULL, &passed));
    OK(campanile_supplier_new(args[1], NULL, &to));
    OK(campanile_consumer_new(args[0], NULL, &from));
    OK(campanile_consumer_on(from, passed, on_passed, to, NULL));
    OK(campanile_consumer_ready(from));
    ask("ready");
    campanile_consumer_free(from);
    campanile_supplier_free(to);
    campanile_type_free(passed);
}

int main(int count, char **args) {
    const char *name = count > 1 ? args[1] : "";
    MUST(campanile_version()[0] == '0');
    if (count == 6 && strcmp(name, "pass") == 0) {
        scenario_pass(args + 2);
        return 0;
    }
    OK(campanile_type_new("struct Wind { double speed; double direction; };", "Wind", NULL, &wind_type));
    OK(campanile_supplier_new("Weather", NULL, &supplier));
    if (strcmp(name, "publish") == 0) scenario_publish();
    else if (strcmp(name, "filter") == 0) scenario_filter();
    else if (strcmp(name, "restart") == 0) scenario_restart();
    else if (strcmp(name, "type_mismatch") == 0) scenario_mismatch();
    else if (strcmp(name, "incompatible") == 0) scenario_incompatible();
    else if (strcmp(name, "misuse") == 0) scenario_misuse();
    else if (strcmp(name, "fork") == 0) scenario_fork();
    else if (strcmp(name, "history") == 0) scenario_history();
    else if (strcmp(name, "exit") == 0) scenario_exit();
    else return 2;
    campanile_supplier_free(supplier);
    campanile_type_free(wind_type);
    return 0;
}
