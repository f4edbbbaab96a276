/* A component in C: makes an offset of each frame, and what tests ask for by the property `does`. */
#include <campanile_component.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct guider {
    const campanile_component_host *host;
    double gain;
    const char *does;
    uint64_t last;
};

enum { FRAME, OFFSET, REST, PEERS };

static int32_t create(const campanile_component_host *host, const char *properties, void **component) {
    struct guider *guider = calloc(1, sizeof *guider);
    if (guider == NULL || strstr(properties, "gain = ") == NULL
        || host->property_number(host, "gain", &guider->gain) != CAMPANILE_COMPONENT_OK) {
        free(guider);
        return host->fail(host, CAMPANILE_COMPONENT_FAILED, "there is no gain that is a number");
    }
    guider->host = host;
    guider->does = host->property_text(host, "does");
    *component = guider;
    return CAMPANILE_COMPONENT_OK;
}

static void destroy(void *component) {
    free(component);
}

static int does(const struct guider *guider, const char *what) {
    return guider->does != NULL && strcmp(guider->does, what) == 0;
}

static int32_t step(void *component, uint32_t step) {
    struct guider *guider = component;
    if (step == CAMPANILE_STEP_ACTIVATE && does(guider, "refuse")) {
        return guider->host->fail(guider->host, CAMPANILE_COMPONENT_FAILED, "not today");
    }
    if (step == CAMPANILE_STEP_ACTIVATE && does(guider, "break in a step")) {
        return guider->host->fail(guider->host, CAMPANILE_COMPONENT_BROKEN, "the mirror is gone");
    }
    return CAMPANILE_COMPONENT_OK;
}

static void *send_elsewhere(void *component) {
    struct guider *guider = component;
    unsigned char offset[16] = { 0 };
    int32_t *status = malloc(sizeof *status);
    if (status != NULL) {
        *status = guider->host->send(guider->host, OFFSET, offset, sizeof offset, NULL);
    }
    return status;
}

static int32_t on_frame(void *component, const campanile_component_event *event) {
    struct guider *guider = component;
    const campanile_component_host *host = guider->host;
    campanile_component_options options = { .priority = 3, .timeout_ns = 0 };
    struct { uint64_t number; double value; } frame, offset;
    /* The sequence behind the numbers is not looked at. */
    if (event->port != FRAME || event->cdr_size < sizeof frame) {
        return CAMPANILE_COMPONENT_BROKEN;
    }
    memcpy(&frame, event->cdr, sizeof frame);
    guider->last = frame.number;
    if (does(guider, "fail")) {
        return host->fail(host, CAMPANILE_COMPONENT_FAILED, "no light");
    }
    if (does(guider, "break") && frame.number == 3) {
        return host->fail(host, CAMPANILE_COMPONENT_BROKEN, "the shutter is stuck");
    }
    if (does(guider, "crash")) {
        abort();
    }
    offset.number = frame.number;
    offset.value = guider->gain * frame.value;
    if (does(guider, "sets")) {
        offset.value = 100.0 * (double)event->set + 10.0 * event->set_index + event->set_size;
    }
    if (does(guider, "send octets")) {
        offset.value = host->send(host, OFFSET, (const uint8_t *)&offset, 5, NULL);
    }
    if (does(guider, "send to nowhere")) {
        offset.value = host->send(host, 99, (const uint8_t *)&offset, sizeof offset, NULL)
            + host->send(host, FRAME, (const uint8_t *)&offset, sizeof offset, NULL)
            + host->send(host, OFFSET, NULL, 0, NULL)
            + host->send_native(host, OFFSET, &offset, NULL);
    }
    if (does(guider, "send elsewhere")) {
        pthread_t thread;
        void *status = NULL;
        if (pthread_create(&thread, NULL, send_elsewhere, guider) == 0 && pthread_join(thread, &status) == 0 && status != NULL) {
            offset.value = *(int32_t *)status;
            free(status);
        }
    }
    return host->send(host, OFFSET, (const uint8_t *)&offset, sizeof offset, &options);
}

static int32_t on_rest(void *component, const campanile_component_event *event) {
    struct guider *guider = component;
    struct { uint64_t number; double value; } offset = { guider->last, -(double)event->missed };
    if (!does(guider, "rest")) {
        return CAMPANILE_COMPONENT_OK;
    }
    guider->host->log(guider->host, CAMPANILE_LOG_INFO, "a rest");
    return guider->host->send(guider->host, OFFSET, (const uint8_t *)&offset, sizeof offset, NULL);
}

static int32_t on_peers(void *component, const campanile_component_event *event) {
    struct guider *guider = component;
    struct { uint64_t number; double value; } offset = { 0, (double)event->cdr_size };
    return guider->host->send(guider->host, OFFSET, (const uint8_t *)&offset, sizeof offset, NULL);
}

static const campanile_component_port ports[] = {
    [FRAME] = {
        .kind = CAMPANILE_PORT_SINK,
        .name = "frame",
        .idl = "module observatory {"
               " struct Frame { unsigned long long number; double brightness; sequence<string> filters; }; };",
        .handler = on_frame,
    },
    [OFFSET] = {
        .kind = CAMPANILE_PORT_SOURCE,
        .name = "offset",
        .idl = "module observatory { struct Offset { unsigned long long number; double x; }; };",
    },
    [REST] = { .kind = CAMPANILE_PORT_TIMER, .name = "rest", .interval_ns = 1000000000, .handler = on_rest },
    [PEERS] = { .kind = CAMPANILE_PORT_NEIGHBOURS, .name = "peers", .handler = on_peers },
};

static const campanile_component_property properties[] = {
    { .name = "gain", .what = "double" },
    { .name = "does", .what = "string", .has_default = 1 },
};

static const campanile_component components[] = {
    {
        .name = "Guider",
        .ports = ports,
        .port_count = sizeof ports / sizeof *ports,
        .properties = properties,
        .property_count = sizeof properties / sizeof *properties,
        .create = create,
        .destroy = destroy,
        .step = step,
    },
};

CAMPANILE_COMPONENTS(components)
