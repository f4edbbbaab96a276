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

// Why something was not done, as a number for languages without sums; those from 100 on only such languages have. Numbers stay as they are.
enum campanile_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // It is done.
    CAMPANILE_STATUS_OK = 0,
    // The settings are wrong.
    CAMPANILE_STATUS_SETTINGS = 1,
    // The service cannot be reached, or did not answer: it may be there later.
    CAMPANILE_STATUS_UNREACHABLE = 2,
    // The service refuses.
    CAMPANILE_STATUS_REFUSED = 3,
    // The name cannot be a channel's.
    CAMPANILE_STATUS_CHANNEL_NAME = 4,
    // The type cannot be an event's, or its IDL text has a mistake.
    CAMPANILE_STATUS_TYPE = 5,
    // The value is none of its type, or cannot travel.
    CAMPANILE_STATUS_VALUE = 6,
    // The process was forked: what was made before belongs to the parent.
    CAMPANILE_STATUS_FORKED = 7,
    // The transport is not in this build.
    CAMPANILE_STATUS_NO_TRANSPORT = 8,
    // No thread could be started.
    CAMPANILE_STATUS_THREAD = 9,
    // Over DDS: readers are behind and there is no room for more. Nothing is lost; it may be tried again.
    CAMPANILE_STATUS_SLOWED = 10,
    // DDS cannot do what it was asked for.
    CAMPANILE_STATUS_DDS = 11,
    // The filter is none.
    CAMPANILE_STATUS_FILTER = 12,
    // An argument is wrong: a null pointer, text that is not UTF-8, a handle that is not in the state for it.
    CAMPANILE_STATUS_ARGUMENT = 100,
    // Nothing came in time.
    CAMPANILE_STATUS_TIMEOUT = 101,
    // It is closed, or its callback had enough.
    CAMPANILE_STATUS_CLOSED = 102,
    // A callback has asked for what would wait for its own end.
    CAMPANILE_STATUS_FROM_CALLBACK = 103,
    // The library has a bug; the message says where.
    CAMPANILE_STATUS_BUG = 104,
    // Something of a later version of the library.
    CAMPANILE_STATUS_OTHER = 105,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_status campanile_status;
#else
typedef int32_t campanile_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Which sort of trouble it is. Numbers stay as they are.
enum campanile_trouble_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The service cannot be reached; the consumer goes on trying.
    CAMPANILE_TROUBLE_CODE_UNREACHABLE = 1,
    // The service answers again.
    CAMPANILE_TROUBLE_CODE_REACHABLE = 2,
    // The subscription was gone and is made anew: events between are missing.
    CAMPANILE_TROUBLE_CODE_GAP = 3,
    // Another type came than the one that is declared. Reported once for each; its events are not handed over.
    CAMPANILE_TROUBLE_CODE_MISMATCH = 4,
    // An event was not handed over, since it is no value of its type, or none that the declared type has room for.
    CAMPANILE_TROUBLE_CODE_UNREADABLE = 5,
    // A callback failed. The event counts as handed over.
    CAMPANILE_TROUBLE_CODE_CALLBACK = 6,
    // A callback took long. Meanwhile events wait.
    CAMPANILE_TROUBLE_CODE_SLOW = 7,
    // Events did not come, over DDS.
    CAMPANILE_TROUBLE_CODE_LOST = 8,
    // The filter asks for a name that no declared type has.
    CAMPANILE_TROUBLE_CODE_UNKNOWN_NAME = 9,
    // A writer or reader does not match, over DDS: none of its events come, or it gets nothing.
    CAMPANILE_TROUBLE_CODE_INCOMPATIBLE = 10,
    // Something of a later version of the library: the text says it.
    CAMPANILE_TROUBLE_CODE_OTHER = 100,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_trouble_code campanile_trouble_code;
#else
typedef int32_t campanile_trouble_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What became of events that did not arrive, or perhaps not.
enum campanile_fate
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The service refused them.
    CAMPANILE_FATE_REFUSED = 1,
    // The connection was lost after they were sent: sent again, they may arrive twice.
    CAMPANILE_FATE_UNKNOWN = 2,
    // The connection was lost before they were sent: they can be published again.
    CAMPANILE_FATE_NOT_SENT = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_fate campanile_fate;
