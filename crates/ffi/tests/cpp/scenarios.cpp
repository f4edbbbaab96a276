// The shared scenarios in C++: `scenarios NAME`. Exit status 0 is passed. What the driver has to do for a scenario is asked for in a line
// that begins with `> `, and answered with a line.

#include <campanile.hpp>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace std::chrono_literals;

namespace weather {
enum class State { ok, broken = 7 };
CAMPANILE_ENUM(State, State::ok, State::broken)

struct Place {
    double x, y;
    std::optional<std::string> note;
    bool operator==(const Place& o) const { return x == o.x && y == o.y && note == o.note; }
};
CAMPANILE_EVENT(Place, x, y, note)

using Time = std::chrono::time_point<std::chrono::system_clock, campanile::detail::Ticks>;

struct Sample {
    double speed;
    float direction;
    std::string station;
    State state;
    Place place;
    std::vector<float> gusts;
    std::vector<Place> history;
    std::vector<std::uint8_t> raw;
    std::array<std::int16_t, 3> axes;
    char32_t sign;
    std::int8_t small;
    bool calm;
    Time at;
    std::chrono::microseconds lasted;
    std::vector<bool> bits;
    std::int64_t far;
    std::uint64_t farther;
    std::array<std::array<std::int32_t, 2>, 3> grid;
    std::vector<std::array<std::uint16_t, 2>> pairs;

    auto all() const {
        return std::tie(speed, direction, station, state, place, gusts, history, raw, axes, sign, small, calm, at, lasted,
                        bits, far, farther, grid, pairs);
    }
    bool operator==(const Sample& o) const { return all() == o.all(); }
};
CAMPANILE_EVENT(Sample, speed, direction, station, state, place, gusts, history, raw, axes, sign, small, calm, at, lasted,
                bits, far, farther, grid, pairs)
} // namespace weather

/// As the tests with orbs have them in IDL.
namespace orbs {
enum class Colour { red, green, blue, violet };
CAMPANILE_MODULE(Colour, "CampanileTest")
CAMPANILE_PREFIX(Colour, "campanile.org")
CAMPANILE_ENUM(Colour, Colour::red, Colour::green, Colour::blue, Colour::violet)

struct Point {
    std::int32_t x;
    std::int16_t y;
    double z;
};
CAMPANILE_MODULE(Point, "CampanileTest")
CAMPANILE_PREFIX(Point, "campanile.org")
CAMPANILE_EVENT(Point, x, y, z)

struct Line {
    Point from;
    std::uint8_t weight;
    Point to;
};
CAMPANILE_MODULE(Line, "CampanileTest")
CAMPANILE_PREFIX(Line, "campanile.org")
CAMPANILE_EVENT(Line, from, weight, to)

struct Nested {
    std::string name;
    Line outline;
    Colour tint;
    Point origin;
};
CAMPANILE_MODULE(Nested, "CampanileTest")
CAMPANILE_PREFIX(Nested, "campanile.org")
CAMPANILE_EVENT(Nested, name, outline, tint, origin)

struct Block {
    std::uint8_t before;
    std::vector<std::uint8_t> data;
    std::uint32_t after;
};
CAMPANILE_MODULE(Block, "CampanileTest")
CAMPANILE_PREFIX(Block, "campanile.org")
CAMPANILE_EVENT(Block, before, data, after)
} // namespace orbs

struct Wind {
    double speed, direction;
};
CAMPANILE_EVENT(Wind, speed, direction)

/// The same name with something else.
namespace other {
struct Wind {
    std::string speed;
};
CAMPANILE_EVENT(Wind, speed)
} // namespace other

struct Rain {
    std::uint32_t mm;
};
CAMPANILE_EVENT(Rain, mm)

/// The same name with less, wider, and something that does not come.
namespace narrow {
struct Sample {
    std::string station;
    double direction;
    std::optional<std::uint32_t> unknown;
};
CAMPANILE_EVENT(Sample, station, direction, unknown)
} // namespace narrow

