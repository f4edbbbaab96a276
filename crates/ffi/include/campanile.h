/* Campanile: events as values of declared types, published and received from C.
 *
 *     struct wind { double speed, direction; } wind = { 11.5, 270 };
 *     campanile_type *type;
 *     campanile_supplier *supplier;
 *     campanile_type_new("struct Wind { double speed; double direction; };", "Wind", NULL, &type);
 *     campanile_supplier_new("Weather", NULL, &supplier);
 *     campanile_supplier_publish(supplier, type, (const uint8_t *)&wind, sizeof wind);
 *
 * Values. A value is its octets in CDR: in this processor's byte order; each number at a multiple of its size from the value's beginning;
 * a string as its length in an unsigned long, which counts the NUL, then UTF-8 and a NUL; a sequence as its length, then its elements;
 * an enum as its label's place; nothing behind the last member. A struct of C that has only numbers in it is such a value, up to its last
 * member: beware of padding at its end. What is handed over is checked; what is got has been.
 *
 * Errors. Functions answer a campanile_status. Other than CAMPANILE_STATUS_OK, campanile_last_error() says more, for this thread. Nothing is
 * thrown through this interface, and a null pointer is an error, not a crash, but where it is said to stand for something.
 *
 * Handles are what "new" functions give, and are freed with the "free" function of their sort, once, when nobody uses them any more. A
 * pointer that is neither null nor such a handle is undefined behaviour. Other pointers are used during the call only; contexts of callbacks
 * until they are released.
 *
 * Threads. Any number of threads may use a handle at once, but where it is said that one does. Callbacks run on threads of the library's.
 * A callback may publish. When campanile_consumer_close has returned, none runs any more.
 *
 * Processes. After a fork, what was made before answers CAMPANILE_STATUS_FORKED in the child and can be freed there; what the child makes
 * anew works. When a process ends, publishers that are not closed send what they have, and log what was not confirmed.
 *
 * This file is made of the Rust sources by cbindgen: edits here are lost.
 */


#ifndef CAMPANILE_H
#define CAMPANILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Error codes, for languages without sum types; codes from 100 on occur only there. Numbers stay stable.
enum campanile_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Success.
    CAMPANILE_STATUS_OK = 0,
    // The settings are wrong.
    CAMPANILE_STATUS_SETTINGS = 1,
    // The service cannot be reached, or did not answer: it may be back later.
    CAMPANILE_STATUS_UNREACHABLE = 2,
    // The service refuses.
    CAMPANILE_STATUS_REFUSED = 3,
    // The channel name is invalid.
    CAMPANILE_STATUS_CHANNEL_NAME = 4,
    // The type is not valid for events, or its IDL text has an error.
    CAMPANILE_STATUS_TYPE = 5,
    // The value does not fit its type, or cannot be sent.
    CAMPANILE_STATUS_VALUE = 6,
    // The process was forked: objects made before belong to the parent.
    CAMPANILE_STATUS_FORKED = 7,
    // The transport is not in this build.
    CAMPANILE_STATUS_NO_TRANSPORT = 8,
    // No thread could be started.
    CAMPANILE_STATUS_THREAD = 9,
    // Over DDS: readers are behind and there is no room for more. Nothing is lost; the call may be repeated.
    CAMPANILE_STATUS_SLOWED = 10,
    // DDS does not support the request.
    CAMPANILE_STATUS_DDS = 11,
    // The filter is invalid.
    CAMPANILE_STATUS_FILTER = 12,
    // An argument is wrong: a null pointer, text that is not UTF-8, a handle in the wrong state.
    CAMPANILE_STATUS_ARGUMENT = 100,
    // Nothing arrived in time.
    CAMPANILE_STATUS_TIMEOUT = 101,
    // The object is closed, or its callback has ended it.
    CAMPANILE_STATUS_CLOSED = 102,
    // A callback made a call that would wait for the callback's own end.
    CAMPANILE_STATUS_FROM_CALLBACK = 103,
    // The library has a bug; the message says where.
    CAMPANILE_STATUS_BUG = 104,
    // An error of a later version of the library.
    CAMPANILE_STATUS_OTHER = 105,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_status campanile_status;
