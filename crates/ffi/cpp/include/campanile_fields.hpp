// What members of events can be: their IDL, how they are written and read; and the macros that make structs and enums such. Included by
// campanile.hpp.
#pragma once

#include <campanile.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "campanile_each.hpp"

namespace campanile {

/// Why something was not done.
class error : public std::runtime_error {
public:
    error(campanile_status code, const std::string& message, bool not_carried_out, std::uint32_t column = 0)
        : std::runtime_error(message), code_(code), not_carried_out_(not_carried_out), column_(column) {}

    /// Which sort of error it is.
    campanile_status code() const noexcept { return code_; }

    /// Whether an event that was not published can be published again without being there twice.
    bool was_not_carried_out() const noexcept { return not_carried_out_; }

    /// Of a filter that is none: where, in characters from 1 on; else 0.
    std::uint32_t column() const noexcept { return column_; }

private:
    campanile_status code_;
    bool not_carried_out_;
    std::uint32_t column_;
};

/// What a callback may answer instead of nothing: no more events are wanted, or go on.
enum class Answer { go_on, enough };

// Hidden: two shared objects of one process may have different types of one name, and a static local would be that of both.
#pragma GCC visibility push(hidden)
namespace detail {

inline void check(campanile_status status) {
    if (status != CAMPANILE_STATUS_OK) {
        throw error(status, campanile_last_error(), campanile_last_was_not_carried_out(), campanile_last_column());
    }
}

[[noreturn]] inline void not_a_value(const std::string& reason) { throw error(CAMPANILE_STATUS_VALUE, reason, true); }

// ---------------------------------------------------------------------------------------------------------------------------------------
// Octets in CDR: this processor's byte order, each number at a multiple of its size.

class Writer {
public:
    explicit Writer(std::vector<std::uint8_t>& octets) : octets_(octets) { octets_.clear(); }

    template <class Number> void number(Number value) {
        std::uint8_t* to = room(sizeof(Number), sizeof(Number));
        std::memcpy(to, &value, sizeof(Number));
    }

    template <class Number> void numbers(const Number* values, std::size_t count) {
        if (count > 0) {
            std::memcpy(room(sizeof(Number), count * sizeof(Number)), values, count * sizeof(Number));
        }
    }

    void length(std::size_t count) {
        if (count > std::numeric_limits<std::uint32_t>::max()) {
            not_a_value("it has more elements than can travel");
        }
        number(static_cast<std::uint32_t>(count));
    }

    void text(std::string_view text) {
        length(text.size() + 1);
        std::uint8_t* to = room(1, text.size() + 1);
        std::memcpy(to, text.data(), text.size());
        to[text.size()] = 0;
    }

private:
    std::uint8_t* room(std::size_t alignment, std::size_t size) {
        const std::size_t begin = (octets_.size() + alignment - 1) / alignment * alignment;
        octets_.resize(begin + size);
        return octets_.data() + begin;
    }

    std::vector<std::uint8_t>& octets_;
};

/// Reads octets that the library has checked; what is beyond their end is an error all the same.
class Reader {
public:
    Reader(const std::uint8_t* octets, std::size_t size) : octets_(octets), size_(size) {}

    template <class Number> Number number() {
        Number value;
        std::memcpy(&value, take(sizeof(Number), sizeof(Number)), sizeof(Number));
        return value;
    }

    template <class Number> void numbers(Number* values, std::size_t count) {
        if (count > 0) {
            std::memcpy(values, take(sizeof(Number), count * sizeof(Number)), count * sizeof(Number));
        }
    }

    /// The number of elements, of which each has at least so many octets.
    std::size_t length(std::size_t octets_min) {
        const std::size_t count = number<std::uint32_t>();
        if (count > (size_ - at_) / octets_min) {
            not_a_value("a sequence is longer than its octets");
        }
        return count;
    }

    std::string_view text() {
        const std::size_t size = number<std::uint32_t>();
        const auto* begin = reinterpret_cast<const char*>(take(1, size));
        return {begin, size == 0 ? 0 : size - 1};
    }

private:
    const std::uint8_t* take(std::size_t alignment, std::size_t size) {
        const std::size_t begin = (at_ + alignment - 1) / alignment * alignment;
        if (begin > size_ || size > size_ - begin) {
            not_a_value("the octets end too early");
        }
        at_ = begin + size;
        return octets_ + begin;
    }