/// The same name with something that has to come.
namespace further {
struct Sample {
    double speed;
    std::int32_t humidity;
};
CAMPANILE_EVENT(Sample, speed, humidity)
} // namespace further

/// The same name with more, which has values of its own.
namespace grown {
struct Place {
    double x, y;
};
CAMPANILE_EVENT(Place, x, y)

struct Wind {
    double speed = 0;
    std::uint16_t count = 7;
    Place place{1.5, 2.5};
    std::vector<std::string> names{"a"};
};
CAMPANILE_DEFAULTS(Wind, count, place, names)
CAMPANILE_EVENT(Wind, speed, count, place, names)
} // namespace grown

/// Words that IDL keeps for itself.
struct Words {
    std::string string, module;
    std::int32_t in;
};
CAMPANILE_EVENT(Words, string, module, in)

/// A struct that has more of itself.
struct Node {
    std::int32_t number;
    std::vector<Node> children;
};
CAMPANILE_EVENT(Node, number, children)

namespace {

weather::Sample sample(double speed) {
    const weather::Place place{1.0, -2.5, "Dach; крыша; 屋根"};
    return {speed, 270.0F, "Überlingen 塔", weather::State::broken, place, {1.5F, 2.5F, std::numeric_limits<float>::infinity()},
            {{1.0, -2.5, std::nullopt}, place}, {1, 2, 3}, {-1, 0, 1}, U'風', -5, false,
            weather::Time(campanile::detail::Ticks(17000000001234567)), 1500000us, {true, false, true},
            std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::uint64_t>::max(), {{{1, 2}, {3, 4}, {5, 6}}}, {{7, 8}}};
}

/// A scenario fails by leaving.
#define MUST(...)                                                                       \
    do {                                                                                \
        if (!(__VA_ARGS__)) {                                                           \
            std::cerr << __FILE__ << ':' << __LINE__ << ": not so: " #__VA_ARGS__ "\n"; \
            std::_Exit(1);                                                              \
        }                                                                               \
    } while (false)

/// Whether it throws an error of that sort, and what it says.
template <class What> std::string refused(campanile_status code, What what) {
    try {
        what();
    } catch (const campanile::error& error) {
        if (error.code() == code) {
            return error.what();
        }
        std::cerr << "another error: " << error.code() << ": " << error.what() << '\n';
        std::_Exit(1);
    }
    std::cerr << "no error, where " << code << " was expected\n";
    std::_Exit(1);
}

/// What callbacks tell the main thread. The driver ends who waits for too long.
template <class T> class Inbox {
public:
    void put(T it) {
        const std::lock_guard<std::mutex> guard(mutex_);
        all_.push_back(std::move(it));
        changed_.notify_all();
    }

    T next() {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return !all_.empty(); });
        T it = std::move(all_.front());
        all_.pop_front();
        return it;
    }

    bool is_empty() {
        const std::lock_guard<std::mutex> guard(mutex_);
        return all_.empty();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<T> all_;
};

/// Has the driver do something.
void ask(const std::string& what) {
    std::cout << "> " << what << std::endl;
    std::string answer;
    MUST(std::getline(std::cin, answer));
}

/// Whether events go from program to program, with no service between.
bool is_over_dds() {
    const char* transport = std::getenv("CAMPANILE_TRANSPORT");
    return transport != nullptr && std::string(transport) == "dds";
}

template <class T> auto into(Inbox<T>& inbox) {
    return [&inbox](const T& it) { inbox.put(it); };
}