#else
typedef int32_t campanile_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Kinds of trouble. Numbers stay stable.
enum campanile_trouble_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The service cannot be reached; the consumer goes on trying.
    CAMPANILE_TROUBLE_CODE_UNREACHABLE = 1,
    // The service answers again.
    CAMPANILE_TROUBLE_CODE_REACHABLE = 2,
    // The subscription was lost and is made anew: the events in between are missing.
    CAMPANILE_TROUBLE_CODE_GAP = 3,
    // A type was received that does not fit the declared one. Reported once for each such type; its events are discarded.
    CAMPANILE_TROUBLE_CODE_MISMATCH = 4,
    // An event was discarded: its value is invalid, or does not fit the declared type.
    CAMPANILE_TROUBLE_CODE_UNREADABLE = 5,
    // A callback failed. The event counts as handled.
    CAMPANILE_TROUBLE_CODE_CALLBACK = 6,
    // A callback took long. Meanwhile events wait.
    CAMPANILE_TROUBLE_CODE_SLOW = 7,
    // Events were lost, over DDS.
    CAMPANILE_TROUBLE_CODE_LOST = 8,
    // The filter uses a name that no declared type has.
    CAMPANILE_TROUBLE_CODE_UNKNOWN_NAME = 9,
    // A remote writer or reader does not match, over DDS: none of its events arrive, or it gets nothing.
    CAMPANILE_TROUBLE_CODE_INCOMPATIBLE = 10,
    // A trouble of a later version of the library: the text describes it.
    CAMPANILE_TROUBLE_CODE_OTHER = 100,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_trouble_code campanile_trouble_code;
#else
typedef int32_t campanile_trouble_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The outcome of events that did not arrive, or perhaps not.
enum campanile_fate
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The service refused the events.
    CAMPANILE_FATE_REFUSED = 1,
    // The connection was lost after the events were sent: if sent again, they may arrive twice.
    CAMPANILE_FATE_UNKNOWN = 2,
    // The connection was lost before the events were sent: they can be published again.
    CAMPANILE_FATE_NOT_SENT = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_fate campanile_fate;
#else
typedef int32_t campanile_fate;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Return value of a function for events.
enum campanile_answer
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The event is handled.
    CAMPANILE_ANSWER_DONE = 0,
    // No more events, please: the subscription ends.
    CAMPANILE_ANSWER_ENOUGH = 1,
    // The event could not be handled; `campanile_callback_failed` gives the reason. It is reported as trouble, and the next event follows.
    CAMPANILE_ANSWER_FAILED = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_answer campanile_answer;
#else
typedef int32_t campanile_answer;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Receives events: created, configured, and started with `campanile_consumer_ready`. One thread at a time configures it; then any number
// of threads may use it at once.
typedef struct campanile_consumer campanile_consumer;

// Publishes without waiting for each event: events are gathered for a moment and sent together, in order. Any number of threads may use
// one at once. It may outlive its supplier.
typedef struct campanile_publisher campanile_publisher;

// Settings of suppliers and consumers: see `campanile_settings_set`. One thread at a time uses a handle; suppliers and consumers copy it.
typedef struct campanile_settings campanile_settings;

// Publishes events of any declared types into a channel. Any number of threads may use one at once.
typedef struct campanile_supplier campanile_supplier;

// A type of events. Any number of threads, suppliers and consumers may use one at once; it may be freed while they still use it.
typedef struct campanile_type campanile_type;

// A report to a consumer or a supplier that is not an event. All pointers are valid until the function returns, and none is null.
typedef struct {
    // The kind of trouble.
    campanile_trouble_code code;
    // The whole report, as a sentence.
    const char *text;
    // The event's type name, if the report is about an event; else empty.
    const char *name;
    // Of a mismatch: the member in which the types differ, such as `stations[].name`; else empty. Of endpoints that do not match over DDS:
    // the policy.
    const char *path;
    // The reason, where there is more to say than the code does.
    const char *reason;
    // Of a mismatch: the declared type, in IDL; else empty.
    const char *declared;
    // Of a mismatch: the received type, in IDL; else empty.
    const char *came;
    // Of a gap: its length; of a slow callback: its duration.
    uint64_t milliseconds;
    // Of lost events: the number lost since the last report.
    uint64_t events;
    // Of a mismatch: the supplier, if its events name it (those in ALMA's form); else empty. Of endpoints that do not match over DDS: the
    // writer or reader.
    const char *supplier;
} campanile_trouble;