#else
typedef int32_t campanile_fate;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a function for events answers.
enum campanile_answer
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The event is handled.
    CAMPANILE_ANSWER_DONE = 0,
    // No more events are wanted: the subscription ends.
    CAMPANILE_ANSWER_ENOUGH = 1,
    // The event could not be handled; `campanile_callback_failed` says why. That is reported as trouble, and the next one comes.
    CAMPANILE_ANSWER_FAILED = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_answer campanile_answer;
#else
typedef int32_t campanile_answer;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Receives events: made, configured, and begun with `campanile_consumer_ready`. One thread at a time configures it; then any number of
// threads may use it at once.
typedef struct campanile_consumer campanile_consumer;

// Publishes without waiting for each event: events are gathered for a moment and sent together, in order. Any number of threads may use
// one at once. It may outlive its supplier.
typedef struct campanile_publisher campanile_publisher;

// Where events go, and how: see `campanile_settings_set`. One thread at a time uses one; suppliers and consumers copy it.
typedef struct campanile_settings campanile_settings;

// Publishes into a channel events of any types that are declared. Any number of threads may use one at once.
typedef struct campanile_supplier campanile_supplier;

// A type of events. Any number of threads, suppliers and consumers may use one at once; it may be freed while they go on.
typedef struct campanile_type campanile_type;

// A report to a consumer, or to a supplier, that is no event. All that it points to is good until the function returns, and no pointer is null.
typedef struct {
    // Which sort it is.
    campanile_trouble_code code;
    // All of it, as a sentence.
    const char *text;
    // The event's type name, where it is about one; else empty.
    const char *name;
    // Of a mismatch: the member in which the types differ, such as `stations[].name`; else empty.
    // Of what does not match over DDS: the policy.
    const char *path;
    // Why, where there is more to be said than the code.
    const char *reason;
    // Of a mismatch: the declared type, in IDL; else empty.
    const char *declared;
    // Of a mismatch: the type that came, in IDL; else empty.
    const char *came;
    // Of a gap: how long it was; of a slow callback: how long it took.
    uint64_t milliseconds;
    // Of lost events: how many more than were reported before.
    uint64_t events;
    // Of a mismatch: the supplier, where its events say so (those in ALMA's form); else empty.
    // Of what does not match over DDS: the writer or reader.
    const char *supplier;
} campanile_trouble;

// Called with what is reported besides events. It may be called by several threads at once, and may publish.
typedef void (*campanile_on_trouble)(void *context, const campanile_trouble *trouble);

// Is called when a context is not used any more, once: while the consumer is closed or freed, by the thread that does;
// a supplier's also after that is freed, on the thread on which its function ran, and with the last of its publishers.
typedef void (*campanile_release)(void *context);

// Settings of a publisher. All of 0 stands for the defaults.
typedef struct {
    // Events that are gathered before they are sent together; 0 for 64.
    uint32_t gather_events_max;
    // Longest time in microseconds that an event waits for others; 0 for 1000.
    uint32_t gather_time_max_us;
    // Events that may be on the way without an answer, then publishing waits; 0 for 4096.
    uint32_t unanswered_max;
} campanile_publisher_options;

// How many events became what.
typedef struct {
    // Events that the publisher took, and gave numbers from 0 on.
    uint64_t published;
    // Of these, those of which it is known that the service has them.
    uint64_t confirmed;
    // Those that the service refused.
    uint64_t refused;
    // Those of which it is not known whether the service has them: the connection was lost meanwhile.
    uint64_t unknown;
    // Those that the service certainly does not have.
    uint64_t not_sent;
    // How often the connection had to be made anew.
    uint64_t reconnections;
} campanile_tally;

// Events that did not arrive, or perhaps not.
typedef struct {
    // The number of the first of them.
    uint64_t first;
    // How many they are.
    uint64_t count;
    // What became of them.
    campanile_fate fate;
    // Why. To be freed with `campanile_text_free`.
    char *reason;
} campanile_loss;

// A text of UTF-8 that does not end with a NUL: `printf("%.*s", (int)text.size, text.data)`.
typedef struct {
    // Where it begins; never a null pointer.
    const char *data;
    // Its octets.
    size_t size;
} campanile_text;

// An event. All that it points to is good until the callback returns, or, of an event that `campanile_consumer_next` gave, until it is
// freed.
typedef struct {
    // The domain of its type; empty for an event that came as an Any.
    campanile_text domain;
    // The name of its type.
    campanile_text name;
    // The name of the event itself; mostly empty.
    campanile_text event_name;
    // The value, of the declared type if one was declared. It may lie at any address: `memcpy` takes numbers out.
    const uint8_t *cdr;
    // Its octets.
    size_t cdr_size;
    // What was handed over with `campanile_consumer_on` or `campanile_consumer_on_any`.
    void *context;
    // The library's.
    const void *inner;
    // Its number, of a consumer with `campanile_consumer_start_from` at a channel with a history; else 0.
    uint64_t number;
    // When it came to the service, in nanoseconds since 1970; 0 where that is not known.
    uint64_t came_ns;
} campanile_event;

