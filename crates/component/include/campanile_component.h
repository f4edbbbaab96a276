/* Components of Campanile in shared objects: functions in C with typed ports, which a plan connects.
 *
 * A plan names a component as `component = "libguider.so#Guider"`; docs/components.md has an example of both, from its source to its events.
 *
 * Calls. A component's functions are called on one thread, one at a time, from `create` to `destroy`; a handler that does not return has the
 * others of its lane wait. They call the host from within. Nothing is thrown through a call, and no call is left by longjmp.
 *
 * Values. A value is its octets in CDR: in this processor's byte order; each number at a multiple of its size from the value's beginning;
 * a string as its length in an unsigned long, which counts the NUL, then UTF-8 and a NUL; a sequence as its length, then its elements;
 * an enum as its label's place; nothing behind the last member. A struct of C that has only numbers in it is such a value, up to its last
 * member: beware of padding at its end. What is sent is checked; what comes has been.
 *
 * Faults. A function answers a status, and `fail` says why. What crashes ends the process, and the plan with it, which names the server.
 *
 * A shared object is never unloaded, and what its table points to stays for as long as the process.
 *
 * This file is made of the Rust sources by cbindgen: edits here are lost.
 */


#ifndef CAMPANILE_COMPONENT_H
#define CAMPANILE_COMPONENT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CAMPANILE_COMPONENT_EXPORT __attribute__((visibility("default")))
#else
#define CAMPANILE_COMPONENT_EXPORT
#endif

#ifdef __cplusplus
#define CAMPANILE_COMPONENT_BEGIN extern "C" {
#define CAMPANILE_COMPONENT_END }
#else
#define CAMPANILE_COMPONENT_BEGIN
#define CAMPANILE_COMPONENT_END
#endif

/* Makes an array of campanile_component those of a shared object: once, at the end of one of its sources. */
#define CAMPANILE_COMPONENTS(array) \
    CAMPANILE_COMPONENT_BEGIN \
    static const campanile_component *campanile_components_of_object(size_t *count) { \
        *count = sizeof(array) / sizeof((array)[0]); \
        return (array); \
    } \
    extern CAMPANILE_COMPONENT_EXPORT const campanile_component_table campanile_component_v1; \
    const campanile_component_table campanile_component_v1 = { \
        CAMPANILE_COMPONENT_ABI, (uint32_t)sizeof(campanile_component_table), campanile_components_of_object, NULL \
    }; \
    CAMPANILE_COMPONENT_END


// The version of this interface: `abi` of a table and of a host.
#define CAMPANILE_COMPONENT_ABI 1

// Success.
#define CAMPANILE_COMPONENT_OK 0

// Of a component: the call failed. The failure is logged once for each port and counted; a step of the life cycle is refused.
#define CAMPANILE_COMPONENT_FAILED 1

// Of a component: its state cannot be trusted any more. It is destroyed, and made again after a pause.
#define CAMPANILE_COMPONENT_BROKEN 2

// Of `send`: no sink got the event, since the instance is not active.
#define CAMPANILE_COMPONENT_INACTIVE 3

// Of `send`: a sink did not get the event, since its instance is in a handler already.
#define CAMPANILE_COMPONENT_REENTRANT 4

// Of `send`: a sink did not get the event, since its queue is full.
#define CAMPANILE_COMPONENT_FULL 5

// Of `send`: the octets are no value of the source's type. The reason is logged once for each source.
#define CAMPANILE_COMPONENT_VALUE 6

// Of a host's function: a null pointer, no such source or property, or a call from another thread than the instance's.
#define CAMPANILE_COMPONENT_ARGUMENT 7

// A port that takes events.
#define CAMPANILE_PORT_SINK 1

// A port that gives events.
#define CAMPANILE_PORT_SOURCE 2

// A port that takes ticks.
#define CAMPANILE_PORT_TIMER 3

// A port that takes what happens to connected instances, as `struct NeighbourChange { string instance; string change; string reason; }`.
#define CAMPANILE_PORT_NEIGHBOURS 4

// The component is made and has its properties.
#define CAMPANILE_STEP_CONFIGURE 1

