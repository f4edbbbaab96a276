// Campanile for C++17: events as structs.
//
//     struct Wind { double speed, direction; };
//     CAMPANILE_EVENT(Wind, speed, direction)
//
//     campanile::Consumer consumer("Weather");
//     consumer.on([](const Wind& wind) { std::cout << wind.speed << '\n'; }).ready();
//     campanile::Supplier("Weather").publish(Wind{11.5, 270});
//
// Header only, over the C interface in campanile.h; link with -lcampanile. See README.md beside it for what members can be.
//
// Errors are thrown as campanile::error. An exception that leaves a callback is told as trouble, and the next event comes.
// Threads: any number may use a Supplier, a Publisher, or a Consumer that is ready.
#pragma once

#include <campanile.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if __cplusplus >= 202002L && defined(__has_include)
#if __has_include(<stop_token>)
#include <stop_token>
#if defined(__cpp_lib_jthread)
/// There is `std::stop_token`: C++20.
#define CAMPANILE_STOP_TOKEN
#endif
#endif
#endif

#include "campanile_fields.hpp"

namespace campanile {
namespace detail {

// ---------------------------------------------------------------------------------------------------------------------------------------
// Handles.

struct Free {
    void operator()(campanile_settings* it) const noexcept { campanile_settings_free(it); }
    void operator()(campanile_type* it) const noexcept { campanile_type_free(it); }
    void operator()(campanile_supplier* it) const noexcept { campanile_supplier_free(it); }
    void operator()(campanile_publisher* it) const noexcept { campanile_publisher_free(it); }
    void operator()(campanile_consumer* it) const noexcept { campanile_consumer_free(it); }
    void operator()(campanile_event* it) const noexcept { campanile_event_free(it); }
    void operator()(char* it) const noexcept { campanile_text_free(it); }
};
template <class T> using Handle = std::unique_ptr<T, Free>;

// Hidden, as in campanile_fields.hpp.
#pragma GCC visibility push(hidden)
/// The type, made once for the program or shared object.
template <class T> const campanile_type* type_of() {
    static_assert(is_event<T>::value, "CAMPANILE_EVENT is missing for this struct, in the namespace that the struct is in");
    // Never freed: what is destroyed at the end of the process may still publish.
    static const campanile_type* const type = [] {
        Idl idl;
        Field<T>::idl(idl);
        std::string name = campanile_module(of<T>);
        name += (name.empty() ? "" : "::") + std::string(last_of(campanile_type_name(of<T>)));
        campanile_type* made = nullptr;
        check(campanile_type_new(idl.text().c_str(), name.c_str(), campanile_domain(of<T>), &made));
        for (const auto& [structure, member, octets] : idl.defaults) {
            check(campanile_type_default(made, structure.c_str(), member.c_str(), octets.data(), octets.size()));
        }
        return made;
    }();
    return type;
}
#pragma GCC visibility pop

inline std::string_view view(const campanile_text& text) { return {text.data, text.size}; }

inline std::string taken(char* text) { return Handle<char>(text).get(); }

/// What a callback takes.
template <class F> struct Argument : Argument<decltype(&F::operator())> {};
template <class R, class A, class... N> struct Argument<R (*)(A, N...)> { using type = std::remove_cv_t<std::remove_reference_t<A>>; };
template <class C, class R, class... A> struct Argument<R (C::*)(A...)> : Argument<R (*)(A...)> {};
template <class C, class R, class... A> struct Argument<R (C::*)(A...) const> : Argument<R (*)(A...)> {};
template <class C, class R, class... A> struct Argument<R (C::*)(A...) noexcept> : Argument<R (*)(A...)> {};
template <class C, class R, class... A> struct Argument<R (C::*)(A...) const noexcept> : Argument<R (*)(A...)> {};

/// Calls, and has nothing thrown leave it.
template <class Call> std::int32_t guarded(Call call) noexcept {
    try {
        if constexpr (std::is_same_v<decltype(call()), Answer>) {
            return call() == Answer::enough ? CAMPANILE_ANSWER_ENOUGH : CAMPANILE_ANSWER_DONE;
        } else {
            call();
            return CAMPANILE_ANSWER_DONE;
        }
    } catch (const std::exception& thrown) {
        campanile_callback_failed(thrown.what());
    } catch (...) {
        campanile_callback_failed("it has thrown what is no std::exception");
    }
    return CAMPANILE_ANSWER_FAILED;
}

template <class T> void release(void* context) { delete static_cast<T*>(context); }

/// What a callback has, of the program's context.
template <class T> T& at(void* context) { return *static_cast<T*>(context); }

} // namespace detail

/// Where events go, and how. Made of the environment (CAMPANILE_SERVER, CAMPANILE_TRANSPORT, CAMPANILE_CONTEXT), the saved context and
/// defaults.
class Settings {
public:
    Settings() {
        campanile_settings* made = nullptr;
        detail::check(campanile_settings_load(&made));
        handle_.reset(made);
    }

