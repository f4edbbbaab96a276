// A foreign publisher or subscriber of the benchmarks: what it has in common with those of `bench end-process`.
//
// The harness talks to both in the same lines of JSON, an order in, an answer out (lab/src/performance/ends.rs): what comes is
// written by our own program, so it is searched for names and not parsed.

#pragma once

#include <sys/prctl.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace ends {

// An order or an argument that makes no sense.
struct Usage {
  std::string what;
};

inline std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
}

inline void sleep_until(std::uint64_t due) {
  const timespec until{static_cast<time_t>(due / 1000000000u), static_cast<long>(due % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

// Processor time of this process.
inline std::uint64_t cpu_ns() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<std::uint64_t>(used.tv_sec) * 1000000000u + static_cast<std::uint64_t>(used.tv_nsec);
}

// At the beginning of every payload, in the machine's byte order; `Stamp` in crates/load/src/wire.rs.
struct Stamp {
  std::uint64_t sent;
  std::uint64_t due;
  std::uint64_t number;
  std::uint32_t run;
  std::uint32_t phase;
};
static_assert(sizeof(Stamp) == 32);
constexpr std::uint32_t measured = 2;

inline void answer(const std::string& text) { (std::cout << "answer: " + text + '\n').flush(); }

// One line from the harness.
class Order {
public:
  // Waits for the next one; false at the end.
  bool hear() { return static_cast<bool>(std::getline(std::cin, line_)); }
  bool is(const char* name) const { return line_.rfind("{\"" + std::string(name) + "\":", 0) == 0; }
  bool has(const char* name) const { return line_.find('"' + std::string(name) + "\":") != std::string::npos; }
  bool flag(const char* name) const { return line_.compare(after(name), 4, "true") == 0; }
  std::uint64_t number(const char* name) const { return std::strtoull(line_.c_str() + after(name), nullptr, 10); }
  std::string text(const char* name) const {
    const std::size_t from = after(name) + 1;
    return line_.substr(from, line_.find('"', from) - from);
  }
  // Octets, written as a list of numbers.
  std::string octets(const char* name) const {
    std::size_t at = after(name);
    return list(at);
  }
  // A list of such lists.
  std::vector<std::string> lists(const char* name) const {
    std::vector<std::string> all;
    std::size_t at = after(name) + 1;
    while (line_[at] == '[' || line_[at] == ',') {
      if (line_[at] == ',') ++at;
      all.push_back(list(at));
    }
    return all;
  }
  [[noreturn]] void refuse() const { throw Usage{"an order that is not understood: " + line_}; }

private:
  std::size_t after(const char* name) const {
    const std::string quoted = '"' + std::string(name) + "\":";
    const std::size_t at = line_.find(quoted);
    if (at == std::string::npos) refuse();
    return at + quoted.size();
  }
  std::string list(std::size_t& at) const {
    std::string octets;
    if (line_[at] != '[') refuse();
    while (line_[at++] != ']') {
      if (line_[at] == ']') continue;
      char* end = nullptr;
      octets.push_back(static_cast<char>(std::strtoul(line_.c_str() + at, &end, 10)));
      at = static_cast<std::size_t>(end - line_.c_str());
      if (line_[at] != ',' && line_[at] != ']') refuse();
    }
    return octets;
  }

  std::string line_;
};

// Latencies, told apart to 1 in 1024 as the harness's own histograms tell them apart to 1 in 1000.
class Histogram {
public:
  void add(std::uint64_t ns) { ++counts_[index(ns)]; }
  void clear() { std::fill(counts_.begin(), counts_.end(), 0); }
  std::string json() const {
    std::ostringstream out;
    const char* comma = "";
    out << '[';
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      out << comma << '[' << value(i) << ',' << counts_[i] << ']';
      comma = ",";
    }
    out << ']';
    return out.str();
  }

private:
  static constexpr unsigned bits = 10;
  static constexpr unsigned longest = 40;  // 2^40 ns are 18 minutes.

  static std::size_t index(std::uint64_t ns) {
    ns = std::min(ns, (std::uint64_t{1} << longest) - 1);
    if (ns < 1u << bits) return ns;
    const unsigned shift = 63 - static_cast<unsigned>(__builtin_clzll(ns)) - bits;
    return ((shift + 1) << bits) + ((ns >> shift) - (1u << bits));
  }
  static std::uint64_t value(std::size_t index) {
    if (index < 1u << bits) return index;
    const unsigned shift = static_cast<unsigned>(index >> bits) - 1;
    // The middle of what falls into it.
    return ((std::uint64_t{index & ((1u << bits) - 1)} + (1u << bits)) << shift) + ((std::uint64_t{1} << shift) >> 1);
  }

  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>((longest - bits + 1) << bits);
};

// What one consumer received, by the numbers of the events; `Ledger` in crates/load/src/loss.rs.
class Ledger {
public:
  void enter(std::uint64_t number) {
    if (number >= next_) {
      for (; next_ < number; ++next_) missing_.insert(next_);
      next_ = number + 1;
    } else if (missing_.erase(number) == 1) {
      ++out_of_order;
    } else {
      ++repeated;
    }
  }
  std::uint64_t received() const { return next_ - missing_.size(); }

  std::uint64_t repeated = 0;
  std::uint64_t out_of_order = 0;

private:
  std::uint64_t next_ = 0;
  std::set<std::uint64_t> missing_;
};

// What comes to the consumers of this process. Events are entered by the ORB's or the middleware's threads, orders are obeyed on
// the main one.
class Recorder {
public:
  explicit Recorder(std::size_t consumers) : consumers_(consumers), ledgers_(consumers) {}

  // An event has come to a consumer.
  void enter(std::size_t consumer, const Stamp& stamp, std::uint64_t now) {
    const std::lock_guard<std::mutex> held(lock_);
    if (stamp.run != run_) return;
    ++deliveries_;
    ended_ = now;
    ledgers_[consumer].enter(stamp.number);
    if (now >= from_ && now < until_) ++in_window_;
    if (stamp.due >= from_ && stamp.due < until_) {
      since_due_.add(now > stamp.due ? now - stamp.due : 0);
      since_sent_.add(now > stamp.sent ? now - stamp.sent : 0);
      if (late_ > 0 && now > stamp.due + late_ && late_events_.size() < late_max) late_events_.push_back({stamp.number, stamp.due, now});
      if (spans_) {
        Span& span = seen_[stamp.number];
        if (span.count++ == 0) span = {stamp.due, now, now, 1};
        span.last = now;
      }
    }
  }

  // Obeys `Record` and `Collect` until there are no more orders.
  void obey() {
    Order order;
    while (order.hear()) {
      if (order.is("Record")) {
        record(order);
        answer("\"Ready\"");
      } else if (order.is("Collect")) {
        collect(order.number("events"), order.number("quiet"));
      } else {
        order.refuse();
      }
    }
  }

private:
  struct Span {
    std::uint64_t due = 0, first = 0, last = 0, count = 0;
  };
  // Late events that are written down; more are only counted by the histogram.
  static constexpr std::size_t late_max = 100000;
  struct Late {
    std::uint64_t number, due, came;
  };

  void record(const Order& order) {
    const std::lock_guard<std::mutex> held(lock_);
    run_ = static_cast<std::uint32_t>(order.number("run"));
    from_ = order.number("from");
    until_ = order.number("until");
    spans_ = order.flag("spans");
    late_ = order.number("late");
    deliveries_ = in_window_ = 0;
    ended_ = now_ns();
    ledgers_.assign(consumers_, Ledger());
    since_due_.clear();
    since_sent_.clear();
    late_events_.clear();
    seen_.clear();
    cpu_before_ = cpu_ns();
  }

  // Waits until each consumer has so many events, or nothing has come for so long.
  void collect(std::uint64_t events, std::uint64_t quiet) {
    std::uint64_t quiet_since = now_ns();
    for (;;) {
      {
        const std::lock_guard<std::mutex> held(lock_);
        quiet_since = std::max(quiet_since, ended_);
        if (deliveries_ >= events * consumers_ || now_ns() >= quiet_since + quiet) return tell(events);
      }
      sleep_until(now_ns() + 1000000);
    }
  }

  void tell(std::uint64_t events) const {
    std::uint64_t received = 0, lost = 0, repeated = 0, out_of_order = 0;
    for (const Ledger& ledger : ledgers_) {
      received += ledger.received();
      lost += events - std::min(events, ledger.received());
      repeated += ledger.repeated;
      out_of_order += ledger.out_of_order;
    }
    std::ostringstream out;
    out << "{\"Received\":{\"deliveries\":" << deliveries_ << ",\"in_window\":" << in_window_ << ",\"ended\":" << ended_
        << ",\"losses\":{\"sent\":" << events * consumers_ << ",\"received\":" << received << ",\"lost\":" << lost
        << ",\"repeated\":" << repeated << ",\"out_of_order\":" << out_of_order << "},\"since_due\":" << since_due_.json()
        << ",\"since_sent\":" << since_sent_.json() << ",\"spans\":[";
    const char* comma = "";
    for (const auto& [number, span] : seen_) {
      out << comma << '[' << number << ',' << span.due << ',' << span.first << ',' << span.last << ',' << span.count << ']';
      comma = ",";
    }
    out << "],\"late\":[";
    comma = "";
    for (const Late& one : late_events_) {
      out << comma << '[' << one.number << ',' << one.due << ',' << one.came << ']';
      comma = ",";
    }
    out << "],\"cpu\":" << cpu_ns() - cpu_before_ << "}}";
    answer(out.str());
  }

  std::mutex lock_;
  const std::size_t consumers_;
  std::vector<Ledger> ledgers_;
  std::uint32_t run_ = UINT32_MAX;
  std::uint64_t from_ = 0, until_ = 0, late_ = 0;
  bool spans_ = false;
  std::uint64_t deliveries_ = 0, in_window_ = 0, ended_ = 0, cpu_before_ = 0;
  Histogram since_due_, since_sent_;
  std::map<std::uint64_t, Span> seen_;
  std::vector<Late> late_events_;
};

// Obeys `Send` until there are no more orders. `push(stamp)` sends an event; `idle()` is called before the publisher sleeps, and
// at the end of a run, when all that was pushed has to leave.
template <class Push, class Idle>
void obey_send(const Push& push, const Idle& idle) {
  prctl(PR_SET_TIMERSLACK, 1);  // by default, sleeps end up to 50 µs late
  Order order;
  while (order.hear()) {
    if (!order.is("Send")) order.refuse();
    const std::uint64_t from = order.number("from"), until = order.number("until"), period = order.number("period");
    const auto run = static_cast<std::uint32_t>(order.number("number"));
    const std::uint64_t cpu_before = cpu_ns();
    std::uint64_t events = 0, late = 0;
    sleep_until(from);
    const std::uint64_t began = now_ns();
    for (std::uint64_t now = began;; now = now_ns()) {
      const std::uint64_t due = period == 0 ? now : from + events * period;
      if (due >= until) break;
      if (now < due) {
        idle();
        sleep_until(due);
        now = now_ns();
      } else if (period != 0 && now - due > period) {
        ++late;
      }
      push(Stamp{now, due, events, run, measured});
      ++events;
    }
    idle();
    std::ostringstream out;
    out << "{\"Sent\":{\"events\":" << events << ",\"began\":" << began << ",\"ended\":" << now_ns() << ",\"late\":" << late
        << ",\"cpu\":" << cpu_ns() - cpu_before << "}}";
    answer(out.str());
  }
}

// Runs an end: waits for the order that says which, and says on standard error why it ends early.
template <class Publish, class Subscribe>
int run(const Publish& publish, const Subscribe& subscribe) {
  try {
    answer("started");
    Order order;
    if (!order.hear()) return 0;
    if (order.is("Publish")) {
      publish(order);
    } else if (order.is("Subscribe")) {
      subscribe(order);
    } else {
      order.refuse();
    }
    return 0;
  } catch (const Usage& usage) {
    std::cerr << usage.what << std::endl;
    return 2;
  }
}

// Not all zero, so that a middleware that fills or skips octets would be found out.
inline std::vector<std::uint8_t> payload(std::uint64_t octets) {
  std::vector<std::uint8_t> bytes(std::max<std::uint64_t>(octets, sizeof(Stamp)));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return bytes;
}

}  // namespace ends
