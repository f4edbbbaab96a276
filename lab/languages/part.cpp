// A component of `campanile-bench deployment`: when it is activated, it writes of which version of the plan it is into a file of its process.
#include <campanile_component.hpp>

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace bench {

struct Beat {
    std::uint64_t number;
};
CAMPANILE_MODULE(Beat, "bench")
CAMPANILE_EVENT(Beat, number)

struct Part : campanile::component::Component {
    campanile::component::Source<Beat> output;
    std::string folder;
    std::uint64_t version;

    void on_activated() override {
        std::ofstream file(folder + "/" + std::to_string(getpid()), std::ios::app);
        file << version << std::endl;
        if (!file) {
            throw std::runtime_error("nothing can be written in " + folder);
        }
    }

    void on_input(const Beat& beat) { output.send(beat); }
};
CAMPANILE_COMPONENT(Part, sink(input, Beat), source(output, Beat), property(folder), property(version))

} // namespace bench

CAMPANILE_EXPORT(bench::Part)