void publish() {
    Inbox<weather::Sample> events;
    campanile::Consumer consumer("Weather");
    consumer.on(into(events)).ready();
    campanile::Supplier supplier("Weather");
    for (const double speed : {1.0, 5e-324, -0.0}) {
        supplier.publish(sample(speed));
        const weather::Sample came = events.next();
        MUST(came == sample(speed));
        MUST(std::signbit(came.speed) == std::signbit(speed));
    }
    // Many, without waiting for each.
    campanile::Publisher publisher = supplier.publisher();
    for (int number = 0; number < 10000; ++number) {
        MUST(publisher.publish(sample(number)) == static_cast<std::uint64_t>(number));
    }
    for (int number = 0; number < 10000; ++number) {
        MUST(events.next().speed == number);
    }
    publisher.flush();
    MUST(publisher.sync().confirmed == 10000);
    MUST(!publisher.next_loss());
    const campanile::Tally tally = publisher.close();
    MUST(tally.published == 10000 && tally.confirmed == 10000);
    refused(CAMPANILE_STATUS_CLOSED, [&] { publisher.publish(sample(1)); });
}

void filter() {
    campanile::Consumer consumer("Filtered");
    consumer.filter("$speed > 10 and $station == 'Überlingen 塔' and $.remainder_of_body.place.x == 1");
    auto events = consumer.events<weather::Sample>();
    campanile::Supplier supplier("Filtered");
    for (const double speed : {9.0, 11.0, 10.0, 12.0}) {
        supplier.publish(sample(speed));
    }
    auto event = events.begin();
    MUST(event->speed == 11.0);
    ++event;
    MUST(event->speed == 12.0);
    MUST(!events.next(0ms));
    campanile::Consumer wrong("Filtered");
    wrong.on([](const Wind&) {}).filter("$speed >");
    const std::string told = refused(CAMPANILE_STATUS_FILTER, [&] { wrong.ready(); });
    MUST(told.find("$speed >") != std::string::npos && told.find("CORBA") == std::string::npos);
    MUST(campanile_last_column() == 9);
}

void history() {
    using campanile::StartFrom;
    campanile::Supplier supplier("Weather");
    const auto before = std::chrono::system_clock::now() - 1min;
    for (int speed = 1; speed <= 5; ++speed) {
        supplier.publish(Wind{static_cast<double>(speed), 0});
    }
    std::vector<campanile::EventNumber> numbers;
    Inbox<std::pair<grown::Wind, std::optional<campanile::EventNumber>>> taken;
    campanile::Consumer all("Weather");
    all.start_from(StartFrom::first());
    all.on([&](const grown::Wind& wind, const std::optional<campanile::EventNumber>& number) { taken.put({wind, number}); }).ready();
    for (int speed = 1; speed <= 5; ++speed) {
        const auto [wind, number] = taken.next();
        MUST(wind.speed == speed && wind.count == 7 && wind.place.x == 1.5 && wind.names == std::vector<std::string>{"a"});
        MUST(number && number->came && *number->came > before);
        numbers.push_back(*number);
    }
    const auto begins = [](const StartFrom& start) {
        auto events = campanile::Consumer("Weather").start_from(start).events<Wind>();
        const double speed = events.begin()->speed;
        MUST(events.number());
        return speed;
    };
    MUST(begins(StartFrom::number(numbers[2].number)) == 3 && begins(StartFrom::after(numbers[2].number)) == 4);
    MUST(begins(StartFrom::last(2)) == 4 && begins(StartFrom::since(1h)) == 1 && begins(StartFrom::time(before)) == 1);
    MUST(begins(StartFrom::last_of_each_type()) == 5 && begins(StartFrom::last_of_each("speed")) == 1);
    ask("restart");
    supplier.publish(Wind{6, 0});
    MUST(taken.next().first.speed == 6);
    for (;;) {
        try {
            all.check();
            break;
        } catch (const campanile::error&) {
            std::this_thread::yield();
        }
    }
    MUST(all.reconnections() == 1 && supplier.reconnections() == 1);
    campanile::Publisher publisher = supplier.publisher();
    publisher.publish(Wind{7, 0});
    MUST(publisher.close().unconfirmed() == 0);
    std::optional<campanile::Trouble> trouble;
    campanile::Consumer unknown("Weather");
    unknown.filter("$sped > 10").on([](const Wind&) {}).on_trouble([&](const campanile::Trouble& t) { trouble = t; }).ready();
    MUST(trouble && trouble->code == CAMPANILE_TROUBLE_CODE_UNKNOWN_NAME && trouble->name == "sped");
}