// The connections are made.
#define CAMPANILE_STEP_CONNECT 2

// Events come from now on, and can be sent.
#define CAMPANILE_STEP_ACTIVATE 3

// No more events come. The last ones can be sent from here.
#define CAMPANILE_STEP_PASSIVATE 4

// The component is destroyed next, whatever it answers.
#define CAMPANILE_STEP_REMOVE 5

// Levels of `log`.
#define CAMPANILE_LOG_ERROR 1

// A warning.
#define CAMPANILE_LOG_WARN 2

// An information.
#define CAMPANILE_LOG_INFO 3

// A detail.
#define CAMPANILE_LOG_DEBUG 4

// What a handler takes. Its pointers are valid until the handler returns.
typedef struct campanile_component_event {
    // The place of the port in the component's ports.
    uint32_t port;
    // The priority with which the event was sent.
    int32_t priority;
    // The value, of the port's type; a null pointer for a tick. Not aligned: use `memcpy` to read numbers.
    const uint8_t *cdr;
    // Octets of the value.
    size_t cdr_size;
    // The source, as `camera.frame`, without a NUL at its end.
    const char *source;
    // Octets of the source's name.
    size_t source_size;
    // Nanoseconds since the event was sent.
    uint64_t age_ns;
    // Of a tick: nanoseconds since it was due.
    uint64_t late_ns;
    // Of a tick: ticks before it that were left out, since the lane was busy for more than an interval.
    uint64_t missed;
    // Private to bindings of other languages.
    const void *native;
    // The number of the set that the event belongs to, from 1; 0 where the port has no sets.
    uint64_t set;
    // The event's place in its set, from 0.
    uint32_t set_index;
    // Number of events in the set.
    uint32_t set_size;
} campanile_component_event;

// A port of a component.
typedef struct campanile_component_port {
    // One of `CAMPANILE_PORT_…`.
    uint32_t kind;
    // The name: letters, digits, `_` and `-`.
    const char *name;
    // Of a sink and a source: the type in IDL, a struct, which is the last definition of the text. Else ignored.
    const char *idl;
    // Of a sink and a source: the domain of the type's events; a null pointer for that of the settings.
    const char *domain;
    // Of a timer: the interval in nanoseconds, of an hour at most.
    uint64_t interval_ns;
    // Of all but a source: takes what comes. It answers `CAMPANILE_COMPONENT_OK`, `_FAILED` or `_BROKEN`; any other value is a failure.
    int32_t (*handler)(void *component, const struct campanile_component_event *event);
} campanile_component_port;

// A property of a component.
typedef struct campanile_component_property {
    // The name: letters, digits, `_` and `-`; not `component`, `server`, `container` or `lane`, which plans have for themselves.
    const char *name;
    // The type, for people: `double`.
    const char *what;
    // Whether it need not be given: 0 or 1.
    uint32_t has_default;
} campanile_component_property;

// What an event may have beside its value. It matters where a sink has a queue.
typedef struct campanile_component_options {
    // From -32767 to 32767.
    int32_t priority;
    // Nanoseconds that the event may wait before it is discarded; 0 for no end. Where no time is left, give 1, as C++ and Python do.
    uint64_t timeout_ns;
} campanile_component_options;

