// `supplier`: connects to a channel, or straight to a consumer, and pushes the events of a scenario.

#include "commands.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <functional>
#include <mutex>
#include <sstream>

#include <COS/CosNotifyChannelAdmin.hh>

#include "orb.h"
#include "priorities.h"

namespace peer {

namespace {

// What the channel may tell a supplier, whatever its form.
template <typename Skeleton>
class Told : public Skeleton {
public:
  void subscription_change(const CosNotification::EventTypeSeq& added, const CosNotification::EventTypeSeq& removed) {
    std::string line = "subscription_change";
    for (CORBA::ULong i = 0; i < added.length(); ++i)
      line += std::string(" +") + added[i].domain_name.in() + ":" + added[i].type_name.in();
    for (CORBA::ULong i = 0; i < removed.length(); ++i)
      line += std::string(" -") + removed[i].domain_name.in() + ":" + removed[i].type_name.in();
    say(line);
  }
};

class StructuredTold : public Told<POA_CosNotifyComm::StructuredPushSupplier> {
  void disconnect_structured_push_supplier() override { say("disconnected"); }
};
class AnyTold : public Told<POA_CosNotifyComm::PushSupplier> {
  void disconnect_push_supplier() override { say("disconnected"); }
};
class SequenceTold : public Told<POA_CosNotifyComm::SequencePushSupplier> {
  void disconnect_sequence_push_supplier() override { say("disconnected"); }
};
class PlainTold : public POA_CosEventComm::PushSupplier {
  void disconnect_push_supplier() override { say("disconnected"); }
};

struct Connection {
  // Pushes `count` events from number `index` of the scenario on. Nothing for one that is pulled from.
  std::function<void(const std::vector<std::string>& shapes, std::uint32_t index, std::uint32_t count)> push;
  std::function<void()> disconnect;
  // Events that go in one push.
  std::uint32_t batch = 1;
};

const std::string& shape_of(const std::vector<std::string>& shapes, std::uint32_t index) {
  return shapes[index % shapes.size()];
}

CosNotification::EventBatch batch_of(const Shaper& shaper, const std::vector<std::string>& shapes, std::uint32_t index,
                                     std::uint32_t count, std::uint32_t source) {
  CosNotification::EventBatch events;
  events.length(count);
  for (std::uint32_t i = 0; i < count; ++i)
    events[i] = shaper.make_event(shape_of(shapes, index + i), index + i, source);
  return events;
}

// What one that is pulled from has to give.
class Stock {
public:
  Stock(const Args& args, const Shaper& shaper)
      : shaper_(shaper),
        shapes_(shapes_of(args.text("scenario", "all"))),
        source_(static_cast<std::uint32_t>(args.number("source", 0))),
        batch_(static_cast<std::uint32_t>(args.number("batch", 4))),
        next_(static_cast<std::uint32_t>(args.number("first", 0))),
        end_(next_) {}

  void add(std::uint64_t count) {
    const std::lock_guard<std::mutex> held(lock_);
    end_ += static_cast<std::uint32_t>(count);
    asked_in_vain_ = false;
    changed_.notify_all();
  }
  // Until it has been asked for more than there is: then whoever asked has what there was.
  void wait_until_empty() {
    std::unique_lock<std::mutex> held(lock_);
    changed_.wait(held, [this] { return asked_in_vain_ || closed_; });
  }
  void close() {
    const std::lock_guard<std::mutex> held(lock_);
    closed_ = true;
    changed_.notify_all();
  }

