// How fast C++ is: speed supplier|consumer CHANNEL. What it is told and answers, README.md says.

#include <campanile.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <iostream>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

struct Wind {
    std::uint64_t sent_ns;
    double speed;
    float direction;
    std::string station;
};
CAMPANILE_EVENT(Wind, sent_ns, speed, direction, station)

using Clock = std::chrono::steady_clock;

static std::uint64_t now() {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
}

class Arrivals {
public:
    void arrived(const Wind& wind) {
        const auto at = now();
        const std::lock_guard lock(mutex_);
        if (wind.sent_ns > 0) {
            latencies_.push_back(at - wind.sent_ns);
        }
        last_ = at;
        if (++count_ >= wanted_) {
            changed_.notify_one();
        }
    }

    void take(std::uint64_t events) {
        std::unique_lock lock(mutex_);
        wanted_ = events;
        changed_.wait(lock, [&] { return count_ >= wanted_; });
        std::cout << "answer: {\"last\":" << last_ << ",\"latencies\":[";
        for (std::size_t i = 0; i < latencies_.size(); ++i) {
            std::cout << (i > 0 ? "," : "") << latencies_[i];
        }
        std::cout << "]}" << std::endl;
        latencies_.clear();
        count_ = 0;
        wanted_ = UINT64_MAX;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t count_ = 0, wanted_ = UINT64_MAX, last_ = 0;
    std::vector<std::uint64_t> latencies_;
};

int main(int argc, char** argv) {
    if (argc != 3) {
        return 2;
    }
    Arrivals arrivals;
    std::optional<campanile::Consumer> consumer;
    std::optional<campanile::Supplier> supplier;
    std::optional<campanile::Publisher> publisher;
    if (std::string(argv[1]) == "consumer") {
        consumer.emplace(argv[2]);
        consumer->on([&](const Wind& wind) { arrivals.arrived(wind); }).ready();
    } else {
        supplier.emplace(argv[2]);
        publisher.emplace(supplier->publisher());
    }
    std::cout << "answer: started" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line.substr(1));
        std::string what;
        std::uint64_t events, number;
        words >> what >> events >> number;
        const auto began = now();
        if (what == "take") {
            arrivals.take(events);
        } else if (what == "flood") {
            for (std::uint64_t i = 0; i < events; ++i) {
                publisher->publish(Wind{0, 11.5, 270, "north"});
            }
            const auto tally = publisher->sync();
            std::cout << "answer: {\"began\":" << began << ",\"lost\":" << tally.published - tally.confirmed << "}" << std::endl;
        } else {
            for (std::uint64_t i = 1; i <= events; ++i) {
                std::this_thread::sleep_until(Clock::time_point(std::chrono::nanoseconds(began + i * number)));
                supplier->publish(Wind{now(), 11.5, 270, "north"});
            }
            std::cout << "answer: {\"began\":" << began << ",\"lost\":0}" << std::endl;
        }
    }
}