// Is called for events; it answers a `campanile_answer`, and any other number is a failure. It runs on a thread of the library's, one at
// a time for a consumer. It may publish. It must return: no exception may leave it, nor a `longjmp`.
typedef int32_t (*campanile_on_event)(void *context, const campanile_event *event);

// Called with what the library logs: 1 is an error, 2 a warning, 3 information, 4 and 5 are for finding mistakes in the library.
// `text` is good until the function returns. It is called by any thread, by several at once, and must not call the library.
typedef void (*campanile_on_log)(void *context, int level, const char *text);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What was wrong the last time that a function, called by this thread, answered something else than `CAMPANILE_STATUS_OK`: a sentence in
// UTF-8. Good until this thread calls the library again.
const char *campanile_last_error(void);

// Whether what failed last on this thread was certainly not done: an event can then be published again without being there twice.
bool campanile_last_was_not_carried_out(void);

// Where the filter is wrong that was refused last on this thread (`CAMPANILE_STATUS_FILTER`), in characters from 1 on; 0 for other errors, and
// for a filter that is too much altogether.
uint32_t campanile_last_column(void);

// The library's version: `0.1.0`.
const char *campanile_version(void);

// The settings of the environment (`CAMPANILE_SERVER`, `CAMPANILE_TRANSPORT`, `CAMPANILE_CONTEXT`), the saved context, and defaults. To be
// freed with `campanile_settings_free`.
campanile_status campanile_settings_load(campanile_settings **settings);

// The settings of a saved context, whatever the environment says.
campanile_status campanile_settings_of_context(const char *name, campanile_settings **settings);

// Sets one of them, by its name in `contexts.toml`:
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

// Frees settings. A null pointer is none.
void campanile_settings_free(campanile_settings *settings);

// Declares a type by its IDL text: `struct Wind { double speed; double direction; };`. `name` says which struct of the text it is, as
// `Wind` or `weather::Wind`; a null pointer stands for the last one. `domain` is that of its events; a null pointer stands for the one
// that the settings say. To be freed with `campanile_type_free`.
campanile_status campanile_type_new(const char *idl, const char *name, const char *domain, campanile_type **type);

// Gives a member a value for where a supplier's type lacks it, in consumers that are asked for the type from then on: `structure` is the
// type itself or one that it is made of, as `Wind` or `weather::Wind`; the octets are a value of the member's type alone. While this is
// called, one thread uses the type.
campanile_status campanile_type_default(campanile_type *type,
                                        const char *structure,
                                        const char *member,
                                        const uint8_t *cdr,
                                        size_t cdr_size);

// The name under which the events travel. Good until the type is freed; a null pointer for a null pointer.
const char *campanile_type_name(const campanile_type *type);

// The type as IDL text, with all that it is made of. Good until the type is freed; a null pointer for a null pointer.
const char *campanile_type_idl(const campanile_type *type);

// Whether octets are a value of the type and nothing more: `CAMPANILE_STATUS_OK`, or `CAMPANILE_STATUS_VALUE` with what is wrong.
campanile_status campanile_type_check(const campanile_type *type, const uint8_t *cdr, size_t cdr_size);

// A value of the type as JSON. To be freed with `campanile_text_free`.
campanile_status campanile_type_json(const campanile_type *type, const uint8_t *cdr, size_t cdr_size, char **json);

// Frees a type. A null pointer is none.
void campanile_type_free(campanile_type *type);

// Frees a text that the library gave. A null pointer is none.
void campanile_text_free(char *text);

// Connects to a channel, which is made if there is none. `settings` may be a null pointer: those of `campanile_settings_load`. To be freed
// with `campanile_supplier_free`.
campanile_status campanile_supplier_new(const char *channel, const campanile_settings *settings, campanile_supplier **supplier);

// Publishes an event and waits until the service has taken it. It finds back by itself when the service was restarted; while there is
// none it waits for one, for `wait_for_restart_ms` (30 s), and then answers `CAMPANILE_STATUS_UNREACHABLE`. An event that may have been
// taken is not tried again: `campanile_last_was_not_carried_out` tells whether it may be published again.
campanile_status campanile_supplier_publish(const campanile_supplier *supplier,
                                            const campanile_type *type,
                                            const uint8_t *cdr,
                                            size_t cdr_size);

