// Components of Campanile in C++17: classes with typed ports, which a plan connects.
//
//     struct Frame { std::uint64_t number; double brightness; };
//     CAMPANILE_EVENT(Frame, number, brightness)
//     struct Offset { double x; };
//     CAMPANILE_EVENT(Offset, x)
//
//     struct Guider : campanile::component::Component {
//         campanile::component::Source<Offset> offset;
//         double gain;
//         void on_frame(const Frame& frame) { offset.send(Offset{gain * frame.brightness}); }
//     };
//     CAMPANILE_COMPONENT(Guider, sink(frame, Frame), source(offset, Offset), property(gain))
//     CAMPANILE_EXPORT(Guider)
//
// Header only, over the table in campanile_component.h; nothing is linked. A plan names the component as `libguider.so#Guider`;
// docs/components.md has an example from its source to its events, and the README beside campanile.hpp says what members of events can be.
//
// CAMPANILE_COMPONENT stands behind the class and in its namespace, and names what is public in it, up to 64 parts:
//
//     sink(frame, Frame)     takes events: void on_frame(const Frame&), or with a second argument, const Ports&
//     source(offset, Offset) gives events: the member Source<Offset> offset
//     timer(tick, 100ms)     takes ticks, at an interval of std::chrono: void on_tick(const Tick&), or with const Ports&
//     neighbours(peers)      takes what happens to connected instances: void on_peers(const NeighbourChange&), or with const Ports&
//     property(gain)         a member that a plan gives: bool, an integer, float, double, std::string, which takes lists as in TOML
//     optional(gain)         one that it may give; else the member is what its own initializer says
//
// Exceptions end at the edge. A handler or a step of the life cycle that throws has failed: that is logged once for each port, and counted.
// One that throws Broken, or what is no std::exception, has the component destroyed, and made again after a pause.
#pragma once

#include <campanile_component.h>
#include <campanile_fields.hpp>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace campanile {
namespace component {

/// What a component throws whose state cannot be trusted any more: it is destroyed, and made again after a pause.
class Broken : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Why an event was not sent, or not by all connections.
class SendError : public std::runtime_error {
public:
    explicit SendError(std::int32_t status) : std::runtime_error(text(status)), status_(status) {}

    /// CAMPANILE_COMPONENT_INACTIVE, _REENTRANT, _FULL, _VALUE or _ARGUMENT.
    std::int32_t status() const noexcept { return status_; }

private:
    static const char* text(std::int32_t status) noexcept {
        switch (status) {
        case CAMPANILE_COMPONENT_INACTIVE: return "nothing was sent, since the instance is not active";
        case CAMPANILE_COMPONENT_REENTRANT: return "a sink did not get the event, since its instance is in a handler already";
        case CAMPANILE_COMPONENT_FULL: return "a sink did not get the event, since its queue is full";
        case CAMPANILE_COMPONENT_VALUE: return "nothing was sent, since the event is no value of the source's type";
        default: return "nothing was sent: CAMPANILE_COMPONENT does not name the source, or its component is being made, or this is another thread";
        }
    }