    const std::uint8_t* octets_;
    std::size_t size_;
    std::size_t at_ = 0;
};

// ---------------------------------------------------------------------------------------------------------------------------------------
// IDL text.

/// The definitions that a type needs, in order, each once.
class Idl {
public:
    /// Adds a definition, unless one of that name is there or is being made: `make` gives its text.
    template <class Make> void define(const std::string& name, Make make) {
        for (const std::string& known : names_) {
            if (known == name) {
                return;
            }
        }
        names_.push_back(name);
        text_ += make();
    }

    const std::string& text() const { return text_; }

    /// What members are where a supplier's type lacks them.
    struct Default {
        std::string structure, member;
        std::vector<std::uint8_t> octets;
    };
    std::vector<Default> defaults;

    /// A name that nothing else has.
    std::string fresh() { return "campanile_array_" + std::to_string(++fresh_); }

private:
    std::vector<std::string> names_;
    std::string text_;
    int fresh_ = 0;
};

/// The last part of a name: `Wind` of `weather::Wind`.
constexpr std::string_view last_of(std::string_view name) {
    const std::size_t at = name.rfind(':');
    return at == std::string_view::npos ? name : name.substr(at + 1);
}

/// The text within its modules, and behind their prefix.
inline std::string within(std::string_view prefix, std::string_view module, const std::string& text) {
    std::string before, behind;
    if (!prefix.empty()) {
        before = "#pragma prefix \"" + std::string(prefix) + "\"\n";
        behind = "\n#pragma prefix \"\"";
    }
    while (!module.empty()) {
        const std::size_t at = module.find("::");
        before += "module _" + std::string(module.substr(0, at)) + " { ";
        behind.insert(0, " };");
        module = at == std::string_view::npos ? std::string_view() : module.substr(at + 2);
    }
    return before + text + behind + "\n";
}

/// A name as IDL has it, whatever words it keeps for itself. `obs::Wind` is such of two.
inline std::string idl_name(std::string_view module, std::string_view name) {
    std::string all;
    while (!module.empty()) {
        const std::size_t at = module.find("::");
        all += "::_" + std::string(module.substr(0, at));
        module = at == std::string_view::npos ? std::string_view() : module.substr(at + 2);
    }
    return (all.empty() ? "_" : all + "::_") + std::string(name);
}

/// The next name of a list as a macro has it: `speed, direction`.
constexpr std::string_view next_of(std::string_view& names) {
    while (!names.empty() && (names.front() == ' ' || names.front() == ',')) {
        names.remove_prefix(1);
    }
    std::size_t size = 0;
    while (size < names.size() && names[size] != ',' && names[size] != ' ') {
        ++size;
    }
    const std::string_view name = names.substr(0, size);
    names.remove_prefix(size);
    return name;
}

// ---------------------------------------------------------------------------------------------------------------------------------------
// What the macros define for a type, found by its namespace; these are there for those that have none.

template <class T> constexpr const T* of = nullptr;

constexpr const char* campanile_module(const void*) { return ""; }
constexpr const char* campanile_prefix(const void*) { return ""; }
constexpr const char* campanile_domain(const void*) { return nullptr; }
constexpr const char* campanile_default_names(const void*) { return ""; }

template <class T, class = void> struct is_event : std::false_type {};
template <class T> struct is_event<T, std::void_t<decltype(campanile_members(std::declval<T&>()))>> : std::true_type {};

template <class T, class = void> struct is_enum : std::false_type {};
template <class T> struct is_enum<T, std::void_t<decltype(campanile_labels(of<T>))>> : std::true_type {};

// ---------------------------------------------------------------------------------------------------------------------------------------
// Members: for each sort of type its IDL, how it is written and read, and the octets of its shortest value.

template <class T, class = void> struct Field {
    static_assert(sizeof(T) == 0, "a member has a type that events cannot have: see Campanile's README, or CAMPANILE_EVENT is missing");
};

template <class T> constexpr bool is_plain =
    std::is_same_v<T, std::int16_t> || std::is_same_v<T, std::uint16_t> || std::is_same_v<T, std::int32_t> ||
    std::is_same_v<T, std::uint32_t> || std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::uint8_t> ||
    std::is_same_v<T, std::byte> ||
    (std::is_integral_v<T> && sizeof(T) == 8); // long and long long are two types

template <class T> struct Field<T, std::enable_if_t<is_plain<T>>> {
    static constexpr std::size_t octets_min = sizeof(T);

    static std::string idl(Idl&) {
        if constexpr (std::is_same_v<T, float>) {
            return "float";
        } else if constexpr (std::is_same_v<T, double>) {
            return "double";
        } else if constexpr (sizeof(T) == 1) {
            return "octet";
        } else {
            const std::string size = sizeof(T) == 2 ? "short" : sizeof(T) == 4 ? "long" : "long long";
            return std::is_unsigned_v<T> ? "unsigned " + size : size;
        }
    }

    static void write(Writer& writer, const T& value) { writer.number(value); }
    static void read(Reader& reader, T& value) { value = reader.number<T>(); }
};

template <> struct Field<std::int8_t> {
    static constexpr std::size_t octets_min = 2;
    static std::string idl(Idl&) { return "short"; } // IDL has no octet with a sign
    static void write(Writer& writer, std::int8_t value) { writer.number<std::int16_t>(value); }
    static void read(Reader& reader, std::int8_t& value) {
        const auto wide = reader.number<std::int16_t>();
        if (wide < -128 || wide > 127) {
            not_a_value(std::to_string(wide) + " is beyond an int8_t");
        }
        value = static_cast<std::int8_t>(wide);
    }
};

template <> struct Field<bool> {
    static constexpr std::size_t octets_min = 1;
    static std::string idl(Idl&) { return "boolean"; }
    static void write(Writer& writer, bool value) { writer.number<std::uint8_t>(value ? 1 : 0); }
    static void read(Reader& reader, bool& value) { value = reader.number<std::uint8_t>() != 0; }
};

template <> struct Field<char> {
    static constexpr std::size_t octets_min = 1;
    static std::string idl(Idl&) { return "char"; }
    static void write(Writer& writer, char value) { writer.number(value); }
    static void read(Reader& reader, char& value) { value = reader.number<char>(); }
};

/// A character of Unicode travels as a text of one, as in Rust: DDS has no `wchar`.
template <> struct Field<char32_t> {
    static constexpr std::size_t octets_min = 4;
    static std::string idl(Idl&) { return "string<4>"; }

    static void write(Writer& writer, char32_t value) {
        const auto code = static_cast<std::uint32_t>(value);
        if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
            not_a_value(std::to_string(code) + " is no character that can travel");
        }
        const std::size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        char utf8[4];
        for (std::size_t at = size - 1; at > 0; --at) {
            utf8[at] = static_cast<char>(0x80 | (code >> 6 * (size - 1 - at) & 0x3F));
        }
        const std::uint32_t first = code >> 6 * (size - 1);
        utf8[0] = static_cast<char>(size == 1 ? first : (0xF00u >> size & 0xFF) | first);
        writer.text({utf8, size});
    }