// Called with each trouble report. Several threads may call it at once, and it may publish.
typedef void (*campanile_on_trouble)(void *context, const campanile_trouble *trouble);

// Called once, when the library no longer uses a context: while the consumer is closed or freed, on the thread that does so. A supplier's
// may also be called after the supplier is freed, on the thread that ran its function, or with the last of its publishers.
typedef void (*campanile_release)(void *context);

// Settings of a publisher. A field of 0 stands for its default.
typedef struct {
    // Events that are gathered before they are sent together; 0 for 64.
    uint32_t gather_events_max;
    // Longest time in microseconds that an event waits for others; 0 for 1000.
    uint32_t gather_time_max_us;
    // Events on the way without an answer, at which publishing waits; 0 for 4096.
    uint32_t unanswered_max;
} campanile_publisher_options;

// Events of a publisher, counted by outcome.
typedef struct {
    // Events that the publisher accepted, numbered from 0 on.
    uint64_t published;
    // Published events that the service has confirmed.
    uint64_t confirmed;
    // Events that the service refused.
    uint64_t refused;
    // Events with an unknown outcome: the connection was lost before the service answered.
    uint64_t unknown;
    // Events that the service certainly does not have.
    uint64_t not_sent;
    // Times that the connection was made anew.
    uint64_t reconnections;
} campanile_tally;

// Events that did not arrive, or perhaps not.
typedef struct {
    // The number of the first lost event.
    uint64_t first;
    // Count of lost events, numbered consecutively.
    uint64_t count;
    // The outcome of these events.
    campanile_fate fate;
    // The reason. To be freed with `campanile_text_free`.
    char *reason;
} campanile_loss;

// UTF-8 text without a final NUL: `printf("%.*s", (int)text.size, text.data)`.
typedef struct {
    // The first octet; never a null pointer.
    const char *data;
    // Number of octets.
    size_t size;
} campanile_text;

// An event. Its pointers are valid until the callback returns, or, for an event from `campanile_consumer_next`, until it is freed.
typedef struct {
    // The domain of the event's type; empty for an event that arrived as an Any.
    campanile_text domain;
    // The name of the event's type.
    campanile_text name;
    // The name of the event itself; usually empty.
    campanile_text event_name;
    // The value, of the declared type if one was declared. Not aligned: use `memcpy` to read numbers.
    const uint8_t *cdr;
    // Octets of the value.
    size_t cdr_size;
    // The context passed to `campanile_consumer_on` or `campanile_consumer_on_any`.
    void *context;
    // Private to the library.
    const void *inner;
    // The event's number, for a consumer with `campanile_consumer_start_from` at a channel with a history; else 0.
    uint64_t number;
    // Time of arrival at the service, in nanoseconds since 1970; 0 if unknown.
    uint64_t came_ns;
} campanile_event;

// Called for events; returns a `campanile_answer`, and any other number is a failure. It runs on a thread of the library, one at a time
// for each consumer. It may publish. It must return: no exception may leave it, nor a `longjmp`.
typedef int32_t (*campanile_on_event)(void *context, const campanile_event *event);

// Called with each log line: 1 is an error, 2 a warning, 3 information, 4 and 5 are for debugging the library. `text` is valid until the
// function returns. Any thread may call it, several at once, and it must not call the library.
typedef void (*campanile_on_log)(void *context, int level, const char *text);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The message of the last call by this thread that returned something else than `CAMPANILE_STATUS_OK`: a sentence in UTF-8. Valid until
// this thread calls the library again.
const char *campanile_last_error(void);

// Whether the last failed call of this thread was certainly not carried out: its event can then be published again without arriving twice.
bool campanile_last_was_not_carried_out(void);

// Position of the error in the filter that was refused last on this thread (`CAMPANILE_STATUS_FILTER`), in characters from 1 on; 0 for
// other errors, and for a filter that is too large as a whole.
uint32_t campanile_last_column(void);

// The library's version: `0.1.0`.
const char *campanile_version(void);

// Loads the settings of the environment (`CAMPANILE_SERVER`, `CAMPANILE_TRANSPORT`, `CAMPANILE_CONTEXT`), the saved context, and defaults.
// To be freed with `campanile_settings_free`.
campanile_status campanile_settings_load(campanile_settings **settings);

// Loads the settings of a saved context, ignoring the environment.
campanile_status campanile_settings_of_context(const char *name, campanile_settings **settings);

