// `direct-consumer` and `direct-supplier`: the bare ORB, measured, with no service in between.

#include "commands.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <mutex>
#include <sstream>
#include <vector>

#include "orb.h"

namespace peer {

namespace {

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t cpu_ns() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& t) {
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_usec) * 1000u;
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

class Samples {
public:
  void add(std::uint64_t ns) { all_.push_back(ns); }
  std::size_t count() const { return all_.size(); }
  void sort() { std::sort(all_.begin(), all_.end()); }
  // Nearest rank, in thousandths; sorted before.
  std::uint64_t at(std::uint64_t thousandths) const {
    if (all_.empty()) return 0;
    const std::size_t rank = (all_.size() * thousandths + 999) / 1000;
    return all_[std::min(all_.size(), std::max<std::size_t>(rank, 1)) - 1];
  }
  std::uint64_t mean() const {
    if (all_.empty()) return 0;
    std::uint64_t sum = 0;
    for (const std::uint64_t one : all_) sum += one;
    return sum / all_.size();
  }
  void clear() { all_.clear(); }
  void reserve(std::size_t n) { all_.reserve(n); }

private:
  std::vector<std::uint64_t> all_;
};

class Clock : public POA_CosNotifyComm::StructuredPushConsumer {
public:
  Clock() { samples_.reserve(1 << 20); }

  void push_structured_event(const CosNotification::StructuredEvent& event) override {
    const std::uint64_t arrived = now_ns();
    const CORBA::OctetSeq* payload = nullptr;
    if (!(event.remainder_of_body >>= payload) || payload->length() < 8) return;
    std::uint64_t stamp = 0;
    std::memcpy(&stamp, payload->get_buffer(), sizeof stamp);
    const std::lock_guard<std::mutex> held(lock_);
    samples_.add(arrived - stamp);
  }
  void disconnect_structured_push_consumer() override {}
  void offer_change(const CosNotification::EventTypeSeq&, const CosNotification::EventTypeSeq&) override {}

  void report() {
    const std::lock_guard<std::mutex> held(lock_);
    const std::uint64_t cpu = cpu_ns();
    samples_.sort();
    std::ostringstream line;
    line << "{\"events\":" << samples_.count() << ",\"min_ns\":" << samples_.at(0) << ",\"p50_ns\":" << samples_.at(500)
         << ",\"p99_ns\":" << samples_.at(990) << ",\"p999_ns\":" << samples_.at(999)
         << ",\"max_ns\":" << samples_.at(1000) << ",\"mean_ns\":" << samples_.mean()
         << ",\"cpu_ns\":" << cpu - cpu_before_ << "}";
    say(line.str());
    samples_.clear();
    cpu_before_ = cpu;
  }

private:
  std::mutex lock_;
  Samples samples_;
  std::uint64_t cpu_before_ = cpu_ns();
};

void run(CosNotifyComm::StructuredPushConsumer_ptr to, CosNotification::StructuredEvent& event, std::uint64_t payload,
         std::uint64_t count, std::uint64_t rate) {
  Samples round_trips;
  round_trips.reserve(count);
  const std::uint64_t cpu_before = cpu_ns();
  const std::uint64_t began = now_ns();
  const std::uint64_t step = rate == 0 ? 0 : 1000000000u / rate;
  CORBA::OctetSeq octets;
  octets.length(static_cast<CORBA::ULong>(payload));
  std::memset(octets.get_buffer(), 0, payload);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (step != 0) {
      const std::uint64_t due = began + i * step;
      const timespec until{static_cast<time_t>(due / 1000000000u), static_cast<long>(due % 1000000000u)};
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
    }
    const std::uint64_t stamp = now_ns();
    std::memcpy(octets.get_buffer(), &stamp, sizeof stamp);
    event.remainder_of_body <<= octets;
    to->push_structured_event(event);
    round_trips.add(now_ns() - stamp);
  }
  const std::uint64_t elapsed = now_ns() - began;
  round_trips.sort();
  std::ostringstream line;
  line << "{\"events\":" << count << ",\"elapsed_ns\":" << elapsed << ",\"round_trip_p50_ns\":" << round_trips.at(500)
       << ",\"round_trip_p99_ns\":" << round_trips.at(990) << ",\"round_trip_p999_ns\":" << round_trips.at(999)
       << ",\"round_trip_max_ns\":" << round_trips.at(1000) << ",\"cpu_ns\":" << cpu_ns() - cpu_before << "}";
  say(line.str());
}

}  // namespace

int direct_consumer(const Args& args) {
  const Orb orb(args);
  Clock* clock = new Clock;
  const CORBA::Object_var self = orb.serve(clock, "clock");
  const CORBA::String_var ior = orb.get()->object_to_string(self);
  say(std::string("ior ") + ior.in());
  say("ready");
  std::string line;
  while (hear(line) && line != "quit") {
    if (line == "report") clock->report();
  }
  return 0;
}

int direct_supplier(const Args& args) {
  const Orb orb(args);
  const CORBA::Object_var object = orb.resolve(args.text("consumer", ""));
  const CosNotifyComm::StructuredPushConsumer_var to = CosNotifyComm::StructuredPushConsumer::_narrow(object);
  if (CORBA::is_nil(to)) throw Usage{"--consumer is no StructuredPushConsumer"};
  const std::uint64_t payload = args.number("payload", 128);
  if (payload < 8) throw Usage{"--payload holds a stamp of 8 octets at least"};
  CosNotification::StructuredEvent event;
  event.header.fixed_header.event_type.domain_name = "Bench";
  event.header.fixed_header.event_type.type_name = "Small";
  event.header.fixed_header.event_name = "";
  say("ready");
  if (args.has("count")) {
    run(to, event, payload, args.number("count", 0), args.number("rate", 0));
    return 0;
  }
  std::string line;
  while (hear(line) && line != "quit") {
    std::istringstream words(line);
    std::string word;
    std::uint64_t count = 0, rate = 0;
    words >> word >> count >> rate;
    if (word == "run") run(to, event, payload, count, rate);
  }
  return 0;
}

}  // namespace peer