    static void read(Reader& reader, char32_t& value) {
        const std::string_view text = reader.text();
        const auto octet = [text](std::size_t at) -> std::uint32_t { return static_cast<unsigned char>(text[at]); };
        const std::size_t size = text.empty() ? 0 : octet(0) < 0x80 ? 1 : octet(0) < 0xE0 ? 2 : octet(0) < 0xF0 ? 3 : 4;
        if (size == 0 || text.size() != size) {
            not_a_value("a text is not one character");
        }
        std::uint32_t code = size == 1 ? octet(0) : octet(0) & (0x7Fu >> size);
        for (std::size_t at = 1; at < size; ++at) {
            code = code << 6 | (octet(at) & 0x3F);
        }
        value = static_cast<char32_t>(code);
    }
};

template <> struct Field<std::string> {
    static constexpr std::size_t octets_min = 4;
    static std::string idl(Idl&) { return "string"; }
    static void write(Writer& writer, const std::string& value) { writer.text(value); }
    static void read(Reader& reader, std::string& value) { value = reader.text(); }
};

/// A type within another: an array has no name of its own in IDL, and gets one.
template <class T> struct Array : std::false_type {};
template <class T, std::size_t N> struct Array<std::array<T, N>> : std::true_type {
    using element = T;
    static constexpr std::size_t size = N;
};
template <class T, std::size_t N> struct Array<T[N]> : std::true_type {
    using element = T;
    static constexpr std::size_t size = N;
};

template <class T> std::string name_of(Idl& idl) {
    if constexpr (Array<T>::value) {
        const std::string element = name_of<typename Array<T>::element>(idl);
        const std::string name = idl.fresh();
        idl.define(name, [&] { return "typedef " + element + " " + name + "[" + std::to_string(Array<T>::size) + "];\n"; });
        return name;
    } else {
        return Field<T>::idl(idl);
    }
}

/// A member: `double axes[3]`.
template <class T> std::string member_of(Idl& idl, const std::string& name) {
    if constexpr (Array<T>::value) {
        return member_of<typename Array<T>::element>(idl, name + "[" + std::to_string(Array<T>::size) + "]");
    } else {
        return Field<T>::idl(idl) + " " + name;
    }
}

template <class T> void write_all(Writer& writer, const T* values, std::size_t count) {
    if constexpr (is_plain<T>) {
        writer.numbers(values, count);
    } else {
        for (std::size_t at = 0; at < count; ++at) {
            Field<T>::write(writer, values[at]);
        }
    }
}

template <class T> void read_all(Reader& reader, T* values, std::size_t count) {
    if constexpr (is_plain<T>) {
        reader.numbers(values, count);
    } else {
        for (std::size_t at = 0; at < count; ++at) {
            Field<T>::read(reader, values[at]);
        }
    }
}

template <class T, std::size_t N> struct Field<std::array<T, N>> {
    static constexpr std::size_t octets_min = N * Field<T>::octets_min;
    static void write(Writer& writer, const std::array<T, N>& values) { write_all(writer, values.data(), N); }
    static void read(Reader& reader, std::array<T, N>& values) { read_all(reader, values.data(), N); }
};

template <class T, std::size_t N> struct Field<T[N]> {
    static constexpr std::size_t octets_min = N * Field<T>::octets_min;
    static void write(Writer& writer, const T (&values)[N]) { write_all(writer, values, N); }
    static void read(Reader& reader, T (&values)[N]) { read_all(reader, values, N); }
};

template <class T> struct Field<std::vector<T>> {
    static constexpr std::size_t octets_min = 4;
    static std::string idl(Idl& idl) { return "sequence<" + name_of<T>(idl) + ">"; }

    static void write(Writer& writer, const std::vector<T>& values) {
        writer.length(values.size());
        if constexpr (std::is_same_v<T, bool>) {
            for (const bool value : values) {
                Field<bool>::write(writer, value);
            }
        } else {
            write_all(writer, values.data(), values.size());
        }
    }

    static void read(Reader& reader, std::vector<T>& values) {
        const std::size_t count = reader.length(Field<T>::octets_min);
        values.resize(count);
        if constexpr (std::is_same_v<T, bool>) {
            for (std::size_t at = 0; at < count; ++at) {
                bool value;
                Field<bool>::read(reader, value);
                values[at] = value;
            }
        } else {
            read_all(reader, values.data(), count);
        }
    }
};

template <class T> struct Field<std::optional<T>> {
    static constexpr std::size_t octets_min = 4;
    static std::string idl(Idl& idl) { return "sequence<" + name_of<T>(idl) + ", 1>"; }

    static void write(Writer& writer, const std::optional<T>& value) {
        writer.length(value ? 1 : 0);
        if (value) {
            Field<T>::write(writer, *value);
        }
    }

    static void read(Reader& reader, std::optional<T>& value) {
        if (reader.length(1) == 0) {
            value.reset();
        } else {
            Field<T>::read(reader, value ? *value : value.emplace());
        }
    }
};

/// Units of 100 ns.
using Ticks = std::chrono::duration<std::int64_t, std::ratio<1, 10000000>>;

/// A time, in units of 100 ns since 15 October 1582, as `TimeBase::TimeT`. What is finer is cut off; times before are 0.
template <class D> struct Field<std::chrono::time_point<std::chrono::system_clock, D>> {
    using Time = std::chrono::time_point<std::chrono::system_clock, D>;
    static constexpr std::int64_t to_1970 = 122192928000000000;
    static constexpr std::size_t octets_min = 8;
    static std::string idl(Idl&) { return "TimeBase::TimeT"; }

    static void write(Writer& writer, const Time& time) {
        const std::int64_t since_1970 = std::chrono::floor<Ticks>(time.time_since_epoch()).count();
        writer.number<std::uint64_t>(since_1970 < -to_1970 ? 0 : static_cast<std::uint64_t>(since_1970 + to_1970));
    }

    static void read(Reader& reader, Time& time) {
        const std::uint64_t ticks = reader.number<std::uint64_t>();
        const auto since_1970 = static_cast<std::int64_t>(ticks - static_cast<std::uint64_t>(to_1970));
        // What the type has no room for is 1970, as in Rust.
        using Seconds = std::chrono::duration<long double>;
        const Seconds length = Ticks(since_1970);
        const bool fits = ticks <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) &&
            length < Seconds(D::max()) && length > Seconds(D::min());
        time = Time(fits ? std::chrono::floor<D>(Ticks(since_1970)) : D::zero());
    }
};

