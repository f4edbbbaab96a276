#include <campanile.hpp>
#include <iostream>

struct Wind { double speed, direction; };
CAMPANILE_EVENT(Wind, speed, direction)

int main() {
    campanile::Consumer consumer("Weather");
    auto events = consumer.events<Wind>();
    campanile::Supplier("Weather").publish(Wind{11.5, 270});
    std::cout << events.begin()->speed << '\n';
}