    /// The settings of a saved context, whatever the environment says.
    static Settings of_context(const std::string& name) {
        campanile_settings* made = nullptr;
        detail::check(campanile_settings_of_context(name.c_str(), &made));
        return Settings(made);
    }

    /// Sets one of them: see campanile_settings_set.
    Settings& set(const std::string& key, const std::string& value) {
        detail::check(campanile_settings_set(handle_.get(), key.c_str(), value.c_str()));
        return *this;
    }

    const campanile_settings* get() const noexcept { return handle_.get(); }

private:
    explicit Settings(campanile_settings* made) : handle_(made) {}
    detail::Handle<campanile_settings> handle_;
};

/// How many events became what.
struct Tally : campanile_tally {
    /// All that are not known to have arrived.
    std::uint64_t unconfirmed() const noexcept { return published - confirmed; }
};

using PublisherOptions = campanile_publisher_options;

/// Events that did not arrive, or perhaps not.
struct Loss {
    std::uint64_t first;
    std::uint64_t count;
    campanile_fate fate;
    std::string reason;
};

/// Publishes without waiting for each event. When it is destroyed, answers are waited for until for 2 seconds none has come, and what is
/// not confirmed then is logged: those who want to know call close().
class Publisher {
public:
    /// Takes an event and gives its number, from 0 on. Waits only when as many are on the way as may be.
    template <class T> std::uint64_t publish(const T& event) {
        std::uint64_t number = 0;
        detail::with_octets(event, [&](const std::uint8_t* octets, std::size_t size) {
            detail::check(campanile_publisher_publish(handle_.get(), detail::type_of<T>(), octets, size, &number));
        });
        return number;
    }

    /// Sends what was gathered now.
    void flush() { detail::check(campanile_publisher_flush(handle_.get())); }

    /// Sends what was gathered and waits until the fate of all events is known.
    Tally sync() {
        Tally tally{};
        detail::check(campanile_publisher_sync(handle_.get(), &tally));
        return tally;
    }

    /// How many events became what, as far as is known.
    Tally tally() const {
        Tally tally{};
        detail::check(campanile_publisher_tally(handle_.get(), &tally));
        return tally;
    }

    /// The next events that did not arrive, or perhaps not.
    std::optional<Loss> next_loss() {
        campanile_loss loss{};
        const campanile_status status = campanile_publisher_next_loss(handle_.get(), &loss);
        if (status == CAMPANILE_STATUS_TIMEOUT) {
            return std::nullopt;
        }
        detail::check(status);
        return Loss{loss.first, loss.count, loss.fate, detail::taken(loss.reason)};
    }

    /// Ends it when the fate of all events is known, or when for that long no answer has come, and tells how many became what.
    Tally close(std::chrono::milliseconds limit = std::chrono::minutes(1)) {
        Tally tally{};
        detail::check(campanile_publisher_close(handle_.get(), static_cast<std::uint32_t>(limit.count()), &tally));
        return tally;
    }

private:
    friend class Supplier;
    explicit Publisher(campanile_publisher* made) : handle_(made) {}
    detail::Handle<campanile_publisher> handle_;
};

/// What is no event, with all of it its own: see campanile_trouble.
struct Trouble {
    campanile_trouble_code code;
    std::string text, name, path, reason, declared, came, supplier;
    std::chrono::milliseconds length;
    std::uint64_t events;

    explicit Trouble(const campanile_trouble& of)
        : code(of.code), text(of.text), name(of.name), path(of.path), reason(of.reason), declared(of.declared), came(of.came),
          supplier(of.supplier), length(static_cast<std::int64_t>(of.milliseconds)), events(of.events) {}
};

/// Publishes structs into a channel, of one type or several. It finds back by itself when the service was restarted, for which `publish`
/// waits for `wait_for_restart_ms` (30 s).
class Supplier {
public:
    /// Connects to a channel, which is made if there is none.
    explicit Supplier(const std::string& channel) : Supplier(channel, nullptr) {}
    Supplier(const std::string& channel, const Settings& settings) : Supplier(channel, settings.get()) {}

