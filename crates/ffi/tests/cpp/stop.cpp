// What C++20 has more of: a loop over events that a stop token ends, and a descriptor that says so. Exit status 0 is passed.

#include <campanile.hpp>

#include <poll.h>
#include <thread>

struct Wind {
    double speed, direction;
};
CAMPANILE_EVENT(Wind, speed, direction)

int main() {
    campanile::Consumer consumer("Weather");
    int count = 0;
    std::stop_source stop;
    auto events = consumer.events<Wind>(stop.get_token());
    pollfd readable{events.descriptor(), POLLIN, 0};
    if (poll(&readable, 1, 0) != 0) {
        return 1;
    }
    campanile::Supplier supplier("Weather");
    for (int number = 0; number < 3; ++number) {
        supplier.publish(Wind{static_cast<double>(number), 0});
    }
    if (poll(&readable, 1, -1) != 1) {
        return 2;
    }
    // Once all three are there it is stopped by another thread, while this one waits.
    std::jthread stops;
    for (const Wind& wind : events) {
        if (wind.speed != count++) {
            return 3;
        }
        if (count == 3) {
            stops = std::jthread([&stop] { stop.request_stop(); });
        }
    }
    return count == 3 ? 0 : 4;
}