    std::int32_t status_;
};

/// What an event may have beside its value. It matters where a sink has a queue.
struct SendOptions {
    /// From -32767 to 32767.
    std::int32_t priority = 0;
    /// How long the event may wait before it is discarded: nothing for no end; 0 or less where no time is left, so that it does not wait.
    std::optional<std::chrono::nanoseconds> timeout = std::nullopt;
};

/// Levels of lines for the log.
enum class Level : std::uint32_t {
    error = CAMPANILE_LOG_ERROR,
    warn = CAMPANILE_LOG_WARN,
    info = CAMPANILE_LOG_INFO,
    debug = CAMPANILE_LOG_DEBUG
};

/// The set that an event belongs to, at a port that has sets by `when` of the plan.
struct EventSet {
    /// From 1 in steps of 1.
    std::uint64_t number;
    /// The event's place in the set, from 0, in the order in which its events came.
    std::uint32_t index;
    /// Number of events in the set.
    std::uint32_t size;
};

/// Where an event came from, for as long as its handler runs.
struct Ports {
    /// The source, as `camera.frame`.
    std::string_view source;
    /// The priority with which the event was sent.
    std::int32_t priority;
    /// The time since it was sent.
    std::chrono::nanoseconds age;
    /// The set that it belongs to, if the port has sets.
    std::optional<EventSet> set;
};

/// A tick of a timer.
struct Tick {
    /// The time since it was due.
    std::chrono::nanoseconds late;
    /// Ticks before it that were left out, since the lane was busy for more than an interval.
    std::uint64_t missed;
};

/// What happened to an instance that is connected with this one.
struct NeighbourChange {
    std::string instance;
    /// `failed`, `restarted`, `given up` or `removed`.
    std::string change;
    /// Why, or nothing.
    std::string reason;
};
CAMPANILE_EVENT(NeighbourChange, instance, change, reason)

// Hidden: two shared objects of one server may have different classes of one name, and a static local would be that of both.
#pragma GCC visibility push(hidden)
namespace detail {
template <class C> class Declaration;
} // namespace detail
#pragma GCC visibility pop

/// The base of components. The constructor makes the members; properties and sources are there from `on_configured` on. All calls of an
/// instance are made on one thread, one at a time.
class Component {
public:
    Component(const Component&) = delete;
    Component& operator=(const Component&) = delete;
    /// A destructor may throw, as `send` does there: that is logged.
    virtual ~Component() noexcept(false) = default;

    /// The properties are there. What a step throws refuses it; this one refuses the instance.
    virtual void on_configured() {}
    /// The connections are made.
    virtual void on_connected() {}
    /// Events come from now on, and can be sent.
    virtual void on_activated() {}
    /// No more events come. The last ones can be sent from here.
    virtual void on_passivated() {}
    /// The component is destroyed next, whatever this throws.
    virtual void on_removed() {}

protected:
    Component() = default;

    /// The name of the instance.
    std::string_view instance() const { return host_ == nullptr ? std::string_view() : host_->instance; }