void restart() {
    Inbox<double> events;
    Inbox<campanile_trouble_code> troubles;
    campanile::Consumer consumer("Weather");
    consumer.on([&](const Wind& wind) { events.put(wind.speed); }).on_trouble([&](const campanile::Trouble& t) { troubles.put(t.code); });
    consumer.ready();
    campanile::Supplier supplier("Weather"), hasty("Weather", campanile::Settings().set("wait_for_restart_ms", "0"));
    for (auto* by : {&supplier, &hasty}) {
        by->publish(Wind{1, 2});
        MUST(events.next() == 1);
    }
    const auto is_unreachable = [](campanile::Supplier& by) {
        try {
            by.publish(Wind{4, 2});
            return false;
        } catch (const campanile::error& error) {
            return error.code() == CAMPANILE_STATUS_UNREACHABLE && error.was_not_carried_out();
        }
    };
    const auto until_waiting = [&] {
        while (supplier.waiting() == 0) {
            std::this_thread::yield();
        }
    };
    ask("stop");
    MUST(is_unreachable(hasty));
    std::thread waits([&] { supplier.publish(Wind{2, 2}); });
    until_waiting();
    ask("start");
    waits.join();
    const auto until_done = [](auto what) {
        for (;;) {
            try {
                return what();
            } catch (const campanile::error&) {
                std::this_thread::yield();
            }
        }
    };
    until_done([&] { consumer.check(); });
    while (troubles.next() != CAMPANILE_TROUBLE_CODE_GAP) {
    }
    for (auto* by : {&supplier, &hasty}) {
        by->publish(Wind{3, 2});
        // What was published meanwhile has come, too, if the consumer was there before the supplier.
        double speed = 2;
        while (speed == 2) {
            speed = events.next();
        }
        MUST(speed == 3);
    }
    ask("stop");
    std::thread ends([&] { MUST(is_unreachable(supplier)); });
    until_waiting();
    supplier.stop_waiting();
    ends.join();
}

void slow() {
    // One that takes no event until all are published, and one that is not hindered by it.
    std::mutex gate;
    std::unique_lock<std::mutex> closed(gate);
    Inbox<double> late, early;
    Inbox<campanile_trouble_code> troubles;
    campanile::Consumer slow("Weather"), quick("Weather");
    slow.slow_after(0ms).on_trouble([&](const campanile::Trouble& trouble) { troubles.put(trouble.code); });
    slow.on([&](const Wind& wind) {
        const std::lock_guard<std::mutex> open(gate);
        late.put(wind.speed);
    });
    slow.ready();
    quick.on([&](const Wind& wind) { early.put(wind.speed); }).ready();
    campanile::Supplier supplier("Weather");
    campanile::Publisher publisher = supplier.publisher();
    for (int number = 0; number < 1000; ++number) {
        publisher.publish(Wind{static_cast<double>(number), 0});
    }
    for (int number = 0; number < 1000; ++number) {
        MUST(early.next() == number);
    }
    MUST(publisher.close().confirmed == 1000);
    MUST(late.is_empty());
    closed.unlock();
    for (int number = 0; number < 1000; ++number) {
        MUST(late.next() == number);
    }
    MUST(troubles.next() == CAMPANILE_TROUBLE_CODE_SLOW);
}