    /// Publishes an event and waits until the service has taken it.
    template <class T> void publish(const T& event) {
        detail::with_octets(event, [this](const std::uint8_t* octets, std::size_t size) {
            detail::check(campanile_supplier_publish(handle_.get(), detail::type_of<T>(), octets, size));
        });
    }

    /// Publishes without waiting for each event: for many of them.
    Publisher publisher(const PublisherOptions& options = {}) {
        campanile_publisher* made = nullptr;
        detail::check(campanile_publisher_new(handle_.get(), &options, &made));
        return Publisher(made);
    }

    /// Has `callback` called with a Trouble for what `publish` does not throw: over DDS, readers that do not match. Default: it is logged. It is
    /// called by threads of the library's, and no more when the supplier is destroyed.
    template <class F> void on_trouble(F callback) {
        const auto call = [](void* context, const campanile_trouble* trouble) {
            (void)detail::guarded([&] { detail::at<F>(context)(Trouble(*trouble)); });
        };
        detail::check(campanile_supplier_on_trouble(handle_.get(), call, new F(std::move(callback)), &detail::release<F>));
    }

    /// How often it has had to find its way back to a service that was restarted.
    std::uint64_t reconnections() const noexcept { return campanile_supplier_reconnections(handle_.get()); }

    /// How many threads wait in `publish` until the service is there again.
    std::uint32_t waiting() const noexcept { return campanile_supplier_waiting(handle_.get()); }

    /// Ends these waits: each such `publish` throws what it waits about, and later ones do not wait for a restart any more. For those who
    /// are about to destroy a supplier that other threads publish with.
    void stop_waiting() const noexcept { campanile_supplier_stop_waiting(handle_.get()); }

private:
    Supplier(const std::string& channel, const campanile_settings* settings) {
        campanile_supplier* made = nullptr;
        detail::check(campanile_supplier_new(channel.c_str(), settings, &made));
        handle_.reset(made);
    }

    detail::Handle<campanile_supplier> handle_;
};

/// An event of a type that is not known to the program. A callback's is good until the callback returns.
class Dynamic {
public:
    explicit Dynamic(const campanile_event* event) : event_(event) {}

    std::string_view domain() const { return detail::view(event_->domain); }
    std::string_view name() const { return detail::view(event_->name); }

    /// Its value as JSON: `{"speed":11.5,"direction":270.0}`.
    std::string json() const {
        char* text = nullptr;
        detail::check(campanile_event_json(event_, &text));
        return detail::taken(text);
    }

    /// Its type as IDL text.
    std::string idl() const {
        char* text = nullptr;
        detail::check(campanile_event_idl(event_, &text));
        return detail::taken(text);
    }

private:
    const campanile_event* event_;
};

/// Which event of its channel one is, of a consumer with start_from().
struct EventNumber {
    /// Numbers rise, and some may be missing.
    std::uint64_t number;
    /// When it came to the service, by its clock.
    std::optional<std::chrono::system_clock::time_point> came;

    /// That of an event; nothing where the channel stores no history.
    static std::optional<EventNumber> of(const campanile_event& event) {
        if (event.number == 0) {
            return std::nullopt;
        }
        EventNumber number{event.number, std::nullopt};
        if (event.came_ns != 0) {
            const std::chrono::nanoseconds since_1970(static_cast<std::int64_t>(event.came_ns));
            number.came = std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(since_1970));
        }
        return number;
    }
};

/// Where a consumer begins in its channel's history.
class StartFrom {
public:
    static StartFrom first() { return StartFrom("first"); }
    static StartFrom number(std::uint64_t number) { return StartFrom("number:" + std::to_string(number)); }
    /// Behind the event of this number: where a program goes on that handled it.
    static StartFrom after(std::uint64_t number) { return StartFrom("after:" + std::to_string(number)); }
    static StartFrom last(std::uint64_t count) { return StartFrom("last:" + std::to_string(count)); }
    static StartFrom since(std::chrono::milliseconds length) { return StartFrom("since:" + std::to_string(length.count()) + "ms"); }
    static StartFrom time(std::chrono::system_clock::time_point time) {
        const auto since_1970 = std::chrono::duration<double>(time.time_since_epoch()).count();
        return StartFrom("unix:" + std::to_string(since_1970));
    }
    static StartFrom last_of_each_type() { return StartFrom("last-of-each-type"); }
    static StartFrom last_of_each(const std::string& member) { return StartFrom("last-of-each:" + member); }

    const std::string& text() const noexcept { return text_; }

private:
    explicit StartFrom(std::string text) : text_(std::move(text)) {}
    std::string text_;
};

template <class T> class Events;