    /// Logs a line with the name of the instance; without it on another thread, which has ended before the component is destroyed.
    void log(Level level, const std::string& text) const {
        if (host_ != nullptr && static_cast<std::uint32_t>(level) <= host_->log_level) {
            host_->log(host_, static_cast<std::uint32_t>(level), text.c_str());
        }
    }

private:
    template <class C> friend class detail::Declaration;
    const campanile_component_host* host_ = nullptr;
};

/// A port that gives events: a member that CAMPANILE_COMPONENT names.
template <class E> class Source {
public:
    Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    /// Sends an event. When this returns, sinks of the same lane without a queue have handled it.
    ///
    /// Throws SendError, and campanile::error for what is no value of its type.
    void send(const E& event, const SendOptions& options = {}) const {
        if (const std::int32_t status = try_send(event, options); status != CAMPANILE_COMPONENT_OK) {
            throw SendError(status);
        }
    }

    /// The same, where it is usual that an event is not sent: gives CAMPANILE_COMPONENT_OK, or the status that SendError has.
    [[nodiscard]] std::int32_t try_send(const E& event, const SendOptions& options = {}) const {
        if (host_ == nullptr) {
            return CAMPANILE_COMPONENT_ARGUMENT;
        }
        std::uint64_t timeout_ns = 0;
        if (options.timeout) {
            timeout_ns = options.timeout->count() > 0 ? static_cast<std::uint64_t>(options.timeout->count()) : 1;
        }
        const campanile_component_options given{options.priority, timeout_ns};
        std::int32_t status = CAMPANILE_COMPONENT_OK;
        campanile::detail::with_octets(event, [&](const std::uint8_t* octets, std::size_t size) {
            status = host_->send(host_, place_, octets, size, &given);
        });
        return status;
    }

private:
    template <class C> friend class detail::Declaration;
    const campanile_component_host* host_ = nullptr;
    std::uint32_t place_ = 0;
};

#pragma GCC visibility push(hidden)
namespace detail {

// For types of events that have none of their own.
using campanile::detail::campanile_domain;

/// The type of events as IDL. Never freed, as nothing of a table is.
template <class E> const char* idl_of() {
    static_assert(campanile::detail::is_event<E>::value, "CAMPANILE_EVENT is missing for this struct, in the namespace that the struct is in");
    static const std::string& text = *new std::string([] {
        campanile::detail::Idl idl;
        campanile::detail::Field<E>::idl(idl);
        return idl.text();
    }());
    return text.c_str();
}

/// The type of a property, for people.
template <class T> constexpr const char* property_type() {
    static_assert(std::is_arithmetic_v<T> || std::is_same_v<T, std::string>, "a property is a bool, an integer, a float, a double or a std::string");
    if constexpr (std::is_same_v<T, bool>) {
        return "bool";
    } else if constexpr (std::is_integral_v<T>) {
        constexpr const char* names[] = {"int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t"};
        return names[(sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6) + (std::is_unsigned_v<T> ? 1 : 0)];
    } else if constexpr (std::is_floating_point_v<T>) {
        return std::is_same_v<T, float> ? "float" : "double";
    } else {
        return "string";
    }
}

/// Sets a member to a property's value: its text, and its number, if it is one, or true or false. False if it is of another type.
template <class T> bool assign(T& member, std::string_view text, const double* number) {
    if constexpr (std::is_same_v<T, std::string>) {
        member = text;
        return number == nullptr;
    } else if constexpr (std::is_same_v<T, bool>) {
        member = text == "true";
        return number != nullptr && (member || text == "false");
    } else if constexpr (std::is_integral_v<T>) {
        const char* const end = text.data() + text.size();
        const auto [read, fault] = std::from_chars(text.data(), end, member);
        return number != nullptr && fault == std::errc() && read == end;
    } else {
        const bool is_number = number != nullptr && text != "true" && text != "false";
        member = is_number ? static_cast<T>(*number) : T();
        return is_number;
    }
}

/// Calls a handler with an event, and with its ports if it takes them.
template <auto Handler, class C, class E> void call(C& component, const E& event, const campanile_component_event& of) {
    if constexpr (std::is_invocable_v<decltype(Handler), C&, const E&, const Ports&>) {
        Ports ports{{of.source, of.source_size}, of.priority, std::chrono::nanoseconds(of.age_ns), std::nullopt};
        if (of.set != 0) {
            ports.set = EventSet{of.set, of.set_index, of.set_size};
        }
        std::invoke(Handler, component, event, std::as_const(ports));
    } else {
        static_assert(std::is_invocable_v<decltype(Handler), C&, const E&>, "the handler takes other arguments: const E&, and const Ports& if it needs them");
        std::invoke(Handler, component, event);
    }
}

/// Calls, and has nothing thrown leave it.
template <class Call> std::int32_t guarded(const campanile_component_host* host, Call call) noexcept {
    try {
        call();
        return CAMPANILE_COMPONENT_OK;
    } catch (const Broken& thrown) {
        return host->fail(host, CAMPANILE_COMPONENT_BROKEN, thrown.what());
    } catch (const std::exception& thrown) {
        return host->fail(host, CAMPANILE_COMPONENT_FAILED, thrown.what());
    } catch (...) {
        return host->fail(host, CAMPANILE_COMPONENT_BROKEN, "it has thrown what is no std::exception");
    }
}

/// What a class declares by CAMPANILE_COMPONENT, and the functions of its entry in the table.
template <class C> class Declaration {
public:
    explicit Declaration(const char* name) : name_(name) {}

    template <class E, auto Handler> void sink(const char* name) { typed<E>(CAMPANILE_PORT_SINK, name, &take<E, Handler>); }

    template <class E, auto Member> void source(const char* name) {
        static_assert(std::is_same_v<std::decay_t<decltype(std::declval<C&>().*Member)>, Source<E>>, "the member is no Source of this type");
        const auto set = [](C& component, const campanile_component_host* host, const Setter& of) {
            (component.*Member).host_ = host;
            (component.*Member).place_ = of.place;
        };
        setters_.push_back({set, name, static_cast<std::uint32_t>(ports_.size())});
        typed<E>(CAMPANILE_PORT_SOURCE, name, nullptr);
    }

    template <auto Handler> void timer(const char* name, std::chrono::nanoseconds interval) {
        const auto ns = interval.count();
        ports_.push_back({CAMPANILE_PORT_TIMER, name, nullptr, nullptr, ns > 0 ? static_cast<std::uint64_t>(ns) : 0, &tick<Handler>});
    }

    template <auto Handler> void neighbours(const char* name) {
        ports_.push_back({CAMPANILE_PORT_NEIGHBOURS, name, nullptr, nullptr, 0, &take<NeighbourChange, Handler>});
    }

    template <auto Member> void property(const char* name, bool has_default) {
        using T = std::decay_t<decltype(std::declval<C&>().*Member)>;
        properties_.push_back({name, property_type<T>(), has_default ? 1u : 0u});
        const auto set = [](C& component, const campanile_component_host* host, const Setter& of) {
            const char* const text = host->property_text(host, of.name);
            if (text == nullptr) {
                if (of.place == 0) {
                    throw std::invalid_argument(std::string("the property ") + of.name + " is missing: give it, a " + property_type<T>());
                }
                return;
            }
            double number = 0;
            const bool is_number = host->property_number(host, of.name, &number) == CAMPANILE_COMPONENT_OK;
            if (!assign(component.*Member, text, is_number ? &number : nullptr)) {
                throw std::invalid_argument(std::string("the property ") + of.name + " is " + text + ": give it, a " + property_type<T>());
            }
        };
        setters_.push_back({set, name, has_default ? 1u : 0u});
    }

    /// The entry in the table, which points into this.
    campanile_component entry() const {
        static_assert(std::is_base_of_v<Component, C>, "a component is a class that has campanile::component::Component as public base");
        return {name_, ports_.data(), ports_.size(), properties_.data(), properties_.size(), &create, &destroy, &step};
    }

    /// The one of the class. Never freed, as nothing of a table is.
    static const Declaration& of_class() {
        static const Declaration& declared = *[] {
            auto* const made = new Declaration(campanile_component_name(campanile::detail::of<C>));
            campanile_declare(*made);
            return made;
        }();
        return declared;
    }

private:
    /// What sets a member of a new component: of a source, `place` is its port's; of a property, 0 means that it has to be given.
    struct Setter {
        void (*set)(C& component, const campanile_component_host* host, const Setter& of);
        const char* name;
        std::uint32_t place;
    };

    using Handle = std::int32_t (*)(void* component, const campanile_component_event* event);

    template <class E> void typed(std::uint32_t kind, const char* name, Handle handler) {
        ports_.push_back({kind, name, idl_of<E>(), campanile_domain(campanile::detail::of<E>), 0, handler});
    }

    static const campanile_component_host* host_of(const Component& component) { return component.host_; }

    template <class E, auto Handler> static std::int32_t take(void* component, const campanile_component_event* event) {
        C& it = *static_cast<C*>(component);
        return guarded(host_of(it), [&] {
            E value{};
            campanile::detail::Reader reader(event->cdr, event->cdr_size);
            campanile::detail::Field<E>::read(reader, value);
            call<Handler>(it, value, *event);
        });
    }

    template <auto Handler> static std::int32_t tick(void* component, const campanile_component_event* event) {
        C& it = *static_cast<C*>(component);
        return guarded(host_of(it), [&] { call<Handler>(it, Tick{std::chrono::nanoseconds(event->late_ns), event->missed}, *event); });
    }

    static std::int32_t create(const campanile_component_host* host, const char*, void** component) {
        C* made = nullptr;
        const std::int32_t status = guarded(host, [&] {
            made = new C();
            static_cast<Component&>(*made).host_ = host;
            for (const Setter& setter : of_class().setters_) {
                setter.set(*made, host, setter);
            }
        });
        if (status == CAMPANILE_COMPONENT_OK) {
            *component = made;
        } else if (made != nullptr) {
            destroy(made);
        }
        return status;
    }

    static void destroy(void* component) {
        C* const it = static_cast<C*>(component);
        const campanile_component_host* const host = host_of(*it);
        const auto log = [host](const std::string& thrown) {
            host->log(host, CAMPANILE_LOG_WARN, ("its destructor has thrown: " + thrown).c_str());
        };
        try {
            delete it;
        } catch (const std::exception& thrown) {
            log(thrown.what());
        } catch (...) {
            log("what is no std::exception");
        }
    }

    static std::int32_t step(void* component, std::uint32_t step) {
        Component& it = *static_cast<C*>(component);
        return guarded(host_of(it), [&] {
            switch (step) {
            case CAMPANILE_STEP_CONFIGURE: return it.on_configured();
            case CAMPANILE_STEP_CONNECT: return it.on_connected();
            case CAMPANILE_STEP_ACTIVATE: return it.on_activated();
            case CAMPANILE_STEP_PASSIVATE: return it.on_passivated();
            case CAMPANILE_STEP_REMOVE: return it.on_removed();
            }
        });
    }

    const char* name_;
    std::vector<campanile_component_port> ports_;
    std::vector<campanile_component_property> properties_;
    std::vector<Setter> setters_;
};

/// The entry of a class in the table of its shared object.
template <class C> campanile_component entry() {
    return Declaration<C>::of_class().entry();
}

} // namespace detail
#pragma GCC visibility pop
} // namespace component
} // namespace campanile