// Sets a setting by its name in `contexts.toml`:
//
// | key | value | default |
// |---|---|---|
// | `name` | what the service calls this program in logs, statistics and metrics: 1 to 64 characters; an empty text for nothing | the program and its host |
// | `server` | `HOST`, `HOST:PORT`, `corbaloc:…`, `corbaname:…`, `IOR:…` or the path of an IOR file | `127.0.0.1:2809` |
// | `transport` | `notification` or `dds` | `notification` |
// | `event_form` | `body` or `alma` | `body` |
// | `naming` | another naming service than the server's; an empty text for none | none |
// | `naming_domain` | what stands behind the `@` of channels' names | `DEFAULTDOMAIN` |
// | `event_domain` | the domain of events of types that name none | empty |
// | `wait_for_service_ms` | how long to wait at the start for a service that cannot be reached | `0` |
// | `wait_for_restart_ms` | how long `publish` waits for a service that cannot be reached any more; `0`: not at all | `30000` |
// | `shared_thread` | `true`: consumers of the process with the same settings share a connection and a thread; for many of them | `false` |
// | `tls.ca`, `tls.certificate`, `tls.key` | PEM files: whom to trust, so that TLS is spoken; what to show, and its key | none |
// | `dds.…` | as in `contexts.toml`, the value as TOML or as plain text: `dds.domains.ALMA` is `7`, `dds.reliable` is `false`, `dds.late_joiners` is `1` | |
campanile_status campanile_settings_set(campanile_settings *settings,
                                        const char *key,
                                        const char *value);

// Frees settings. A null pointer is ignored.
void campanile_settings_free(campanile_settings *settings);

// Declares a type by its IDL text: `struct Wind { double speed; double direction; };`. `name` chooses the struct, as `Wind` or
// `weather::Wind`; a null pointer stands for the last one. `domain` is the event domain; a null pointer stands for the one of the
// settings. To be freed with `campanile_type_free`.
campanile_status campanile_type_new(const char *idl, const char *name, const char *domain, campanile_type **type);

// Sets a member's default, used where a supplier's type lacks the member, for consumers that subscribe to the type from then on.
// `structure` is the type itself or one that it contains, as `Wind` or `weather::Wind`; the octets are a value of the member's type alone.
// While this is called, no other thread may use the type.
campanile_status campanile_type_default(campanile_type *type,
                                        const char *structure,
                                        const char *member,
                                        const uint8_t *cdr,
                                        size_t cdr_size);

// The event type's name. Valid until the type is freed; a null pointer for a null pointer.
const char *campanile_type_name(const campanile_type *type);

// The type as IDL text, with all types that it contains. Valid until the type is freed; a null pointer for a null pointer.
const char *campanile_type_idl(const campanile_type *type);

// Checks that the octets are one value of the type and no more: `CAMPANILE_STATUS_OK`, or `CAMPANILE_STATUS_VALUE` with why.
campanile_status campanile_type_check(const campanile_type *type, const uint8_t *cdr, size_t cdr_size);

// A value of the type as JSON. To be freed with `campanile_text_free`.
campanile_status campanile_type_json(const campanile_type *type, const uint8_t *cdr, size_t cdr_size, char **json);

// Frees a type. A null pointer is ignored.
void campanile_type_free(campanile_type *type);

// Frees a text that the library returned. A null pointer is ignored.
void campanile_text_free(char *text);

// Connects to a channel, which is made if it does not exist. `settings` may be a null pointer: those of `campanile_settings_load`. To be
// freed with `campanile_supplier_free`.
campanile_status campanile_supplier_new(const char *channel, const campanile_settings *settings, campanile_supplier **supplier);

// Publishes an event and waits until the service has taken it. The supplier reconnects by itself after a restart of the service; it waits
// for the service for `wait_for_restart_ms` (30 s), and then returns `CAMPANILE_STATUS_UNREACHABLE`. An event that may have been taken is
// not tried again: `campanile_last_was_not_carried_out` tells whether it may be published again.
campanile_status campanile_supplier_publish(const campanile_supplier *supplier,
                                            const campanile_type *type,
                                            const uint8_t *cdr,
                                            size_t cdr_size);