void mismatch() {
    Inbox<std::array<std::string, 4>> troubles;
    Inbox<double> events;
    campanile::Consumer wrong("Weather"), right("Weather");
    wrong.on([](const other::Wind&) { MUST(false); });
    wrong.on_trouble([&](const campanile::Trouble& t) {
        MUST(t.code == CAMPANILE_TROUBLE_CODE_MISMATCH);
        troubles.put({t.path, t.reason, t.declared, t.came});
    });
    wrong.ready();
    right.on([&](const Wind& wind) { events.put(wind.speed); }).ready();
    campanile::Supplier supplier("Weather");
    for (int number = 0; number < 3; ++number) {
        supplier.publish(Wind{static_cast<double>(number), 0});
        MUST(events.next() == number);
    }
    const auto told = troubles.next();
    MUST(told[0] == "speed" && told[1] == "a double cannot be taken for a string");
    MUST(told[2].find("string speed") != std::string::npos && told[3].find("double speed") != std::string::npos);
    MUST(troubles.is_empty());
}

// Over DDS: a supplier that is not reliable, for a consumer that is.
void incompatible() {
    Inbox<std::array<std::string, 4>> troubles;
    Inbox<std::string> of_supplier;
    campanile::Consumer consumer("Weather");
    consumer.on([](const Wind&) { MUST(false); });
    consumer.on_trouble([&](const campanile::Trouble& t) {
        MUST(t.code == CAMPANILE_TROUBLE_CODE_INCOMPATIBLE);
        troubles.put({t.name, t.path, t.reason, t.supplier});
    });
    consumer.ready();
    campanile::Supplier supplier("Weather", campanile::Settings().set("dds.reliable", "false"));
    supplier.on_trouble([&](const campanile::Trouble& t) { of_supplier.put(t.supplier); });
    supplier.publish(Wind{1, 0});
    MUST(of_supplier.next().find("reader ") == 0);
    const auto told = troubles.next();
    MUST(told[0] == "Wind" && told[1] == "reliability" && told[3].find("writer ") == 0);
    MUST(told[2].find("set dds.reliable = false") == 0);
}

void unicode() {
    Inbox<Words> events;
    campanile::Consumer consumer("Weather");
    consumer.on(into(events)).ready();
    campanile::Supplier supplier("Weather");
    for (const char* text : {"", "é", "屋根 塔", "🦀 крыша", "\x01\x7F"}) {
        supplier.publish(Words{text, "module", -1});
        const Words came = events.next();
        MUST(came.string == text && came.module == "module" && came.in == -1);
    }
    for (const std::string& text : {std::string("\xFF"), std::string("\xC3"), std::string("a\0b", 3)}) {
        const std::string told = refused(CAMPANILE_STATUS_VALUE, [&] { supplier.publish(Words{"", text, 0}); });
        MUST(told.find("module") != std::string::npos);
    }
    supplier.publish(Words{"last", "", 0});
    MUST(events.next().string == "last");
}

void nested() {
    campanile::Supplier supplier("Weather");
    weather::Sample deep = sample(1);
    for (int number = 0; number < 1000; ++number) {
        deep.history.push_back({static_cast<double>(number), 0, number % 2 == 0 ? std::optional<std::string>("note") : std::nullopt});
    }
    campanile::Consumer samples("Weather");
    auto came_deep = samples.events<weather::Sample>();
    supplier.publish(deep);
    MUST(*came_deep.begin() == deep);
    Inbox<Node> events;
    campanile::Consumer consumer("Weather");
    consumer.on(into(events));
    if (is_over_dds()) {
        for (const auto& told : {refused(CAMPANILE_STATUS_TYPE, [&] { consumer.ready(); }),
                                 refused(CAMPANILE_STATUS_TYPE, [&] { supplier.publish(Node{1, {}}); })}) {
            MUST(told.find("Node.children[]") != std::string::npos && told.find("contains itself") != std::string::npos);
        }
        return;
    }
    consumer.ready();
    supplier.publish(Node{1, {{2, {{3, {}}, {4, {}}}}, {5, {}}}});
    const Node came = events.next();
    MUST(came.number == 1 && came.children.size() == 2 && came.children[0].children[1].number == 4 && came.children[1].number == 5);
    MUST(campanile::idl<weather::Sample>().find("sequence<Place>") != std::string::npos);
}