/// Makes a class a component: see above.
#define CAMPANILE_COMPONENT(TYPE, ...)                                                                        \
    [[maybe_unused]] constexpr const char* campanile_component_name(const TYPE*) { return #TYPE; }            \
    [[maybe_unused]] inline void campanile_declare(::campanile::component::detail::Declaration<TYPE>& part) { \
        using Self = TYPE;                                                                                    \
        using namespace ::std::chrono_literals;                                                               \
        CAMPANILE_EACH(CAMPANILE_COMPONENT_PART, __VA_ARGS__);                                                \
    }
#define CAMPANILE_COMPONENT_PART(PART) part.CAMPANILE_COMPONENT_##PART
#define CAMPANILE_COMPONENT_sink(NAME, EVENT) sink<EVENT, &Self::on_##NAME>(#NAME)
#define CAMPANILE_COMPONENT_source(NAME, EVENT) source<EVENT, &Self::NAME>(#NAME)
#define CAMPANILE_COMPONENT_timer(NAME, INTERVAL) timer<&Self::on_##NAME>(#NAME, INTERVAL)
#define CAMPANILE_COMPONENT_neighbours(NAME) neighbours<&Self::on_##NAME>(#NAME)
#define CAMPANILE_COMPONENT_property(NAME) property<&Self::NAME>(#NAME, false)
#define CAMPANILE_COMPONENT_optional(NAME) property<&Self::NAME>(#NAME, true)

/// Makes classes the components of a shared object, up to 64: `CAMPANILE_EXPORT(Camera, Guider)`, once, in no namespace.
#define CAMPANILE_EXPORT(...)                                                                                                     \
    static const campanile_component campanile_components_in_cpp[] = {CAMPANILE_EACH(CAMPANILE_COMPONENT_ENTRY, __VA_ARGS__)}; \
    CAMPANILE_COMPONENTS(campanile_components_in_cpp)
#define CAMPANILE_COMPONENT_ENTRY(TYPE) ::campanile::component::detail::entry<TYPE>()
