// A second object with a component and an event that are called as the guider's, and are others.
#include <campanile_component.hpp>

#include <cstdint>
#include <string>

namespace observatory {

struct Frame {
    std::string star;
    std::uint16_t magnitude;
};
CAMPANILE_EVENT(Frame, star, magnitude)

struct Offset {
    std::uint64_t number;
    double x;
};
CAMPANILE_MODULE(Offset, "observatory")
CAMPANILE_EVENT(Offset, number, x)

struct Guider : campanile::component::Component {
    campanile::component::Source<Frame> star;
    campanile::component::Source<Offset> offset;

    void on_night(const campanile::component::Tick&) { star.send({"Vega", 3}); }

    void on_light(const Frame& frame) { offset.send({frame.magnitude, static_cast<double>(frame.star.size())}); }
};
CAMPANILE_COMPONENT(Guider, timer(night, 10ms), source(star, Frame), sink(light, Frame), source(offset, Offset))

} // namespace observatory

CAMPANILE_EXPORT(observatory::Guider)