  CORBA::Any* any(bool wait, bool& found) {
    const auto taken = take(1, wait);
    found = taken.second != 0;
    return found ? new CORBA::Any(shaper_.make(shape_of(shapes_, taken.first), taken.first, source_)) : new CORBA::Any;
  }
  CosNotification::StructuredEvent* structured(bool wait, bool& found) {
    const auto taken = take(1, wait);
    found = taken.second != 0;
    return found ? new CosNotification::StructuredEvent(
                       shaper_.make_event(shape_of(shapes_, taken.first), taken.first, source_))
                 : new CosNotification::StructuredEvent;
  }
  CosNotification::EventBatch* sequence(CORBA::Long most, bool wait, bool& found) {
    if (most <= 0) throw CORBA::BAD_PARAM(7, CORBA::COMPLETED_NO);
    const auto taken = take(std::min(static_cast<std::uint32_t>(most), batch_), wait);
    found = taken.second != 0;
    return new CosNotification::EventBatch(batch_of(shaper_, shapes_, taken.first, taken.second, source_));
  }

private:
  // The first number and how many.
  std::pair<std::uint32_t, std::uint32_t> take(std::uint32_t most, bool wait) {
    std::unique_lock<std::mutex> held(lock_);
    if (wait && next_ == end_) {
      asked_in_vain_ = true;
      changed_.notify_all();
      changed_.wait(held, [this] { return next_ != end_ || closed_; });
    }
    if (wait && next_ == end_) throw CosEventComm::Disconnected();
    const std::uint32_t first = next_;
    const std::uint32_t count = std::min(most, end_ - next_);
    next_ += count;
    asked_in_vain_ = count == 0;
    changed_.notify_all();
    return {first, count};
  }