/// Receives events as structs: made, told what is wanted, and begun with ready(). When it is destroyed or closed, no callback runs any
/// more. It must not be destroyed by its own callback, which can answer campanile::Answer::enough.
class Consumer {
public:
    explicit Consumer(const std::string& channel) : Consumer(channel, nullptr) {}
    Consumer(const std::string& channel, const Settings& settings) : Consumer(channel, settings.get()) {}

    /// Has `callback` called for events of a type, which is the one that it takes; it may also take a `const std::optional<EventNumber>&`. It may
    /// return nothing, or an Answer.
    template <class F> Consumer& on(F callback) {
        return on<typename detail::Argument<F>::type>(std::move(callback));
    }

    template <class T, class F> Consumer& on(F callback) {
        struct Context {
            F callback;
            T event; // used again for each, so that its strings and vectors keep their memory
        };
        auto* context = new Context{std::move(callback), T{}};
        const auto call = [](void* handed, const campanile_event* event) {
            return detail::guarded([&] {
                auto& it = detail::at<Context>(handed);
                detail::Reader reader(event->cdr, event->cdr_size);
                detail::Field<T>::read(reader, it.event);
                if constexpr (std::is_invocable_v<F&, const T&, const std::optional<EventNumber>&>) {
                    return it.callback(std::as_const(it.event), EventNumber::of(*event));
                } else {
                    return it.callback(it.event);
                }
            });
        };
        const campanile_type* type = nullptr;
        try {
            type = detail::type_of<T>();
        } catch (...) {
            delete context;
            throw;
        }
        detail::check(campanile_consumer_on(handle_.get(), type, call, context, &detail::release<Context>));
        return *this;
    }

    /// Has `callback` called with a Dynamic for events of all other types.
    template <class F> Consumer& on_any(F callback) {
        const auto call = [](void* context, const campanile_event* event) {
            return detail::guarded([&] { return detail::at<F>(context)(Dynamic(event)); });
        };
        detail::check(campanile_consumer_on_any(handle_.get(), call, new F(std::move(callback)), &detail::release<F>));
        return *this;
    }

    /// Has `callback` called with a Trouble for all that is no event. Default: it is logged. It may be called by several threads at once.
    template <class F> Consumer& on_trouble(F callback) & {
        const auto call = [](void* context, const campanile_trouble* trouble) {
            (void)detail::guarded([&] { detail::at<F>(context)(Trouble(*trouble)); });
        };
        detail::check(campanile_consumer_on_trouble(handle_.get(), call, new F(std::move(callback)), &detail::release<F>));
        return *this;
    }

    /// Only events for which this holds: `$speed > 10`. The service sends nothing else.
    Consumer& filter(const std::string& constraint) & {
        detail::check(campanile_consumer_filter(handle_.get(), constraint.c_str()));
        return *this;
    }

    /// Begins in the channel's history, where that stores one, and has events come with their numbers. A subscription that has to be made
    /// anew goes on behind the last event that came. Not over DDS.
    Consumer& start_from(const StartFrom& start) & {
        detail::check(campanile_consumer_start_from(handle_.get(), start.text().c_str()));
        return *this;
    }

    // The same of a consumer that nobody else has, as in `Consumer("Weather").filter("$speed > 10").events<Wind>()`.
    template <class F> Consumer&& on_trouble(F callback) && { return std::move(on_trouble(std::move(callback))); }
    Consumer&& filter(const std::string& constraint) && { return std::move(filter(constraint)); }
    Consumer&& start_from(const StartFrom& start) && { return std::move(start_from(start)); }

    /// How long a callback may take before that is told as trouble. Default 1 s.
    Consumer& slow_after(std::chrono::milliseconds limit) {
        detail::check(campanile_consumer_slow_after(handle_.get(), static_cast<std::uint32_t>(limit.count())));
        return *this;
    }

    /// Subscribes: events that are published from now on come.
    Consumer& ready() {
        detail::check(campanile_consumer_ready(handle_.get()));
        return *this;
    }

    /// Subscribes, and gives the events of a type one after the other: `for (const Wind& wind : consumer.events<Wind>())`. They are the
    /// consumer's, which must outlive them.
    template <class T> Events<T> events() & {
        keep<T>();
        return Events<T>(handle_.get());
    }

    /// The same of a consumer that nobody else has: it is there for as long as they are.
    template <class T> Events<T> events() && {
        keep<T>();
        return Events<T>(std::move(handle_));
    }

#if defined(CAMPANILE_STOP_TOKEN)
    /// The same until a stop is requested, by whichever thread: the loop over them ends then, and with it the subscription.
    template <class T> Events<T> events(std::stop_token stop) & {
        auto events = this->events<T>();
        events.stop_with(std::move(stop));
        return events;
    }

