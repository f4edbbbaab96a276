// A component in C++: makes an offset of each frame, and what tests ask for by the property `does`.
#include <campanile_component.hpp>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace observatory {

struct Frame {
    std::uint64_t number;
    double brightness;
    std::vector<std::string> filters;
};
CAMPANILE_MODULE(Frame, "observatory")
CAMPANILE_EVENT(Frame, number, brightness, filters)

struct Offset {
    std::uint64_t number;
    double x;
};
CAMPANILE_MODULE(Offset, "observatory")
CAMPANILE_EVENT(Offset, number, x)

struct Guider : campanile::component::Component {
    campanile::component::Source<Offset> offset, spare;
    double gain;
    std::string does = "nothing";
    std::int8_t steps = 1;
    std::uint64_t serial = 18446744073709551615u;
    bool is_quiet = true;
    std::uint64_t last = 0;

    Guider() {
        // There is no server yet.
        last = static_cast<std::uint64_t>(offset.try_send({0, 0}));
    }

    ~Guider() override {
        if (does == "send from its destructor") {
            offset.send({0, 0});
        }
    }

    void on_configured() override {
        if (gain < 0) {
            throw std::invalid_argument("a gain is not negative");
        }
    }

    void on_activated() override {
        if (does == "refuse") {
            throw std::runtime_error("not today");
        }
        if (does == "break in a step") {
            throw campanile::component::Broken("the mirror is gone");
        }
        if (does == "say") {
            log(campanile::component::Level::info, std::string(instance()) + " has " + std::to_string(steps) + " steps, " +
                std::to_string(serial) + (is_quiet ? ", quiet, " : ", loud, ") + std::to_string(last));
        }
    }

    void on_frame(const Frame& frame, const campanile::component::Ports& ports) {
        last = frame.number;
        if (does == "fail") {
            throw std::runtime_error("no light");
        }
        if ((does == "break" || does == "send from its destructor") && frame.number == 3) {
            throw campanile::component::Broken("the shutter is stuck");
        }
        if (does == "throw a number" && frame.number == 3) {
            throw 3;
        }
        Offset made{frame.number, gain * frame.brightness * steps};
        if (does == "send elsewhere") {
            std::thread([&] { made.x = offset.try_send(made); }).join();
        }
        if (does == "send to nowhere") {
            made.x = spare.try_send(made);
        }
        if (does == "sets") {
            made.x = ports.set ? 100.0 * static_cast<double>(ports.set->number) + 10 * ports.set->index + ports.set->size : 0;
        }
        if (does == "look") {
            const bool is_so = ports.source == "camera.frame" && ports.priority == 7 && ports.age >= 0ns && frame.filters.at(0) == "red";
            made.x = is_so ? 7 : 0;
        }
        offset.send(made, {3, does == "send late" ? -1ns : 1min});
    }

    void on_rest(const campanile::component::Tick& tick) {
        if (does == "rest") {
            offset.send({last, tick.late < 0ns ? 1 : -static_cast<double>(tick.missed)});
        }
    }

    void on_peers(const campanile::component::NeighbourChange& change) {
        offset.send({0, static_cast<double>(change.instance.size() + change.change.size() + change.reason.size())});
    }
};
CAMPANILE_COMPONENT(Guider, sink(frame, Frame), source(offset, Offset), timer(rest, 1s), neighbours(peers), property(gain), optional(does),
    optional(steps), optional(serial), optional(is_quiet))

} // namespace observatory

CAMPANILE_EXPORT(observatory::Guider)