  const Shaper& shaper_;
  const std::vector<std::string> shapes_;
  const std::uint32_t source_;
  const std::uint32_t batch_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::uint32_t next_;
  std::uint32_t end_;
  bool asked_in_vain_ = false;
  bool closed_ = false;
};

template <typename Skeleton>
class AnyPulled : public Skeleton {
public:
  explicit AnyPulled(Stock& stock) : stock_(stock) {}
  CORBA::Any* pull() override {
    bool found = false;
    return stock_.any(true, found);
  }
  CORBA::Any* try_pull(CORBA::Boolean& has_event) override {
    bool found = false;
    CORBA::Any* const event = stock_.any(false, found);
    has_event = found;
    return event;
  }
  void disconnect_pull_supplier() override {
    say("disconnected");
    stock_.close();
  }

private:
  Stock& stock_;
};

class StructuredPulled : public Told<POA_CosNotifyComm::StructuredPullSupplier> {
public:
  explicit StructuredPulled(Stock& stock) : stock_(stock) {}
  CosNotification::StructuredEvent* pull_structured_event() override {
    bool found = false;
    return stock_.structured(true, found);
  }
  CosNotification::StructuredEvent* try_pull_structured_event(CORBA::Boolean& has_event) override {
    bool found = false;
    CosNotification::StructuredEvent* const event = stock_.structured(false, found);
    has_event = found;
    return event;
  }
  void disconnect_structured_pull_supplier() override {
    say("disconnected");
    stock_.close();
  }

private:
  Stock& stock_;
};

class SequencePulled : public Told<POA_CosNotifyComm::SequencePullSupplier> {
public:
  explicit SequencePulled(Stock& stock) : stock_(stock) {}
  CosNotification::EventBatch* pull_structured_events(CORBA::Long most) override {
    bool found = false;
    return stock_.sequence(most, true, found);
  }
  CosNotification::EventBatch* try_pull_structured_events(CORBA::Long most, CORBA::Boolean& has_event) override {
    bool found = false;
    CosNotification::EventBatch* const events = stock_.sequence(most, false, found);
    has_event = found;
    return events;
  }
  void disconnect_sequence_pull_supplier() override {
    say("disconnected");
    stock_.close();
  }

private:
  Stock& stock_;
};

// Connects one that the service pulls from.
Connection pulled(const Orb& orb, const Args& args, Stock& stock) {
  const std::string form = args.text("form", "structured");
  if (form == "cosevent") {
    const CosEventChannelAdmin::EventChannel_var channel = find_event_channel(orb, args);
    const CosEventChannelAdmin::SupplierAdmin_var admin = channel->for_suppliers();
    const CosEventChannelAdmin::ProxyPullConsumer_var proxy = admin->obtain_pull_consumer();
    const CORBA::Object_var self = orb.serve(new AnyPulled<POA_CosEventComm::PullSupplier>(stock), "supplier");
    const CosEventComm::PullSupplier_var supplier = CosEventComm::PullSupplier::_narrow(self);
    proxy->connect_pull_supplier(supplier);
    return {{}, [proxy]() mutable { proxy->disconnect_pull_consumer(); }};
  }
  const CosNotifyChannelAdmin::EventChannel_var channel = find_channel(orb, args);
  const CosNotifyChannelAdmin::SupplierAdmin_var admin = channel->default_supplier_admin();
  CosNotifyChannelAdmin::ProxyID id = 0;
  const auto kind = form == "any"        ? CosNotifyChannelAdmin::ANY_EVENT
                    : form == "sequence" ? CosNotifyChannelAdmin::SEQUENCE_EVENT
                                         : CosNotifyChannelAdmin::STRUCTURED_EVENT;
  const CosNotifyChannelAdmin::ProxyConsumer_var made = admin->obtain_notification_pull_consumer(kind, id);
  if (args.has("qos")) made->set_qos(qos_of(args, "qos"));
  say("proxy " + std::to_string(id));
  if (form == "any") {
    const CosNotifyChannelAdmin::ProxyPullConsumer_var proxy = CosNotifyChannelAdmin::ProxyPullConsumer::_narrow(made);
    const CORBA::Object_var self = orb.serve(new AnyPulled<Told<POA_CosNotifyComm::PullSupplier>>(stock), "supplier");
    const CosNotifyComm::PullSupplier_var supplier = CosNotifyComm::PullSupplier::_narrow(self);
    proxy->connect_any_pull_supplier(supplier);
    return {{}, [proxy]() mutable { proxy->disconnect_pull_consumer(); }};
  }
  if (form == "sequence") {
    const CosNotifyChannelAdmin::SequenceProxyPullConsumer_var proxy =
        CosNotifyChannelAdmin::SequenceProxyPullConsumer::_narrow(made);
    const CORBA::Object_var self = orb.serve(new SequencePulled(stock), "supplier");
    const CosNotifyComm::SequencePullSupplier_var supplier = CosNotifyComm::SequencePullSupplier::_narrow(self);
    proxy->connect_sequence_pull_supplier(supplier);
    return {{}, [proxy]() mutable { proxy->disconnect_sequence_pull_consumer(); }};
  }
  const CosNotifyChannelAdmin::StructuredProxyPullConsumer_var proxy =
      CosNotifyChannelAdmin::StructuredProxyPullConsumer::_narrow(made);
  const CORBA::Object_var self = orb.serve(new StructuredPulled(stock), "supplier");
  const CosNotifyComm::StructuredPullSupplier_var supplier = CosNotifyComm::StructuredPullSupplier::_narrow(self);
  proxy->connect_structured_pull_supplier(supplier);
  return {{}, [proxy]() mutable { proxy->disconnect_structured_pull_consumer(); }};
}

Connection sequence(const Orb& orb, const Args& args, std::uint32_t source) {
  const auto batch = static_cast<std::uint32_t>(args.number("batch", 4));
  const auto pusher = [&orb, source](CosNotifyComm::SequencePushConsumer_ptr to) {
    return [&orb, source,
            held = CosNotifyComm::SequencePushConsumer_var(CosNotifyComm::SequencePushConsumer::_duplicate(to))](
               const std::vector<std::string>& shapes, std::uint32_t index, std::uint32_t count) {
      const_cast<CosNotifyComm::SequencePushConsumer_var&>(held)->push_structured_events(
          batch_of(orb.shaper(), shapes, index, count, source));
    };
  };
  const CosNotifyChannelAdmin::EventChannel_var channel = find_channel(orb, args);
  const CosNotifyChannelAdmin::SupplierAdmin_var admin = channel->default_supplier_admin();
  CosNotifyChannelAdmin::ProxyID id = 0;
  const CosNotifyChannelAdmin::ProxyConsumer_var any_proxy =
      admin->obtain_notification_push_consumer(CosNotifyChannelAdmin::SEQUENCE_EVENT, id);
  const CosNotifyChannelAdmin::SequenceProxyPushConsumer_var proxy =
      CosNotifyChannelAdmin::SequenceProxyPushConsumer::_narrow(any_proxy);
  const CORBA::Object_var self = orb.serve(new SequenceTold, "supplier");
  const CosNotifyComm::SequencePushSupplier_var supplier = CosNotifyComm::SequencePushSupplier::_narrow(self);
  proxy->connect_sequence_push_supplier(supplier);
  say_model(proxy);
  say("proxy " + std::to_string(id));
  return {pusher(proxy), [proxy]() mutable { proxy->disconnect_sequence_push_consumer(); }, batch};
}

Connection structured(const Orb& orb, const Args& args, std::uint32_t source) {
  const auto pusher = [&orb, source](CosNotifyComm::StructuredPushConsumer_ptr to) {
    return [&orb, source,
            held = CosNotifyComm::StructuredPushConsumer_var(CosNotifyComm::StructuredPushConsumer::_duplicate(to))](
               const std::vector<std::string>& shapes, std::uint32_t index, std::uint32_t) {
      const_cast<CosNotifyComm::StructuredPushConsumer_var&>(held)->push_structured_event(
          orb.shaper().make_event(shape_of(shapes, index), index, source));
    };
  };
  if (args.has("consumer")) {
    const CORBA::Object_var object = orb.resolve(args.text("consumer", ""));
    const CosNotifyComm::StructuredPushConsumer_var to = CosNotifyComm::StructuredPushConsumer::_narrow(object);
    return {pusher(to), [to]() mutable { to->disconnect_structured_push_consumer(); }};
  }
  const CosNotifyChannelAdmin::EventChannel_var channel = find_channel(orb, args);
  const CosNotifyChannelAdmin::SupplierAdmin_var admin = channel->default_supplier_admin();
  CosNotifyChannelAdmin::ProxyID id = 0;
  const CosNotifyChannelAdmin::ProxyConsumer_var any_proxy =
      admin->obtain_notification_push_consumer(CosNotifyChannelAdmin::STRUCTURED_EVENT, id);
  const CosNotifyChannelAdmin::StructuredProxyPushConsumer_var proxy =
      CosNotifyChannelAdmin::StructuredProxyPushConsumer::_narrow(any_proxy);
  const CORBA::Object_var self = orb.serve(new StructuredTold, "supplier");
  proxy->connect_structured_push_supplier(CosNotifyComm::StructuredPushSupplier::_narrow(self));
  say_model(proxy);
  say("proxy " + std::to_string(id));
  return {pusher(proxy), [proxy]() mutable { proxy->disconnect_structured_push_consumer(); }};
}

Connection any(const Orb& orb, const Args& args, std::uint32_t source) {
  const auto pusher = [&orb, source](CosEventComm::PushConsumer_ptr to) {
    return [&orb, source, held = CosEventComm::PushConsumer_var(CosEventComm::PushConsumer::_duplicate(to))](
               const std::vector<std::string>& shapes, std::uint32_t index, std::uint32_t) {
      const_cast<CosEventComm::PushConsumer_var&>(held)->push(
          orb.shaper().make(shape_of(shapes, index), index, source));
    };
  };
  if (args.has("consumer")) {
    const CORBA::Object_var object = orb.resolve(args.text("consumer", ""));
    const CosEventComm::PushConsumer_var to = CosEventComm::PushConsumer::_narrow(object);
    return {pusher(to), [to]() mutable { to->disconnect_push_consumer(); }};
  }
  if (args.text("form", "") == "cosevent") {
    const CosEventChannelAdmin::EventChannel_var channel = find_event_channel(orb, args);
    const CosEventChannelAdmin::SupplierAdmin_var admin = channel->for_suppliers();
    const CosEventChannelAdmin::ProxyPushConsumer_var proxy = admin->obtain_push_consumer();
    const CORBA::Object_var self = orb.serve(new PlainTold, "supplier");
    proxy->connect_push_supplier(CosEventComm::PushSupplier::_narrow(self));
    return {pusher(proxy), [proxy]() mutable { proxy->disconnect_push_consumer(); }};
  }
  const CosNotifyChannelAdmin::EventChannel_var channel = find_channel(orb, args);
  const CosNotifyChannelAdmin::SupplierAdmin_var admin = channel->default_supplier_admin();
  CosNotifyChannelAdmin::ProxyID id = 0;
  const CosNotifyChannelAdmin::ProxyConsumer_var any_proxy =
      admin->obtain_notification_push_consumer(CosNotifyChannelAdmin::ANY_EVENT, id);
  const CosNotifyChannelAdmin::ProxyPushConsumer_var proxy =
      CosNotifyChannelAdmin::ProxyPushConsumer::_narrow(any_proxy);
  const CORBA::Object_var self = orb.serve(new AnyTold, "supplier");
  proxy->connect_any_push_supplier(CosNotifyComm::PushSupplier::_narrow(self));
  say_model(proxy);
  say("proxy " + std::to_string(id));
  return {pusher(proxy), [proxy]() mutable { proxy->disconnect_push_consumer(); }};
}

// Keeps events `rate` per second apart by absolute times, so that a late one does not shift the next.
class Pace {
public:
  explicit Pace(std::uint64_t rate) : step_ns_(rate == 0 ? 0 : 1000000000u / rate) {
    clock_gettime(CLOCK_MONOTONIC, &next_);
  }
  void wait() {
    if (step_ns_ == 0) return;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next_, nullptr);
    const std::uint64_t ns = static_cast<std::uint64_t>(next_.tv_nsec) + step_ns_;
    next_.tv_sec += static_cast<time_t>(ns / 1000000000u);
    next_.tv_nsec = static_cast<long>(ns % 1000000000u);
  }

private:
  std::uint64_t step_ns_;
  timespec next_{};
};

class Run {
public:
  Run(const Args& args, Connection connection, Stock& stock)
      : shapes_(shapes_of(args.text("scenario", "all"))),
        next_(static_cast<std::uint32_t>(args.number("first", 0))),
        keep_going_(args.has("keep-going")),
        pace_(args.number("rate", 0)),
        connection_(std::move(connection)),
        stock_(stock) {}