    template <class T> Events<T> events(std::stop_token stop) && {
        auto events = std::move(*this).template events<T>();
        events.stop_with(std::move(stop));
        return events;
    }
#endif

    /// How often the subscription has found back to a service, since that was restarted or had disconnected it.
    std::uint64_t reconnections() const noexcept { return campanile_consumer_reconnections(handle_.get()); }

    /// Asks the service now whether the subscription is still there, and makes it anew if not.
    void check() { detail::check(campanile_consumer_check(handle_.get())); }

    /// Whether it is over: closed, or a callback had enough.
    bool has_ended() const noexcept { return campanile_consumer_has_ended(handle_.get()); }

    /// Ends it, when a callback that runs has returned.
    void close() { detail::check(campanile_consumer_close(handle_.get())); }

private:
    Consumer(const std::string& channel, const campanile_settings* settings) {
        campanile_consumer* made = nullptr;
        detail::check(campanile_consumer_new(channel.c_str(), settings, &made));
        handle_.reset(made);
    }

    /// Has events of a type kept for being asked for.
    template <class T> void keep() {
        detail::check(campanile_consumer_on(handle_.get(), detail::type_of<T>(), nullptr, nullptr, nullptr));
        ready();
    }

    detail::Handle<campanile_consumer> handle_;
};

/// The events of a type, one after the other.
template <class T> class Events {
public:
    /// The next event, if one comes within that time.
    std::optional<T> next(std::chrono::milliseconds limit) {
        T event{};
        return take(limit.count() < 0 ? 0 : limit.count(), event) ? std::optional<T>(std::move(event)) : std::nullopt;
    }

    /// A file descriptor that can be read from while there is an event, or there will be none any more: for `poll` and its like. Only waited
    /// for, never read nor closed.
    int descriptor() const {
        int descriptor = -1;
        detail::check(campanile_consumer_descriptor(consumer_, &descriptor));
        return descriptor;
    }

    /// The number of the event that came last, of a consumer with start_from().
    const std::optional<EventNumber>& number() const noexcept { return number_; }

    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = T;
        using difference_type = std::ptrdiff_t;
        using pointer = const T*;
        using reference = const T&;

        iterator() = default;
        explicit iterator(Events* events) : events_(events) { ++*this; }
        reference operator*() const { return event_; }
        pointer operator->() const { return &event_; }
        iterator& operator++() {
            if (!events_->take(-1, event_)) {
                events_ = nullptr;
            }
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(const iterator& other) const { return events_ == other.events_; }
        bool operator!=(const iterator& other) const { return events_ != other.events_; }

    private:
        Events* events_ = nullptr;
        T event_{};
    };

    /// Waits for the first event.
    iterator begin() { return iterator(this); }
    /// What is reached when the consumer is closed.
    iterator end() { return iterator(); }

private:
    friend class Consumer;
    explicit Events(campanile_consumer* consumer) : consumer_(consumer) {}
    explicit Events(detail::Handle<campanile_consumer> own) : own_(std::move(own)), consumer_(own_.get()) {}

    bool take(std::int64_t limit_ms, T& into) {
        campanile_event* came = nullptr;
        const campanile_status status = campanile_consumer_next(consumer_, limit_ms, &came);
        if (status == CAMPANILE_STATUS_TIMEOUT || status == CAMPANILE_STATUS_CLOSED) {
            return false;
        }
        detail::check(status);
        const detail::Handle<campanile_event> event(came);
        number_ = EventNumber::of(*event);
        detail::Reader reader(event->cdr, event->cdr_size);
        detail::Field<T>::read(reader, into);
        return true;
    }

    detail::Handle<campanile_consumer> own_;
    campanile_consumer* consumer_;
    std::optional<EventNumber> number_;

#if defined(CAMPANILE_STOP_TOKEN)
    struct Stop {
        campanile_consumer* consumer;
        void operator()() const noexcept { (void)campanile_consumer_stop(consumer); }
    };

    void stop_with(std::stop_token stop) { stop_ = std::make_unique<std::stop_callback<Stop>>(std::move(stop), Stop{consumer_}); }

    // Last: it is gone before the consumer is.
    std::unique_ptr<std::stop_callback<Stop>> stop_;
#endif
};

/// The IDL of a struct with CAMPANILE_EVENT, with all that it is made of.
template <class T> std::string idl() { return campanile_type_idl(detail::type_of<T>()); }

/// The library's version: `0.1.0`.
inline const char* version() noexcept { return campanile_version(); }

} // namespace campanile