// Has `function` called for trouble that `campanile_supplier_publish` does not return: over DDS, readers that do not match. Without a
// function it is logged. After the supplier is freed the function runs no more, unless the function itself frees it. `release` is called
// with `context` when the library no longer uses that, or at once where there is no DDS; it may be a null pointer.
campanile_status campanile_supplier_on_trouble(const campanile_supplier *supplier,
                                               campanile_on_trouble function,
                                               void *context,
                                               campanile_release release);

// Times that the supplier reconnected to a restarted service. 0 for a null pointer.
uint64_t campanile_supplier_reconnections(const campanile_supplier *supplier);

// Threads that wait in `campanile_supplier_publish` for the service to come back. 0 for a null pointer.
uint32_t campanile_supplier_waiting(const campanile_supplier *supplier);

// Ends the waits of `campanile_supplier_publish`: each such call returns `CAMPANILE_STATUS_UNREACHABLE`, and later ones do not wait for a
// restart any more. For programs about to free a supplier that other threads publish with. A null pointer is ignored.
void campanile_supplier_stop_waiting(const campanile_supplier *supplier);

// Frees a supplier. It disconnects from the service once its publishers are gone as well. A null pointer is ignored.
void campanile_supplier_free(campanile_supplier *supplier);

// Makes a publisher of a supplier's. `options` may be a null pointer. `campanile_publisher_close` closes it and reports the outcome of the
// events; `campanile_publisher_free` frees it.
campanile_status campanile_publisher_new(const campanile_supplier *supplier,
                                         const campanile_publisher_options *options,
                                         campanile_publisher **publisher);

// Publishes an event and writes its number, from 0 on; `number` may be a null pointer. Waits only while `unanswered_max` events are on the
// way. The outcome is reported by `campanile_publisher_sync`, `campanile_publisher_tally` and `campanile_publisher_next_loss`.
campanile_status campanile_publisher_publish(const campanile_publisher *publisher,
                                             const campanile_type *type,
                                             const uint8_t *cdr,
                                             size_t cdr_size,
                                             uint64_t *number);

// Sends the gathered events now.
campanile_status campanile_publisher_flush(const campanile_publisher *publisher);

// Sends the gathered events and waits until the outcome of all events is known. `tally` may be a null pointer.
campanile_status campanile_publisher_sync(const campanile_publisher *publisher, campanile_tally *tally);

// Events counted by outcome, as far as it is known.
campanile_status campanile_publisher_tally(const campanile_publisher *publisher, campanile_tally *tally);

// The next events that did not arrive, or perhaps not: `CAMPANILE_STATUS_OK` with `loss`, or `CAMPANILE_STATUS_TIMEOUT` when there are
// none.
campanile_status campanile_publisher_next_loss(const campanile_publisher *publisher, campanile_loss *loss);

// Sends the gathered events, waits for answers until none has arrived for `limit_ms`, closes the publisher and writes the counts by
// outcome: the events by which `confirmed` falls short of `published` did not arrive, or perhaps not. `tally` may be a null pointer.
campanile_status campanile_publisher_close(const campanile_publisher *publisher, uint32_t limit_ms, campanile_tally *tally);

// Frees a publisher. An open one first waits for answers until none has arrived for 2 seconds, and logs what is not confirmed then. The
// same happens when the process ends. A null pointer is ignored.
void campanile_publisher_free(campanile_publisher *publisher);

// The event's value as JSON: `{"speed":11.5,"direction":270.0}`. To be freed with `campanile_text_free`.
campanile_status campanile_event_json(const campanile_event *event, char **json);

// The event's type as IDL text. To be freed with `campanile_text_free`.
campanile_status campanile_event_idl(const campanile_event *event, char **idl);

// Frees an event from `campanile_consumer_next`; not one passed to a callback. A null pointer is ignored.
void campanile_event_free(campanile_event *event);

// Gives the reason, within a function for events that is about to return `CAMPANILE_ANSWER_FAILED`. A null pointer gives none.
void campanile_callback_failed(const char *reason);

// Makes a consumer of a channel's events. `settings` may be a null pointer: those of `campanile_settings_load`. To be freed with
// `campanile_consumer_free`.
campanile_status campanile_consumer_new(const char *channel, const campanile_settings *settings, campanile_consumer **consumer);