  // False when a push was refused and the run is not to go on.
  bool push(std::uint64_t count) {
    if (!connection_.push) {
      stock_.add(count);
      stock_.wait_until_empty();
      pushed_ += count;
      return true;
    }
    for (std::uint64_t left = count; left != 0;) {
      pace_.wait();
      const auto size = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, connection_.batch));
      const std::uint32_t index = next_;
      next_ += size;
      left -= size;
      try {
        prioritize(index);
        connection_.push(shapes_, index, size);
        say_echo();
        pushed_ += size;
      } catch (const CORBA::Exception& refused) {
        say("failed " + std::to_string(index) + " " + describe(refused));
        failed_ += size;
        if (!keep_going_) return false;
      }
    }
    return true;
  }
  std::uint64_t pushed() const { return pushed_; }
  std::uint64_t failed() const { return failed_; }
  void disconnect() { connection_.disconnect(); }

private:
  std::vector<std::string> shapes_;
  std::uint32_t next_;
  bool keep_going_;
  Pace pace_;
  Connection connection_;
  Stock& stock_;
  std::uint64_t pushed_ = 0;
  std::uint64_t failed_ = 0;
};

Connection connect(const Orb& orb, const Args& args, Stock& stock) {
  const auto source = static_cast<std::uint32_t>(args.number("source", 0));
  const std::string form = args.text("form", "");
  if (args.has("pull")) return pulled(orb, args, stock);
  if (form == "sequence") return sequence(orb, args, source);
  return form == "structured" ? structured(orb, args, source) : any(orb, args, source);
}

}  // namespace

int supplier(const Args& args) {
  const Orb orb(args);
  Stock stock(args, orb.shaper());
  Run run(args, connect(orb, args, stock), stock);
  say("ready");
  bool all = true;
  if (args.has("step")) {
    std::string line;
    while (all && hear(line)) {
      std::istringstream words(line);
      std::string word;
      std::uint64_t count = 0;
      words >> word >> count;
      if (word != "push") break;
      all = run.push(count);
      say("pushed " + std::to_string(run.pushed()));
    }
  } else {
    all = run.push(args.number("count", 1));
  }
  say("done " + std::to_string(run.pushed()) + " failed " + std::to_string(run.failed()));
  if (args.has("stay")) {
    // Connected to the end of input, and then gone without a word.
    std::string line;
    while (hear(line) && line != "quit") {
    }
    return all ? 0 : 1;
  }
  try {
    run.disconnect();
  } catch (const CORBA::Exception& refused) {
    // It changes nothing about the events.
    say("disconnect " + describe(refused));
  }
  if (args.has("linger")) {
    // Its object is there to be called until the end of input.
    std::string line;
    while (hear(line) && line != "quit") {
    }
  }
  return all ? 0 : 1;
}

}  // namespace peer