void types() {
    Inbox<double> winds;
    Inbox<std::uint32_t> rains;
    Inbox<std::string> others;
    campanile::Consumer consumer("Weather");
    consumer.on([&](const Wind& wind) { winds.put(wind.speed); }).on([&](const Rain& rain) { rains.put(rain.mm); });
    consumer.on_any([&](const campanile::Dynamic& event) {
        MUST(event.idl().find("struct Words") != std::string::npos);
        others.put(std::string(event.name()) + event.json());
    });
    consumer.ready();
    campanile::Supplier supplier("Weather");
    supplier.publish(Wind{1, 2});
    supplier.publish(Rain{7});
    supplier.publish(Words{"a", "b", 3});
    MUST(winds.next() == 1 && rains.next() == 7);
    MUST(others.next() == R"(Words{"string":"a","module":"b","in":3})");
    MUST(winds.is_empty() && rains.is_empty() && others.is_empty());
}

void evolution() {
    campanile::Consumer consumer("Weather");
    auto events = consumer.events<narrow::Sample>();
    campanile::Supplier("Weather").publish(sample(1));
    const auto event = events.begin();
    MUST(event->station == "Überlingen 塔" && event->direction == 270 && !event->unknown);
}

void missing() {
    Inbox<std::string> paths;
    campanile::Consumer consumer("Weather");
    consumer.on([](const further::Sample&) { MUST(false); });
    consumer.on_trouble([&](const campanile::Trouble& trouble) {
        MUST(trouble.code == CAMPANILE_TROUBLE_CODE_MISMATCH);
        paths.put(trouble.path);
    });
    consumer.ready();
    campanile::Supplier("Weather").publish(sample(1));
    MUST(paths.next() == "humidity");
}

void wait() {
    ask("stop");
    const std::string told = refused(CAMPANILE_STATUS_UNREACHABLE, [] { campanile::Supplier("Weather"); });
    MUST(told.find("campanile serve") != std::string::npos);
    std::thread patient([] { campanile::Supplier("Weather", campanile::Settings().set("wait_for_service_ms", "60000")).publish(Wind{1, 2}); });
    ask("start");
    patient.join();
}

/// A thousand types, or a hundred over DDS, declared as programs do that learn of them when they run.
void thousand_types() {
    const int count = is_over_dds() ? 100 : 1000;
    const auto idl = [](int number) {
        const std::string n = std::to_string(number);
        return "struct T" + n + " { long a" + n + "; };";
    };
    std::vector<campanile::detail::Handle<campanile_type>> all;
    for (int number = 0; number < count; ++number) {
        campanile_type* type = nullptr;
        campanile::detail::check(campanile_type_new(idl(number).c_str(), nullptr, nullptr, &type));
        all.emplace_back(type);
    }
    Inbox<std::string> events;
    campanile::Consumer consumer("Types");
    consumer.on_any([&](const campanile::Dynamic& event) { events.put(std::string(event.name()) + event.json()); }).ready();
    campanile_supplier* made = nullptr;
    campanile::detail::check(campanile_supplier_new("Types", nullptr, &made));
    const campanile::detail::Handle<campanile_supplier> supplier(made);
    for (int round = 0; round < 2; ++round) {
        for (std::int32_t number = 0; number < count; ++number) {
            campanile::detail::check(campanile_supplier_publish(supplier.get(), all[static_cast<std::size_t>(number)].get(),
                                                                reinterpret_cast<const std::uint8_t*>(&number), sizeof number));
            const std::string n = std::to_string(number);
            MUST(events.next() == "T" + n + "{\"a" + n + "\":" + n + "}");
        }
    }
}

/// Leaves with events under way: the driver stops the service, so that nothing is answered.
void leave() {
    static campanile::Supplier supplier("Weather");
    static campanile::Publisher publisher = supplier.publisher();
    publisher.publish(Wind{0, 2});
    MUST(publisher.sync().confirmed == 1);
    ask("freeze");
    for (int number = 0; number < 10; ++number) {
        publisher.publish(Wind{1, 2});
    }
}