// Has `function` called for what `campanile_supplier_publish` does not answer: over DDS, readers that do not match. Without it that is
// logged. When the supplier is freed it runs no more, unless it is what frees it. `release` is called with `context` when that is not used any
// more, or at once where there is no DDS; it may be a null pointer.
campanile_status campanile_supplier_on_trouble(const campanile_supplier *supplier,
                                               campanile_on_trouble function,
                                               void *context,
                                               campanile_release release);

// How often it has had to find its way back to a service that was restarted. 0 for a null pointer.
uint64_t campanile_supplier_reconnections(const campanile_supplier *supplier);

// How many threads wait in `campanile_supplier_publish` until the service is there again. 0 for a null pointer.
uint32_t campanile_supplier_waiting(const campanile_supplier *supplier);

// Ends these waits: each such call answers `CAMPANILE_STATUS_UNREACHABLE`, and later ones do not wait for a restart any more. For programs
// about to free a supplier that other threads publish with. A null pointer is none.
void campanile_supplier_stop_waiting(const campanile_supplier *supplier);

// Takes leave of the service, when the supplier's publishers have, too, and frees it. A null pointer is none.
void campanile_supplier_free(campanile_supplier *supplier);

// Makes a publisher of a supplier's. `options` may be a null pointer. `campanile_publisher_close` closes it and says what became of the
// events; `campanile_publisher_free` frees it.
campanile_status campanile_publisher_new(const campanile_supplier *supplier,
                                         const campanile_publisher_options *options,
                                         campanile_publisher **publisher);

// Takes an event and gives its number, from 0 on; `number` may be a null pointer. Waits only when as many are on the way as may be. Its
// fate is reported by `campanile_publisher_sync`, `campanile_publisher_tally` and `campanile_publisher_next_loss`.
campanile_status campanile_publisher_publish(const campanile_publisher *publisher,
                                             const campanile_type *type,
                                             const uint8_t *cdr,
                                             size_t cdr_size,
                                             uint64_t *number);

// Sends what was gathered now.
campanile_status campanile_publisher_flush(const campanile_publisher *publisher);

// Sends what was gathered and waits until the fate of all events is known. `tally` may be a null pointer.
campanile_status campanile_publisher_sync(const campanile_publisher *publisher, campanile_tally *tally);

// How many events became what, as far as is known.
campanile_status campanile_publisher_tally(const campanile_publisher *publisher, campanile_tally *tally);

// The next events that did not arrive, or perhaps not: `CAMPANILE_STATUS_OK` with `loss`, or `CAMPANILE_STATUS_TIMEOUT` when there are
// none.
campanile_status campanile_publisher_next_loss(const campanile_publisher *publisher, campanile_loss *loss);

// Sends what was gathered, waits for answers until for `limit_ms` none has come, ends the publisher and tells how many events became what:
// those of which `confirmed` falls short of `published` did not arrive, or perhaps not. `tally` may be a null pointer.
campanile_status campanile_publisher_close(const campanile_publisher *publisher, uint32_t limit_ms, campanile_tally *tally);

// Frees a publisher. If it is not closed, answers are waited for until for 2 seconds none has come, and what is not confirmed then is
// logged. The same happens when the process ends. A null pointer is none.
void campanile_publisher_free(campanile_publisher *publisher);

// The event's value as JSON: `{"speed":11.5,"direction":270.0}`. To be freed with `campanile_text_free`.
campanile_status campanile_event_json(const campanile_event *event, char **json);

// The event's type as IDL text. To be freed with `campanile_text_free`.
campanile_status campanile_event_idl(const campanile_event *event, char **idl);

// Frees an event that `campanile_consumer_next` gave; not one that a callback was given. A null pointer is none.
void campanile_event_free(campanile_event *event);

// Says, within a function for events that is about to answer `CAMPANILE_ANSWER_FAILED`, why. A null pointer says nothing.
void campanile_callback_failed(const char *reason);

// Makes a consumer of a channel's events. `settings` may be a null pointer: those of `campanile_settings_load`. To be freed with
// `campanile_consumer_free`.
campanile_status campanile_consumer_new(const char *channel, const campanile_settings *settings, campanile_consumer **consumer);