// Has `function` called for events of a type; may be called for several types. Events of the type's name are converted to the type:
// members by name, unknown ones left out, numbers widened; a failed conversion is reported as trouble. With a null pointer as `function`,
// events wait for `campanile_consumer_next`. `release` is called with `context` when the consumer is closed or freed, or at once if this
// fails; it may be a null pointer.
campanile_status campanile_consumer_on(const campanile_consumer *consumer,
                                       const campanile_type *type,
                                       campanile_on_event function,
                                       void *context,
                                       campanile_release release);

// Has `function` called as by `campanile_consumer_on`, for events of all types without a function of their own, in the type they arrive
// with: `campanile_event_json` returns their values as dictionaries.
campanile_status campanile_consumer_on_any(const campanile_consumer *consumer,
                                           campanile_on_event function,
                                           void *context,
                                           campanile_release release);

// Has `function` called for all trouble: gaps, types that do not fit, callbacks that fail or are slow. Without a function trouble is
// logged.
campanile_status campanile_consumer_on_trouble(const campanile_consumer *consumer,
                                               campanile_on_trouble function,
                                               void *context,
                                               campanile_release release);

// Limits the subscription to events that match the filter, in the Extended Trader Constraint Language: `$speed > 10 and $station ==
// 'north'`. The service applies it, so that other events do not travel.
campanile_status campanile_consumer_filter(const campanile_consumer *consumer, const char *constraint);

// Begins in the channel's history, if it has one, and adds numbers to events: `first`, `number:5`, `after:5`, `last:100`, `since:10m`,
// `unix:1764000000.5` (a time in seconds since 1970), `last-of-each-type`, `last-of-each:station` or `new`. A subscription that is made
// anew continues behind the last received event. Not over DDS.
campanile_status campanile_consumer_start_from(const campanile_consumer *consumer, const char *start);

// Sets the duration in milliseconds from which a callback is reported as slow. Default 1000.
campanile_status campanile_consumer_slow_after(const campanile_consumer *consumer, uint32_t milliseconds);

// Subscribes to events published from now on. The channel is made if it does not exist. If this fails, the consumer is closed.
campanile_status campanile_consumer_ready(const campanile_consumer *consumer);

// Takes the next event without a function, waiting up to `limit_ms`; a negative number waits for ever. Up to 256 events wait here; more
// wait at the service. Returns `CAMPANILE_STATUS_TIMEOUT` when no event arrived, `CAMPANILE_STATUS_CLOSED` when none will. The event is to
// be freed with `campanile_event_free`.
campanile_status campanile_consumer_next(const campanile_consumer *consumer, int64_t limit_ms, campanile_event **event);

// A file descriptor that is readable while `campanile_consumer_next` has an event or knows that there will be none any more: for `poll`
// and the like. It belongs to the consumer: wait for it, but never read or close it. Valid until the consumer is freed.
campanile_status campanile_consumer_descriptor(const campanile_consumer *consumer, int *descriptor);

// Stops the events, without waiting, from any thread, callbacks included: `campanile_consumer_next` returns `CAMPANILE_STATUS_CLOSED` once
// the waiting events are taken. The consumer must still be closed or freed.
campanile_status campanile_consumer_stop(const campanile_consumer *consumer);

// Times that the subscription was restored, after the service was restarted or had disconnected it. 0 for a null pointer.
uint64_t campanile_consumer_reconnections(const campanile_consumer *consumer);

// Asks the service now whether the subscription exists, and makes it anew if not, as happens every few seconds by itself.
campanile_status campanile_consumer_check(const campanile_consumer *consumer);

// Whether the consumer has ended: closed, or by a callback's answer. True for a null pointer and in a forked child.
bool campanile_consumer_has_ended(const campanile_consumer *consumer);

// Ends the subscription. When it returns no callback runs any more, and all contexts are released; it waits for a running callback, and
// wakes the threads in `campanile_consumer_next`. Within a callback of this consumer it returns `CAMPANILE_STATUS_FROM_CALLBACK`, and does
// nothing.
campanile_status campanile_consumer_close(const campanile_consumer *consumer);

// Closes a consumer and frees it. Within a callback of this consumer it only logs that mistake. A null pointer is ignored.
void campanile_consumer_free(campanile_consumer *consumer);

// Sets the function for log lines; a null pointer restores the standard error stream. `level` is the highest level logged: 0 for nothing,
// 2 for errors and warnings, which is the default.
void campanile_log(int level, campanile_on_log function, void *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CAMPANILE_H */