// What the server does for an instance. All is valid until `destroy` returns, and to be called on the thread of the component's calls, from
// within them.
typedef struct campanile_component_host {
    // `CAMPANILE_COMPONENT_ABI`.
    uint32_t abi;
    // The size of this struct.
    uint32_t size;
    // The most verbose level that is logged; 0 for none.
    uint32_t log_level;
    // The name of the instance.
    const char *instance;
    // Sends a value of a source's type, by its place in the component's ports. The octets are checked, and used during the call only.
    // `options` may be a null pointer. When it returns, sinks of the same lane without a queue have handled the event.
    int32_t (*send)(const struct campanile_component_host *host,
                    uint32_t port,
                    const uint8_t *cdr,
                    size_t cdr_size,
                    const struct campanile_component_options *options);
    // Private to bindings of other languages.
    int32_t (*send_native)(const struct campanile_component_host *host,
                           uint32_t port,
                           const void *native,
                           const struct campanile_component_options *options);
    // Reads a property that is a number, or true or false as 1 or 0. Leaves `value` as it is where the property is not given or no number.
    int32_t (*property_number)(const struct campanile_component_host *host, const char *name, double *value);
    // A property as text: a string as it is, another value as in TOML; a null pointer if it is not given, and on
    // another thread. Valid until `destroy` returns.
    const char *(*property_text)(const struct campanile_component_host *host, const char *name);
    // Logs a line. `host` may be a null pointer here, and the thread any.
    void (*log)(const struct campanile_component_host *host, uint32_t level, const char *text);
    // Notes why the call of the component fails that is about to return, and answers `status`:
    // `return host->fail(host, CAMPANILE_COMPONENT_FAILED, "no light");`
    int32_t (*fail)(const struct campanile_component_host *host, int32_t status, const char *text);
} campanile_component_host;

// A type of components.
typedef struct campanile_component {
    // The name: letters, digits, `_` and `-`.
    const char *name;
    // The ports.
    const struct campanile_component_port *ports;
    // How many, 256 at most.
    size_t port_count;
    // The properties.
    const struct campanile_component_property *properties;
    // How many, 256 at most.
    size_t property_count;
    // Makes an instance's component, of its properties in TOML, and puts what the other calls get into `*component`.
    // Where it fails, `destroy` is not called, and `host` ends with the call.
    int32_t (*create)(const struct campanile_component_host *host, const char *properties, void **component);
    // Ends what `create` made. The component's other threads have ended when it returns.
    void (*destroy)(void *component);
    // Does what is to do at a step of the life cycle, one of `CAMPANILE_STEP_…`; another answer than `CAMPANILE_COMPONENT_OK` refuses it.
    // A null pointer for a component without such steps.
    int32_t (*step)(void *component, uint32_t step);
} campanile_component;

// Takes octets.
typedef void (*campanile_component_append)(void *to, const uint8_t *octets, size_t size);

// What a shared object exports as `campanile_component_v1`; CAMPANILE_COMPONENTS makes it of an array.
typedef struct campanile_component_table {
    // `CAMPANILE_COMPONENT_ABI`.
    uint32_t abi;
    // The size of this struct.
    uint32_t size;
    // The components, 256 at most, which stay for as long as the process: their descriptions are read once.
    const struct campanile_component *(*components)(size_t *count);
    // Private to bindings of other languages; a null pointer in C.
    int32_t (*write_native)(const void *native, void *to, campanile_component_append append);
} campanile_component_table;

#endif  /* CAMPANILE_COMPONENT_H */


/* The layout where addresses have 64 bits, as the server has it: -fpack-struct, say, makes another one. */
#if !defined(CAMPANILE_COMPONENT_LAYOUT) && UINTPTR_MAX > 0xFFFFFFFFu && (defined(__cplusplus) || __STDC_VERSION__ >= 201112L)
#ifdef __cplusplus
#define CAMPANILE_COMPONENT_ASSERT static_assert
#else
#define CAMPANILE_COMPONENT_ASSERT _Static_assert
#endif
#define CAMPANILE_COMPONENT_LAYOUT(type, octets, last, at) \
    CAMPANILE_COMPONENT_ASSERT(sizeof(type) == (octets) && offsetof(type, last) == (at), #type " has another layout here")
CAMPANILE_COMPONENT_LAYOUT(campanile_component_event, 88, set_size, 84);
CAMPANILE_COMPONENT_LAYOUT(campanile_component_port, 48, handler, 40);
CAMPANILE_COMPONENT_LAYOUT(campanile_component_property, 24, has_default, 16);
CAMPANILE_COMPONENT_LAYOUT(campanile_component_options, 16, timeout_ns, 8);
CAMPANILE_COMPONENT_LAYOUT(campanile_component_host, 72, fail, 64);
CAMPANILE_COMPONENT_LAYOUT(campanile_component, 64, step, 56);
CAMPANILE_COMPONENT_LAYOUT(campanile_component_table, 24, write_native, 16);
#endif
