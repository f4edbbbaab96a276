// What a consumer does with the events that it gets, however it gets them.

#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <COS/CosEventComm.hh>
#include <COS/CosNotification.hh>

#include "args.h"
#include "priorities.h"
#include "shapes.h"

namespace peer {

// What arrives, checked, counted and, where asked, answered badly or late.
class Inbox {
public:
  Inbox(const Args& args, const Shaper& shaper)
      : shaper_(shaper),
        shapes_(shapes_of(args.text("scenario", "all"))),
        from_structured_(args.text("from", is_structured(args) ? "structured" : "any") == "structured"),
        next_(static_cast<std::uint32_t>(args.number("first", 0))),
        count_(args.number("count", 0)),
        every_(args.number("every", 1)),
        stall_at_(args.has("stall-at") ? args.number("stall-at", 0) : UINT64_MAX),
        batch_(args.number("batch", UINT64_MAX)),
        gaps_(args.has("gaps")),
        tells_(args.has("tell")),
        refuse_(args.number("refuse", UINT64_MAX)),
        raise_(args.text("raise", "")),
        raise_at_(args.number("raise-at", 0)),
        raise_times_(args.number("raise-times", 1)) {}

  void structured(const CosNotification::StructuredEvent& event) {
    if (tells_) return tell(event);
    if (from_structured_ || !shaper_.inside.empty()) {
      arrived(shaper_.value_of(event), [&](const std::string& shape, std::uint32_t index, std::uint32_t source) {
        return shaper_.check_event(shape, index, source, event);
      });
      return;
    }
    // OMG Notification Service 1.1, 2.2.6: an Any becomes a structured event of type "%ANY" that carries it whole.
    arrived(event.remainder_of_body, [&](const std::string& shape, std::uint32_t index, std::uint32_t source) {
      const auto& header = event.header.fixed_header;
      if (std::string(header.event_type.domain_name) != "")
        return std::string("domain_name of an Any is ") + header.event_type.domain_name.in();
      if (std::string(header.event_type.type_name) != "%ANY")
        return std::string("type_name of an Any is ") + header.event_type.type_name.in();
      if (std::string(header.event_name) != "") return std::string("event_name of an Any is ") + header.event_name.in();
      if (event.header.variable_header.length() != 0 || event.filterable_data.length() != 0)
        return std::string("an Any came with properties");
      return shaper_.check(shape, index, source, event.remainder_of_body);
    });
  }

  void any(const CORBA::Any& value) {
    if (!from_structured_) {
      arrived(value, [&](const std::string& shape, std::uint32_t index, std::uint32_t source) {
        return shaper_.check(shape, index, source, value);
      });
      return;
    }
    const CosNotification::StructuredEvent* event = nullptr;
    if (!(value >>= event)) {
      arrived(value, [](const std::string&, std::uint32_t, std::uint32_t) {
        return std::string("the Any holds no StructuredEvent");
      });
      return;
    }
    arrived(event->remainder_of_body, [&](const std::string& shape, std::uint32_t index, std::uint32_t source) {
      return shaper_.check_event(shape, index, source, *event);
    });
  }

  void sequence(const CosNotification::EventBatch& events) {
    if (events.length() == 0) throw CORBA::BAD_PARAM(7, CORBA::COMPLETED_NO);
    if (events.length() > batch_) {
      const std::lock_guard<std::mutex> held(lock_);
      ++bad_;
      say("bad batch of " + std::to_string(events.length()));
    }
    for (CORBA::ULong i = 0; i < events.length(); ++i) structured(events[i]);
  }

  // Ends the wait of `wait`, with what is there.
  void stop() {
    const std::lock_guard<std::mutex> held(lock_);
    stopped_ = true;
    changed_.notify_all();
  }
  void resume() {
    const std::lock_guard<std::mutex> held(lock_);
    resumed_ = true;
    changed_.notify_all();
  }
  // Until `stop`, whatever has come.
  void wait_for_stop() {
    std::unique_lock<std::mutex> held(lock_);
    changed_.wait(held, [this] { return stopped_; });
  }
  // Until all that was asked for has come; true if it was all good.
  bool wait() {
    std::unique_lock<std::mutex> held(lock_);
    changed_.wait(held, [this] { return stopped_ || (count_ != 0 && seen_ >= count_); });
    return bad_ == 0 && (count_ == 0 || seen_ >= count_);
  }
  // Whoever pushes has said that nothing more comes.
  void disconnected() {
    say("disconnected");
    const std::lock_guard<std::mutex> held(lock_);
    disconnected_ = true;
    changed_.notify_all();
  }
  // Whether there is nothing more to wait for.
  bool is_done() {
    const std::lock_guard<std::mutex> held(lock_);
    return stopped_ || disconnected_ || (count_ != 0 && seen_ >= count_);
  }
  void wait_for_disconnection() {
    std::unique_lock<std::mutex> held(lock_);
    changed_.wait(held, [this] { return stopped_ || disconnected_; });
  }
  std::uint64_t seen() const { return seen_; }
  std::uint64_t bad() const { return bad_; }

private:
  static bool is_structured(const Args& args) {
    const std::string form = args.text("form", "any");
    return form == "structured" || form == "sequence";
  }

