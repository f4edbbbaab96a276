// `consumer`: connects to a channel, or waits to be pushed to directly, and checks every event that arrives.

#include "commands.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include <COS/CosNotifyChannelAdmin.hh>

#include "orb.h"

namespace peer {

namespace {

// What arrives, checked, counted and, where asked, answered badly or late.
class Inbox {
public:
  Inbox(const Args& args, const Shaper& shaper)
      : shaper_(shaper),
        shapes_(shapes_of(args.text("scenario", "all"))),
        from_structured_(args.text("from", args.text("form", "any") == "structured" ? "structured" : "any") ==
                         "structured"),
        next_(static_cast<std::uint32_t>(args.number("first", 0))),
        count_(args.number("count", 0)),
        every_(args.number("every", 1)),
        stall_at_(args.has("stall-at") ? args.number("stall-at", 0) : UINT64_MAX),
        gaps_(args.has("gaps")),
        raise_(args.text("raise", "")),
        raise_at_(args.number("raise-at", 0)),
        raise_times_(args.number("raise-times", 1)) {}

  void structured(const CosNotification::StructuredEvent& event) {
    if (from_structured_) {
      arrived(event.remainder_of_body, [&](const std::string& shape, std::uint32_t index, std::uint32_t source) {
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
  void wait_for_disconnection() {
    std::unique_lock<std::mutex> held(lock_);
    changed_.wait(held, [this] { return stopped_ || disconnected_; });
  }
  std::uint64_t seen() const { return seen_; }
  std::uint64_t bad() const { return bad_; }

private:
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
      say("ok " + std::to_string(index) + (source == 0 ? "" : " source " + std::to_string(source)));
    }
    changed_.notify_all();
  }

  void refuse() const {
    if (raise_ == "disconnected") throw CosEventComm::Disconnected();
    if (raise_ == "transient") throw CORBA::TRANSIENT(7, CORBA::COMPLETED_NO);
    if (raise_ == "no_resources") throw CORBA::NO_RESOURCES(7, CORBA::COMPLETED_NO);
    if (raise_ == "internal") throw CORBA::INTERNAL(7, CORBA::COMPLETED_MAYBE);
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
  // Events may be missing between those that come, but never out of order.
  const bool gaps_;
  const std::string raise_;
  const std::uint64_t raise_at_;
  const std::uint64_t raise_times_;
  std::uint64_t raised_ = 0;
  std::uint64_t seen_ = 0;
  std::uint64_t bad_ = 0;
  bool resumed_ = false;
  bool stopped_ = false;
  bool disconnected_ = false;
};

template <typename Skeleton>
class Offered : public Skeleton {
public:
  void offer_change(const CosNotification::EventTypeSeq& added, const CosNotification::EventTypeSeq& removed) {
    std::string line = "offer_change";
    for (CORBA::ULong i = 0; i < added.length(); ++i)
      line += std::string(" +") + added[i].domain_name.in() + ":" + added[i].type_name.in();
    for (CORBA::ULong i = 0; i < removed.length(); ++i)
      line += std::string(" -") + removed[i].domain_name.in() + ":" + removed[i].type_name.in();
    say(line);
  }
};

class StructuredServant : public Offered<POA_CosNotifyComm::StructuredPushConsumer> {
public:
  explicit StructuredServant(Inbox& inbox) : inbox_(inbox) {}
  void push_structured_event(const CosNotification::StructuredEvent& event) override { inbox_.structured(event); }
  void disconnect_structured_push_consumer() override { inbox_.disconnected(); }

private:
  Inbox& inbox_;
};

class AnyServant : public Offered<POA_CosNotifyComm::PushConsumer> {
public:
  explicit AnyServant(Inbox& inbox) : inbox_(inbox) {}
  void push(const CORBA::Any& value) override { inbox_.any(value); }
  void disconnect_push_consumer() override { inbox_.disconnected(); }

private:
  Inbox& inbox_;
};

class PlainServant : public POA_CosEventComm::PushConsumer {
public:
  explicit PlainServant(Inbox& inbox) : inbox_(inbox) {}
  void push(const CORBA::Any& value) override { inbox_.any(value); }
  void disconnect_push_consumer() override { inbox_.disconnected(); }

private:
  Inbox& inbox_;
};

CosNotifyChannelAdmin::ConsumerAdmin_ptr admin_of(CosNotifyChannelAdmin::EventChannel_ptr channel, const Args& args) {
  const std::string which = args.text("admin", "default");
  if (which == "default") return channel->default_consumer_admin();
  CosNotifyChannelAdmin::AdminID id = 0;
  const auto made =
      channel->new_for_consumers(which == "or" ? CosNotifyChannelAdmin::OR_OP : CosNotifyChannelAdmin::AND_OP, id);
  say("admin " + std::to_string(id));
  return made;
}

// Sets what the options say on the proxy, then connects, so that the first event already finds it so.
template <typename Proxy>
void prepare(const Proxy& proxy, const Args& args, CosNotifyChannelAdmin::ProxyID id) {
  if (args.has("qos")) proxy->set_qos(qos_of(args, "qos"));
  if (args.has("add") || args.has("remove"))
    proxy->subscription_change(types_of(args, "add"), types_of(args, "remove"));
  say("proxy " + std::to_string(id));
}

std::function<void()> connect(const Orb& orb, const Args& args, Inbox& inbox) {
  const std::string form = args.text("form", "structured");
  PortableServer::ServantBase* servant =
      form == "structured" ? static_cast<PortableServer::ServantBase*>(new StructuredServant(inbox))
      : form == "any"      ? static_cast<PortableServer::ServantBase*>(new AnyServant(inbox))
                           : new PlainServant(inbox);
  const CORBA::Object_var self = orb.serve(servant, args.text("name", "consumer"));
  if (args.has("direct")) {
    const CORBA::String_var ior = orb.get()->object_to_string(self);
    say(std::string("ior ") + ior.in());
    // The supplier disconnects when it is done; ending earlier would cut off the reply to its last push.
    return [&inbox] { inbox.wait_for_disconnection(); };
  }
  if (form == "cosevent") {
    const CosEventChannelAdmin::EventChannel_var channel = find_event_channel(orb, args);
    const CosEventChannelAdmin::ConsumerAdmin_var admin = channel->for_consumers();
    const CosEventChannelAdmin::ProxyPushSupplier_var proxy = admin->obtain_push_supplier();
    proxy->connect_push_consumer(CosEventComm::PushConsumer::_narrow(self));
    return [proxy]() mutable { proxy->disconnect_push_supplier(); };
  }
  const CosNotifyChannelAdmin::EventChannel_var channel = find_channel(orb, args);
  const CosNotifyChannelAdmin::ConsumerAdmin_var admin = admin_of(channel, args);
  CosNotifyChannelAdmin::ProxyID id = 0;
  if (form == "any") {
    const CosNotifyChannelAdmin::ProxySupplier_var made =
        admin->obtain_notification_push_supplier(CosNotifyChannelAdmin::ANY_EVENT, id);
    const CosNotifyChannelAdmin::ProxyPushSupplier_var proxy = CosNotifyChannelAdmin::ProxyPushSupplier::_narrow(made);
    prepare(proxy, args, id);
    proxy->connect_any_push_consumer(CosNotifyComm::PushConsumer::_narrow(self));
    return [proxy]() mutable { proxy->disconnect_push_supplier(); };
  }
  const CosNotifyChannelAdmin::ProxySupplier_var made =
      admin->obtain_notification_push_supplier(CosNotifyChannelAdmin::STRUCTURED_EVENT, id);
  const CosNotifyChannelAdmin::StructuredProxyPushSupplier_var proxy =
      CosNotifyChannelAdmin::StructuredProxyPushSupplier::_narrow(made);
  prepare(proxy, args, id);
  proxy->connect_structured_push_consumer(CosNotifyComm::StructuredPushConsumer::_narrow(self));
  return [proxy]() mutable { proxy->disconnect_structured_push_supplier(); };
}

}  // namespace

int consumer(const Args& args) {
  const Orb orb(args);
  Inbox inbox(args, orb.shaper());
  const std::function<void()> disconnect = connect(orb, args, inbox);
  say("ready");
  // Detached: it may still be waiting for a line when the last event has come.
  std::thread([&inbox] {
    std::string line;
    while (hear(line) && line != "quit") {
      if (line == "resume") inbox.resume();
    }
    inbox.stop();
  }).detach();
  const bool good = inbox.wait();
  say("done " + std::to_string(inbox.seen()) + " bad " + std::to_string(inbox.bad()));
  try {
    if (!args.has("stay")) disconnect();
  } catch (const CORBA::Exception& refused) {
    say("disconnect " + describe(refused));
  }
  // Lets a reply that is still on its way out go first.
  orb.get()->shutdown(true);
  std::_Exit(good ? 0 : 1);  // the thread that listens would outlive `inbox`
}

}  // namespace peer