/// A duration that is not negative, in units of 100 ns.
template <class R, class P> struct Field<std::chrono::duration<R, P>> {
    using Duration = std::chrono::duration<R, P>;
    static constexpr std::size_t octets_min = 8;

    static std::string idl(Idl& idl) {
        idl.define("campanile::Duration", [] { return "module campanile { typedef unsigned long long Duration; };\n"; });
        return "::campanile::Duration";
    }

    static void write(Writer& writer, const Duration& duration) {
        if (duration < Duration::zero()) {
            not_a_value("a duration is negative");
        }
        writer.number<std::uint64_t>(static_cast<std::uint64_t>(std::chrono::floor<Ticks>(duration).count()));
    }

    static void read(Reader& reader, Duration& duration) {
        const std::uint64_t ticks = reader.number<std::uint64_t>();
        using Seconds = std::chrono::duration<long double>;
        if (ticks > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
            Seconds(Ticks(static_cast<std::int64_t>(ticks))) > Seconds(Duration::max())) {
            duration = Duration::max();
        } else {
            duration = std::chrono::duration_cast<Duration>(Ticks(static_cast<std::int64_t>(ticks)));
        }
    }
};

/// An enum travels as its label's place.
template <class T> struct Field<T, std::enable_if_t<is_enum<T>::value>> {
    static constexpr std::size_t octets_min = 4;

    static std::string idl(Idl& idl) {
        const std::string_view module = campanile_module(of<T>), name = last_of(campanile_type_name(of<T>));
        const std::string full = idl_name(module, name);
        idl.define(full, [&] {
            std::string text = "enum _" + std::string(name) + " {";
            std::string_view labels = campanile_label_names(of<T>);
            for (std::string_view label = next_of(labels), joint = " "; !label.empty(); label = next_of(labels), joint = ", ") {
                text += std::string(joint) + "_" + std::string(last_of(label));
            }
            return within(campanile_prefix(of<T>), module, text + " };");
        });
        return full;
    }

    static void write(Writer& writer, T value) {
        constexpr auto labels = campanile_labels(of<T>);
        for (std::size_t at = 0; at < labels.size(); ++at) {
            if (labels[at] == value) {
                return writer.number(static_cast<std::uint32_t>(at));
            }
        }
        not_a_value(std::to_string(static_cast<long long>(value)) + " is no label of " + campanile_type_name(of<T>));
    }

    static void read(Reader& reader, T& value) {
        constexpr auto labels = campanile_labels(of<T>);
        const std::size_t at = reader.number<std::uint32_t>();
        if (at >= labels.size()) {
            not_a_value(std::string("there are not so many labels of ") + campanile_type_name(of<T>));
        }
        value = labels[at];
    }
};