  template <typename Check>
  void arrived(const CORBA::Any& body, Check check) {
    std::unique_lock<std::mutex> held(lock_);
    const std::uint64_t at = seen_;
    if (at == stall_at_ && !resumed_) {
      say("stalled " + std::to_string(at));
      changed_.wait(held, [this] { return resumed_ || stopped_; });
      say("resumed");
    }
    if (!raise_.empty() && at == raise_at_ && raised_ < raise_times_) {
      ++raised_;
      say("raised " + std::to_string(at) + " " + raise_);
      refuse();
    }
    if (count_ != 0 && seen_ >= count_) return;
    std::uint32_t index = next_++;
    std::uint32_t source = 0;
    const std::string& shape = shapes_[index % shapes_.size()];
    std::string wrong;
    if (shape == "small" && shapes_.size() == 1) {
      // Several suppliers may feed this one; each counts for itself.
      std::uint32_t number = 0;
      if (identify(body, source, number)) {
        const auto found = sources_.find(source);
        const bool skipped = gaps_ && found != sources_.end() && number > found->second;
        if (found != sources_.end() && number != found->second && !skipped)
          wrong = "number " + std::to_string(number) + " of source " + std::to_string(source) + " where " +
                  std::to_string(found->second) + " was due";
        index = number;
        sources_[source] = number + 1;
      }
    }
    if (wrong.empty()) wrong = check(shape, index, source);
    ++seen_;
    if (!wrong.empty()) {
      ++bad_;
      say("bad " + std::to_string(index) + " " + wrong);
    } else if (every_ != 0 && seen_ % every_ == 0) {
      say("ok " + std::to_string(index) + (source == 0 ? "" : " source " + std::to_string(source)) + heard());
    }
    changed_.notify_all();
  }

  // Says which `small` event it is, and whether it is marked as one that may have come before.
  void tell(const CosNotification::StructuredEvent& event) {
    const std::lock_guard<std::mutex> held(lock_);
    std::uint32_t source = 0;
    std::uint32_t number = 0;
    if (!identify(event.remainder_of_body, source, number)) {
      ++bad_;
      return say("bad event: it is not a Small");
    }
    if (number == refuse_) {
      say("refused " + std::to_string(number) + " " + raise_);
      refuse();
    }
    bool marked = false;
    const auto& properties = event.header.variable_header;
    for (CORBA::ULong i = 0; i < properties.length(); ++i) {
      CORBA::Boolean value = false;
      marked |= std::string(properties[i].name) == "PossiblyRepeated" &&
                (properties[i].value >>= CORBA::Any::to_boolean(value)) && value;
    }
    ++seen_;
    say("got " + std::to_string(source) + " " + std::to_string(number) + (marked ? " marked" : " new"));
    changed_.notify_all();
  }

  void refuse() const {
    if (raise_ == "disconnected") throw CosEventComm::Disconnected();
    if (raise_ == "transient") throw CORBA::TRANSIENT(7, CORBA::COMPLETED_NO);
    if (raise_ == "no_resources") throw CORBA::NO_RESOURCES(7, CORBA::COMPLETED_NO);
    if (raise_ == "internal") throw CORBA::INTERNAL(7, CORBA::COMPLETED_MAYBE);
    if (raise_ == "bad_param") throw CORBA::BAD_PARAM(7, CORBA::COMPLETED_NO);
    if (raise_ == "unknown") throw CORBA::UNKNOWN(7, CORBA::COMPLETED_MAYBE);
    if (raise_ == "marshal") throw CORBA::MARSHAL(7, CORBA::COMPLETED_NO);
    if (raise_ == "object_not_exist") throw CORBA::OBJECT_NOT_EXIST(7, CORBA::COMPLETED_NO);
    throw std::runtime_error("an exception CORBA knows nothing of");
  }

  const Shaper& shaper_;
  const std::vector<std::string> shapes_;
  const bool from_structured_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::uint32_t next_;
  std::map<std::uint32_t, std::uint32_t> sources_;
  const std::uint64_t count_;
  const std::uint64_t every_;
  const std::uint64_t stall_at_;
  const std::uint64_t batch_;
  // Events may be missing between those that come, but never out of order.
  const bool gaps_;
  // Every event is told of as it comes, and nothing is expected of it.
  const bool tells_;
  // Of events that are told, the one that is refused whenever it comes.
  const std::uint64_t refuse_;
  const std::string raise_;
  const std::uint64_t raise_at_;
  const std::uint64_t raise_times_;
  // Only the value is looked at that is in the body, or in the data.
  std::uint64_t raised_ = 0;
  std::uint64_t seen_ = 0;
  std::uint64_t bad_ = 0;
  bool resumed_ = false;
  bool stopped_ = false;
  bool disconnected_ = false;
};

}  // namespace peer