void misuse() {
    campanile::Supplier supplier("Weather");
    Inbox<double> events;
    Inbox<std::string> troubles;
    campanile::Consumer consumer("Weather");
    consumer.on([&](const Wind& wind) {
        if (wind.speed == 13) {
            throw std::runtime_error("thirteen");
        }
        if (wind.speed == 14) {
            throw 14;
        }
        if (wind.speed == 15) { // again, from within
            supplier.publish(Wind{16, 0});
        }
        if (wind.speed == 17) { // it would wait for itself
            refused(CAMPANILE_STATUS_FROM_CALLBACK, [&] { consumer.close(); });
        }
        events.put(wind.speed);
    });
    consumer.on_trouble([&](const campanile::Trouble& trouble) { troubles.put(trouble.reason); }).ready();
    for (const double speed : {13.0, 14.0, 15.0, 17.0}) {
        supplier.publish(Wind{speed, 0});
    }
    MUST(events.next() == 15);
    std::set<double> rest{events.next(), events.next()};
    MUST((rest == std::set<double>{16, 17}));
    MUST(troubles.next() == "thirteen");
    MUST(troubles.next().find("no std::exception") != std::string::npos);
    supplier.publish(Wind{std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()});
    MUST(std::isnan(events.next()));
    // What C++ alone cannot say.
    auto wrong = sample(1);
    wrong.state = static_cast<weather::State>(3);
    MUST(refused(CAMPANILE_STATUS_VALUE, [&] { supplier.publish(wrong); }).find("State") != std::string::npos);
    wrong = sample(1);
    wrong.lasted = -1us;
    refused(CAMPANILE_STATUS_VALUE, [&] { supplier.publish(wrong); });
    wrong = sample(1);
    wrong.sign = static_cast<char32_t>(0xD800);
    refused(CAMPANILE_STATUS_VALUE, [&] { supplier.publish(wrong); });
    // Large, and larger than what the service takes.
    Inbox<std::size_t> sizes;
    campanile::Consumer large("Weather");
    large.on([&](const Words& words) { sizes.put(words.string.size()); }).ready();
    supplier.publish(Words{std::string(1 << 20, 'x'), "", 0});
    MUST(sizes.next() == 1 << 20);
    try {
        supplier.publish(Words{std::string(16 << 20, 'x'), "", 0});
        MUST(sizes.next() == 16 << 20);
    } catch (const campanile::error& error) {
        MUST(error.code() == CAMPANILE_STATUS_REFUSED || error.code() == CAMPANILE_STATUS_UNREACHABLE);
    }
    refused(CAMPANILE_STATUS_CHANNEL_NAME, [] { campanile::Supplier(""); });
    refused(CAMPANILE_STATUS_SETTINGS, [] { campanile::Settings().set("transport", "pigeon"); });
    refused(CAMPANILE_STATUS_ARGUMENT, [&] { consumer.ready(); });
    // When it is closed, nothing comes any more, and a callback that has had enough ends it.
    consumer.close();
    consumer.close();
    refused(CAMPANILE_STATUS_CLOSED, [&] { consumer.check(); });
    supplier.publish(Wind{1, 0});
    MUST(events.is_empty());
    campanile::Consumer once("Weather");
    once.on([&](const Wind& wind) {
        events.put(wind.speed);
        return campanile::Answer::enough;
    });
    once.ready();
    supplier.publish(Wind{1, 0});
    MUST(events.next() == 1);
    while (!once.has_ended()) {
        std::this_thread::yield();
    }
}