template <class Tuple> struct Types;
template <class... Members> struct Types<std::tuple<Members&...>> {
    static constexpr std::size_t octets_min = (std::size_t(0) + ... + Field<Members>::octets_min);

    static std::string text(Idl& idl, std::string_view names) {
        std::string text;
        ((text += " " + member_of<Members>(idl, "_" + std::string(next_of(names))) + ";"), ...);
        return text;
    }
};

template <class T> struct Field<T, std::enable_if_t<is_event<T>::value>> {
    // Not more than 1, since a struct may be within a sequence within itself.
    static constexpr std::size_t octets_min = 1;

    static std::string idl(Idl& idl) {
        const std::string_view module = campanile_module(of<T>), name = last_of(campanile_type_name(of<T>));
        const std::string full = idl_name(module, name);
        idl.define(full, [&] {
            using Members = decltype(campanile_members(std::declval<T&>()));
            // What it is made of is defined before it.
            const std::string members = Types<Members>::text(idl, campanile_member_names(of<T>));
            add_defaults(idl, std::string(module) + (module.empty() ? "" : "::") + std::string(name));
            return within(campanile_prefix(of<T>), module, "struct _" + std::string(name) + " {" + members + " };");
        });
        return full;
    }

    static void write(Writer& writer, const T& value) {
        std::apply(
            [&writer](const auto&... members) {
                (Field<std::remove_cv_t<std::remove_reference_t<decltype(members)>>>::write(writer, members), ...);
            },
            campanile_members(value));
    }

    static void read(Reader& reader, T& value) {
        std::apply(
            [&reader](auto&... members) { (Field<std::remove_reference_t<decltype(members)>>::read(reader, members), ...); },
            campanile_members(value));
    }

private:
    /// Those of the members that CAMPANILE_DEFAULTS names.
    static void add_defaults(Idl& idl, const std::string& structure) {
        if (*campanile_default_names(of<T>) == 0) {
            return;
        }
        const T made{};
        std::string_view names = campanile_member_names(of<T>);
        std::apply([&](const auto&... members) { (add_default(idl, structure, next_of(names), members), ...); }, campanile_members(made));
    }

    template <class Member>
    static void add_default(Idl& idl, const std::string& structure, std::string_view name, const Member& member) {
        std::string_view named = campanile_default_names(of<T>);
        for (std::string_view one = next_of(named); !one.empty(); one = next_of(named)) {
            if (one == name) {
                idl.defaults.push_back({structure, std::string(name), {}});
                Writer writer(idl.defaults.back().octets);
                Field<Member>::write(writer, member);
            }
        }
    }
};