// Has `function` called for events of a type. Several types may be asked for. Values are made of what comes under the type's name: members
// by name, others left out, numbers widened; what cannot be is reported as trouble. A null pointer as `function` keeps the events for
// `campanile_consumer_next`. `release` is called with `context` when the consumer is closed or freed, or at once if this fails; it may be
// a null pointer.
campanile_status campanile_consumer_on(const campanile_consumer *consumer,
                                       const campanile_type *type,
                                       campanile_on_event function,
                                       void *context,
                                       campanile_release release);

// As `campanile_consumer_on`, for events of all types that are not asked for otherwise, with the type that they come with:
// `campanile_event_json` has their values as dictionaries.
campanile_status campanile_consumer_on_any(const campanile_consumer *consumer,
                                           campanile_on_event function,
                                           void *context,
                                           campanile_release release);

// Has `function` called for all that is no event: gaps, types that do not fit, callbacks that fail or are slow. Without it they are
// logged.
campanile_status campanile_consumer_on_trouble(const campanile_consumer *consumer,
                                               campanile_on_trouble function,
                                               void *context,
                                               campanile_release release);

// Only events for which this holds, in the Extended Trader Constraint Language: `$speed > 10 and $station == 'north'`. The service
// applies it, so that other events do not travel.
campanile_status campanile_consumer_filter(const campanile_consumer *consumer, const char *constraint);

// Begins in the channel's history, where that stores one, and has events come with their numbers: `first`, `number:5`, `after:5`, `last:100`,
// `since:10m`, `unix:1764000000.5` (a time in seconds since 1970), `last-of-each-type`, `last-of-each:station` or `new`. A subscription that
// has to be made anew goes on behind the last event that came. Not over DDS.
campanile_status campanile_consumer_start_from(const campanile_consumer *consumer,
                                               const char *start);

// How long a callback may take before that is reported as trouble. Default 1000.
campanile_status campanile_consumer_slow_after(const campanile_consumer *consumer, uint32_t milliseconds);

// Subscribes: events that are published from now on come. The channel is made if there is none. A consumer that could not be made ready is
// closed.
campanile_status campanile_consumer_ready(const campanile_consumer *consumer);

// Takes the next of the events for which there is no function, when one comes within `limit_ms`; a negative number waits for as long as it
// takes. Up to 256 events wait here for being asked for; beyond that they wait at the service. Answers `CAMPANILE_STATUS_TIMEOUT` when
// none came, `CAMPANILE_STATUS_CLOSED` when none will. The event is to be freed with `campanile_event_free`.
campanile_status campanile_consumer_next(const campanile_consumer *consumer, int64_t limit_ms, campanile_event **event);

// A file descriptor that can be read from while there is an event for `campanile_consumer_next`, or there will be none any more: for `poll` and
// its like. It is the consumer's: only waited for, never read nor closed, and good until the consumer is freed.
campanile_status campanile_consumer_descriptor(const campanile_consumer *consumer,
                                               int *descriptor);

// Has no more events come, without waiting for anything, from any thread, callbacks among them: `campanile_consumer_next` answers
// `CAMPANILE_STATUS_CLOSED` once those that are here are taken. The consumer is to be closed or freed all the same.
campanile_status campanile_consumer_stop(const campanile_consumer *consumer);

// How often the subscription has found back to a service, since that was restarted or had disconnected it. 0 for a null pointer.
uint64_t campanile_consumer_reconnections(const campanile_consumer *consumer);

// Asks the service now whether the subscription is still there, and makes it anew if not, as is done every few seconds without.
campanile_status campanile_consumer_check(const campanile_consumer *consumer);

// Whether it is over: closed, or a callback had enough. True for a null pointer and in a forked child.
bool campanile_consumer_has_ended(const campanile_consumer *consumer);

// Ends the subscription. When it returns no callback runs any more, and all contexts are released; it waits for a callback that runs, and
// wakes those that wait in `campanile_consumer_next`. Within a callback of the consumer's own it answers
// `CAMPANILE_STATUS_FROM_CALLBACK`, and does nothing.
campanile_status campanile_consumer_close(const campanile_consumer *consumer);

// Closes a consumer and frees it. Within a callback of the consumer's own it does nothing but log that mistake. A null pointer is none.
void campanile_consumer_free(campanile_consumer *consumer);

// Has a function called with what the library logs; a null pointer has it written to the standard error stream again. `level` is the
// highest that is logged: 0 for nothing, 2 for errors and warnings, which is the default.
void campanile_log(int level, campanile_on_log function, void *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CAMPANILE_H */
