// `supplier`: connects to a channel, or straight to a consumer, and pushes the events of a scenario.

#include "commands.h"

#include <ctime>
#include <functional>
#include <sstream>

#include <COS/CosNotifyChannelAdmin.hh>

#include "orb.h"

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
class PlainTold : public POA_CosEventComm::PushSupplier {
  void disconnect_push_supplier() override { say("disconnected"); }
};

struct Connection {
  // Pushes event number `index` of a shape.
  std::function<void(const std::string& shape, std::uint32_t index)> push;
  std::function<void()> disconnect;
};

Connection structured(const Orb& orb, const Args& args, std::uint32_t source) {
  const auto pusher = [&orb, source](CosNotifyComm::StructuredPushConsumer_ptr to) {
    return [&orb, source,
            held = CosNotifyComm::StructuredPushConsumer_var(CosNotifyComm::StructuredPushConsumer::_duplicate(to))](
               const std::string& shape, std::uint32_t index) {
      const_cast<CosNotifyComm::StructuredPushConsumer_var&>(held)->push_structured_event(
          orb.shaper().make_event(shape, index, source));
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
  say("proxy " + std::to_string(id));
  return {pusher(proxy), [proxy]() mutable { proxy->disconnect_structured_push_consumer(); }};
}

Connection any(const Orb& orb, const Args& args, std::uint32_t source) {
  const auto pusher = [&orb, source](CosEventComm::PushConsumer_ptr to) {
    return [&orb, source, held = CosEventComm::PushConsumer_var(CosEventComm::PushConsumer::_duplicate(to))](
               const std::string& shape, std::uint32_t index) {
      const_cast<CosEventComm::PushConsumer_var&>(held)->push(orb.shaper().make(shape, index, source));
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
  Run(const Args& args, Connection connection)
      : shapes_(shapes_of(args.text("scenario", "all"))),
        next_(static_cast<std::uint32_t>(args.number("first", 0))),
        keep_going_(args.has("keep-going")),
        pace_(args.number("rate", 0)),
        connection_(std::move(connection)) {}

  // False when a push was refused and the run is not to go on.
  bool push(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      pace_.wait();
      const std::uint32_t index = next_++;
      try {
        connection_.push(shapes_[index % shapes_.size()], index);
        ++pushed_;
      } catch (const CORBA::Exception& refused) {
        say("failed " + std::to_string(index) + " " + describe(refused));
        ++failed_;
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
  std::uint64_t pushed_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace

int supplier(const Args& args) {
  const Orb orb(args);
  const std::uint32_t source = static_cast<std::uint32_t>(args.number("source", 0));
  Run run(args, args.text("form", "") == "structured" ? structured(orb, args, source) : any(orb, args, source));
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
  return all ? 0 : 1;
}

}  // namespace peer