/// Octets that a thread keeps for values.
constexpr std::size_t retained_max = 1 << 20;

/// Writes a value into memory that the thread keeps, and has it used.
template <class T, class Use> void with_octets(const T& value, Use use) {
    thread_local std::vector<std::uint8_t> kept;
    std::vector<std::uint8_t> octets;
    octets.swap(kept); // so that publishing from within is in order
    Writer writer(octets);
    Field<T>::write(writer, value);
    use(octets.data(), octets.size());
    if (octets.capacity() <= retained_max) {
        kept.swap(octets);
    }
}

} // namespace detail
#pragma GCC visibility pop
} // namespace campanile

/// Makes a struct an event, or a part of events: `CAMPANILE_EVENT(Wind, speed, direction)`, behind the struct and in its namespace. Up to
/// 64 members.
#define CAMPANILE_EVENT(TYPE, ...)                                                                                     \
    [[maybe_unused]] constexpr const char* campanile_type_name(const TYPE*) { return #TYPE; }                          \
    [[maybe_unused]] constexpr const char* campanile_member_names(const TYPE*) { return #__VA_ARGS__; }                \
    [[maybe_unused]] inline auto campanile_members(TYPE& it) { return std::tie(CAMPANILE_EACH(CAMPANILE_MEMBER, __VA_ARGS__)); } \
    [[maybe_unused]] inline auto campanile_members(const TYPE& it) { return std::tie(CAMPANILE_EACH(CAMPANILE_MEMBER, __VA_ARGS__)); }
#define CAMPANILE_MEMBER(NAME) it.NAME

/// Makes an enum a part of events: `CAMPANILE_ENUM(State, State::ok, State::broken)`, behind the enum and in its namespace.
#define CAMPANILE_ENUM(TYPE, ...)                                                                                      \
    [[maybe_unused]] constexpr const char* campanile_type_name(const TYPE*) { return #TYPE; }                          \
    [[maybe_unused]] constexpr const char* campanile_label_names(const TYPE*) { return #__VA_ARGS__; }                 \
    [[maybe_unused]] constexpr auto campanile_labels(const TYPE*) { return std::array{__VA_ARGS__}; }

/// Members that a supplier's type may lack; they are then what the struct's own initializers say: `CAMPANILE_DEFAULTS(Wind, station)`, in front
/// of CAMPANILE_EVENT.
#define CAMPANILE_DEFAULTS(TYPE, ...) \
    [[maybe_unused]] constexpr const char* campanile_default_names(const TYPE*) { return #__VA_ARGS__; }

/// The module in which an IDL would have a type: `CAMPANILE_MODULE(Wind, "obs::weather")`, in front of CAMPANILE_EVENT.
#define CAMPANILE_MODULE(TYPE, MODULE) \
    [[maybe_unused]] constexpr const char* campanile_module(const TYPE*) { return MODULE; }

/// What stands in front of that, as `#pragma prefix` says in the IDL: `CAMPANILE_PREFIX(Wind, "alma")`, in front of CAMPANILE_EVENT.
#define CAMPANILE_PREFIX(TYPE, PREFIX) \
    [[maybe_unused]] constexpr const char* campanile_prefix(const TYPE*) { return PREFIX; }

/// The domain of a type's events: `CAMPANILE_DOMAIN(Wind, "ALMA")`. Default what the settings say.
#define CAMPANILE_DOMAIN(TYPE, DOMAIN_NAME) \
    [[maybe_unused]] constexpr const char* campanile_domain(const TYPE*) { return DOMAIN_NAME; }