void forked() {
    Inbox<double> events;
    campanile::Supplier supplier("Weather");
    campanile::Publisher publisher = supplier.publisher();
    campanile::Consumer consumer("Weather");
    consumer.on([&](const Wind& wind) { events.put(wind.speed); }).ready();
    supplier.publish(Wind{1, 0});
    MUST(events.next() == 1);
    const pid_t child = ::fork();
    if (child == 0) {
        refused(CAMPANILE_STATUS_FORKED, [&] { supplier.publish(Wind{2, 0}); });
        refused(CAMPANILE_STATUS_FORKED, [&] { publisher.publish(Wind{2, 0}); });
        refused(CAMPANILE_STATUS_FORKED, [&] { publisher.sync(); });
        refused(CAMPANILE_STATUS_FORKED, [&] { consumer.check(); });
        if (is_over_dds()) { // which a process can begin but once
            refused(CAMPANILE_STATUS_FORKED, [] { campanile::Supplier("Weather"); });
        } else {
            campanile::Supplier("Weather").publish(Wind{3, 0});
        }
        return; // and all is freed
    }
    int status = -1;
    MUST(::waitpid(child, &status, 0) == child && status == 0);
    MUST(is_over_dds() || events.next() == 3);
    supplier.publish(Wind{4, 0});
    MUST(events.next() == 4);
    publisher.publish(Wind{5, 0});
    MUST(publisher.close().confirmed == 1);
}

/// Publishes into a channel what comes from another, as structs.
void pass(const char* from, const char* to) {
    campanile::Supplier supplier(to);
    campanile::Consumer consumer(from);
    consumer.on([&](const weather::Sample& sample) { supplier.publish(sample); }).ready();
    ask("ready");
}

/// The same for what orbs send, to orbs.
void pass_for_orbs(const char* from, const char* to) {
    campanile::Supplier supplier(to);
    campanile::Consumer consumer(from);
    consumer.on([&](const orbs::Nested& event) { supplier.publish(event); });
    consumer.on([&](const orbs::Block& event) { supplier.publish(event); }).ready();
    ask("ready");
}

/// One-way trips within a process, as lines of nanoseconds.
void trips(int count) {
    using Clock = std::chrono::steady_clock;
    Inbox<std::int64_t> taken;
    campanile::Consumer consumer("Trips");
    const auto now = [] { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count(); };
    consumer.on([&](const Node& node) {
        const std::int64_t sent = static_cast<std::int64_t>(node.children.at(0).number) << 31 | node.children.at(1).number;
        taken.put(now() - sent);
    });
    consumer.ready();
    campanile::Supplier supplier("Trips");
    for (int number = 0; number < count; ++number) {
        const std::int64_t sent = now();
        supplier.publish(Node{number, {{static_cast<std::int32_t>(sent >> 31), {}}, {static_cast<std::int32_t>(sent & 0x7FFFFFFF), {}}}});
        std::cout << taken.next() << '\n';
    }
}

} // namespace

int main(int argc, char** argv) {
    const std::string scenario = argc > 1 ? argv[1] : "";
    try {
        if (scenario == "publish") publish();
        else if (scenario == "filter") filter();
        else if (scenario == "restart") restart();
        else if (scenario == "slow_consumer") slow();
        else if (scenario == "type_mismatch") mismatch();
        else if (scenario == "incompatible") incompatible();
        else if (scenario == "unicode") unicode();
        else if (scenario == "nested") nested();
        else if (scenario == "thousand_types") thousand_types();
        else if (scenario == "types") types();
        else if (scenario == "evolution") evolution();
        else if (scenario == "missing") missing();
        else if (scenario == "wait") wait();
        else if (scenario == "history") history();
        else if (scenario == "exit") leave();
        else if (scenario == "misuse") misuse();
        else if (scenario == "fork") forked();
        else if (scenario == "pass" && argc == 4) pass(argv[2], argv[3]);
        else if (scenario == "pass_for_orbs" && argc == 4) pass_for_orbs(argv[2], argv[3]);
        else if (scenario == "trips" && argc == 3) trips(std::atoi(argv[2]));
        else {
            std::cerr << "there is no scenario " << scenario << '\n';
            return 2;
        }
    } catch (const std::exception& error) {
        std::cerr << scenario << ": " << error.what() << '\n';
        return 1;
    }
}
