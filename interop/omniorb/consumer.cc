// `consumer`: connects to a channel, or waits to be pushed to directly, and checks every event that arrives.

#include "commands.h"

#include <functional>
#include <thread>

#include <COS/CosNotifyChannelAdmin.hh>

#include "inbox.h"
#include "orb.h"
#include "priorities.h"

namespace peer {

namespace {

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

class SequenceServant : public Offered<POA_CosNotifyComm::SequencePushConsumer> {
public:
  explicit SequenceServant(Inbox& inbox) : inbox_(inbox) {}
  void push_structured_events(const CosNotification::EventBatch& events) override { inbox_.sequence(events); }
  void disconnect_sequence_push_consumer() override { inbox_.disconnected(); }

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

// What a channel may tell one that pulls.
class StructuredPuller : public Offered<POA_CosNotifyComm::StructuredPullConsumer> {
public:
  explicit StructuredPuller(Inbox& inbox) : inbox_(inbox) {}
  void disconnect_structured_pull_consumer() override { inbox_.disconnected(); }

private:
  Inbox& inbox_;
};

class AnyPuller : public Offered<POA_CosNotifyComm::PullConsumer> {
public:
  explicit AnyPuller(Inbox& inbox) : inbox_(inbox) {}
  void disconnect_pull_consumer() override { inbox_.disconnected(); }

private:
  Inbox& inbox_;
};

class SequencePuller : public Offered<POA_CosNotifyComm::SequencePullConsumer> {
public:
  explicit SequencePuller(Inbox& inbox) : inbox_(inbox) {}
  void disconnect_sequence_pull_consumer() override { inbox_.disconnected(); }

private:
  Inbox& inbox_;
};

class PlainPuller : public POA_CosEventComm::PullConsumer {
public:
  explicit PlainPuller(Inbox& inbox) : inbox_(inbox) {}
  void disconnect_pull_consumer() override { inbox_.disconnected(); }

private:
  Inbox& inbox_;
};

// A filter that this program is itself: it takes every second `small` event, or never answers, or always raises.
class OwnFilter : public POA_CosNotifyFilter::Filter {
public:
  explicit OwnFilter(const std::string& mode) : mode_(mode) {}
  CORBA::Boolean match(const CORBA::Any& value) override { return takes(value); }
  CORBA::Boolean match_structured(const CosNotification::StructuredEvent& event) override {
    return takes(event.remainder_of_body);
  }
  CORBA::Boolean match_typed(const CosNotification::PropertySeq&) override { throw CORBA::NO_IMPLEMENT(); }
  char* constraint_grammar() override { return CORBA::string_dup("OWN"); }
  CosNotifyFilter::ConstraintInfoSeq* add_constraints(const CosNotifyFilter::ConstraintExpSeq&) override {
    throw CORBA::NO_IMPLEMENT();
  }
  void modify_constraints(const CosNotifyFilter::ConstraintIDSeq&, const CosNotifyFilter::ConstraintInfoSeq&) override {
    throw CORBA::NO_IMPLEMENT();
  }
  CosNotifyFilter::ConstraintInfoSeq* get_constraints(const CosNotifyFilter::ConstraintIDSeq&) override {
    throw CORBA::NO_IMPLEMENT();
  }
  CosNotifyFilter::ConstraintInfoSeq* get_all_constraints() override { throw CORBA::NO_IMPLEMENT(); }
  void remove_all_constraints() override { throw CORBA::NO_IMPLEMENT(); }
  void destroy() override {}
  CosNotifyFilter::CallbackID attach_callback(CosNotifyComm::NotifySubscribe_ptr) override {
    throw CORBA::NO_IMPLEMENT();
  }
  void detach_callback(CosNotifyFilter::CallbackID) override { throw CORBA::NO_IMPLEMENT(); }
  CosNotifyFilter::CallbackIDSeq* get_callbacks() override { throw CORBA::NO_IMPLEMENT(); }

private:
  bool takes(const CORBA::Any& value) {
    say("asked");
    if (mode_ == "raise") throw CORBA::INTERNAL(7, CORBA::COMPLETED_MAYBE);
    if (mode_ == "hang") {
      std::unique_lock<std::mutex> held(lock_);
      never_.wait(held, [] { return false; });
    }
    std::uint32_t source = 0;
    std::uint32_t number = 0;
    return identify(value, source, number) && number % 2 == 0;
  }

  const std::string mode_;
  std::mutex lock_;
  std::condition_variable never_;
};

// `--where CONSTRAINT` (several: any of them) and `--own-filter even|hang|raise`.
void add_filters(const Orb& orb, const Args& args, CosNotifyChannelAdmin::EventChannel_ptr channel,
                 CosNotifyFilter::FilterAdmin_ptr to) {
  if (args.has("where")) {
    const CosNotifyFilter::FilterFactory_var factory = channel->default_filter_factory();
    const CosNotifyFilter::Filter_var filter = factory->create_filter("EXTENDED_TCL");
    CosNotifyFilter::ConstraintExpSeq constraints;
    for (const std::string& text : args.all("where")) {
      constraints.length(constraints.length() + 1);
      constraints[constraints.length() - 1].constraint_expr = text.c_str();
    }
    const CosNotifyFilter::ConstraintInfoSeq_var added = filter->add_constraints(constraints);
    to->add_filter(filter);
  }
  if (args.has("own-filter")) {
    const CORBA::Object_var object = orb.serve(new OwnFilter(args.text("own-filter", "even")), "filter");
    const CosNotifyFilter::Filter_var filter = CosNotifyFilter::Filter::_narrow(object);
    to->add_filter(filter);
  }
}

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
void prepare(const Orb& orb, const Proxy& proxy, const Args& args, CosNotifyChannelAdmin::ProxyID id) {
  const CosNotifyChannelAdmin::ConsumerAdmin_var admin = proxy->MyAdmin();
  const CosNotifyChannelAdmin::EventChannel_var channel = admin->MyChannel();
  if (args.text("filter-at", "proxy") == "admin")
    add_filters(orb, args, channel, admin);
  else
    add_filters(orb, args, channel, proxy);
  if (args.has("qos")) proxy->set_qos(qos_of(args, "qos"));
  if (args.has("add") || args.has("remove"))
    proxy->subscription_change(types_of(args, "add"), types_of(args, "remove"));
  say_model(proxy);
  say("proxy " + std::to_string(id));
}

// A connection: how it is ended and, of one that pulls, how it gets what is next. `wait` says whether it waits for that;
// false comes back when there was nothing.
struct Connection {
  std::function<void()> disconnect;
  std::function<bool(bool wait)> pull;
};

PortableServer::ServantBase* servant_for(const std::string& form, bool pulls, Inbox& inbox) {
  if (form == "structured") {
    if (pulls) return new StructuredPuller(inbox);
    return new StructuredServant(inbox);
  }
  if (form == "sequence") {
    if (pulls) return new SequencePuller(inbox);
    return new SequenceServant(inbox);
  }
  if (form == "any") {
    if (pulls) return new AnyPuller(inbox);
    return new AnyServant(inbox);
  }
  if (pulls) return new PlainPuller(inbox);
  return new PlainServant(inbox);
}

// Pulls Anys, of the Event Service or of the Notification Service.
std::function<bool(bool)> any_puller(CosEventComm::PullSupplier_ptr from, Inbox& inbox) {
  return [held = CosEventComm::PullSupplier_var(CosEventComm::PullSupplier::_duplicate(from)),
          &inbox](bool wait) mutable {
    CORBA::Boolean has_event = true;
    const CORBA::Any_var value = wait ? held->pull() : held->try_pull(has_event);
    if (has_event) inbox.any(value.in());
    return static_cast<bool>(has_event);
  };
}

Connection connect_plain(const Orb& orb, const Args& args, CORBA::Object_ptr self, Inbox& inbox) {
  const CosEventChannelAdmin::EventChannel_var channel = find_event_channel(orb, args);
  const CosEventChannelAdmin::ConsumerAdmin_var admin = channel->for_consumers();
  if (args.has("pull")) {
    const CosEventChannelAdmin::ProxyPullSupplier_var proxy = admin->obtain_pull_supplier();
    const CosEventComm::PullConsumer_var consumer = CosEventComm::PullConsumer::_narrow(self);
    proxy->connect_pull_consumer(consumer);
    return {[proxy]() mutable { proxy->disconnect_pull_supplier(); }, any_puller(proxy, inbox)};
  }
  const CosEventChannelAdmin::ProxyPushSupplier_var proxy = admin->obtain_push_supplier();
  const CosEventComm::PushConsumer_var consumer = CosEventComm::PushConsumer::_narrow(self);
  proxy->connect_push_consumer(consumer);
  return {[proxy]() mutable { proxy->disconnect_push_supplier(); }, {}};
}

Connection connect_push(const Orb& orb, CosNotifyChannelAdmin::ConsumerAdmin_ptr admin, const Args& args,
                        CORBA::Object_ptr self) {
  const std::string form = args.text("form", "structured");
  CosNotifyChannelAdmin::ProxyID id = 0;
  if (form == "any") {
    const CosNotifyChannelAdmin::ProxySupplier_var made =
        admin->obtain_notification_push_supplier(CosNotifyChannelAdmin::ANY_EVENT, id);
    const CosNotifyChannelAdmin::ProxyPushSupplier_var proxy = CosNotifyChannelAdmin::ProxyPushSupplier::_narrow(made);
    prepare(orb, proxy, args, id);
    const CosNotifyComm::PushConsumer_var consumer = CosNotifyComm::PushConsumer::_narrow(self);
    proxy->connect_any_push_consumer(consumer);
    return {[proxy]() mutable { proxy->disconnect_push_supplier(); }, {}};
  }
  if (form == "sequence") {
    const CosNotifyChannelAdmin::ProxySupplier_var made =
        admin->obtain_notification_push_supplier(CosNotifyChannelAdmin::SEQUENCE_EVENT, id);
    const CosNotifyChannelAdmin::SequenceProxyPushSupplier_var proxy =
        CosNotifyChannelAdmin::SequenceProxyPushSupplier::_narrow(made);
    prepare(orb, proxy, args, id);
    const CosNotifyComm::SequencePushConsumer_var consumer = CosNotifyComm::SequencePushConsumer::_narrow(self);
    proxy->connect_sequence_push_consumer(consumer);
    return {[proxy]() mutable { proxy->disconnect_sequence_push_supplier(); }, {}};
  }
  const CosNotifyChannelAdmin::ProxySupplier_var made =
      admin->obtain_notification_push_supplier(CosNotifyChannelAdmin::STRUCTURED_EVENT, id);
  const CosNotifyChannelAdmin::StructuredProxyPushSupplier_var proxy =
      CosNotifyChannelAdmin::StructuredProxyPushSupplier::_narrow(made);
  prepare(orb, proxy, args, id);
  const CosNotifyComm::StructuredPushConsumer_var consumer = CosNotifyComm::StructuredPushConsumer::_narrow(self);
  proxy->connect_structured_push_consumer(consumer);
  return {[proxy]() mutable { proxy->disconnect_structured_push_supplier(); }, {}};
}

Connection connect_pull(const Orb& orb, CosNotifyChannelAdmin::ConsumerAdmin_ptr admin, const Args& args,
                        CORBA::Object_ptr self, Inbox& inbox) {
  const std::string form = args.text("form", "structured");
  CosNotifyChannelAdmin::ProxyID id = 0;
  if (form == "any") {
    const CosNotifyChannelAdmin::ProxySupplier_var made =
        admin->obtain_notification_pull_supplier(CosNotifyChannelAdmin::ANY_EVENT, id);
    const CosNotifyChannelAdmin::ProxyPullSupplier_var proxy = CosNotifyChannelAdmin::ProxyPullSupplier::_narrow(made);
    prepare(orb, proxy, args, id);
    const CosNotifyComm::PullConsumer_var consumer = CosNotifyComm::PullConsumer::_narrow(self);
    proxy->connect_any_pull_consumer(consumer);
    return {[proxy]() mutable { proxy->disconnect_pull_supplier(); }, any_puller(proxy, inbox)};
  }
  if (form == "sequence") {
    const CosNotifyChannelAdmin::ProxySupplier_var made =
        admin->obtain_notification_pull_supplier(CosNotifyChannelAdmin::SEQUENCE_EVENT, id);
    const CosNotifyChannelAdmin::SequenceProxyPullSupplier_var proxy =
        CosNotifyChannelAdmin::SequenceProxyPullSupplier::_narrow(made);
    prepare(orb, proxy, args, id);
    const CosNotifyComm::SequencePullConsumer_var consumer = CosNotifyComm::SequencePullConsumer::_narrow(self);
    proxy->connect_sequence_pull_consumer(consumer);
    const auto most = static_cast<CORBA::Long>(args.number("batch", 4));
    return {[proxy]() mutable { proxy->disconnect_sequence_pull_supplier(); }, [proxy, most, &inbox](bool wait) mutable {
              CORBA::Boolean has_event = true;
              const CosNotification::EventBatch_var events =
                  wait ? proxy->pull_structured_events(most) : proxy->try_pull_structured_events(most, has_event);
              if (has_event) inbox.sequence(events.in());
              return static_cast<bool>(has_event);
            }};
  }
  const CosNotifyChannelAdmin::ProxySupplier_var made =
      admin->obtain_notification_pull_supplier(CosNotifyChannelAdmin::STRUCTURED_EVENT, id);
  const CosNotifyChannelAdmin::StructuredProxyPullSupplier_var proxy =
      CosNotifyChannelAdmin::StructuredProxyPullSupplier::_narrow(made);
  prepare(orb, proxy, args, id);
  const CosNotifyComm::StructuredPullConsumer_var consumer = CosNotifyComm::StructuredPullConsumer::_narrow(self);
  proxy->connect_structured_pull_consumer(consumer);
  return {[proxy]() mutable { proxy->disconnect_structured_pull_supplier(); }, [proxy, &inbox](bool wait) mutable {
            CORBA::Boolean has_event = true;
            const CosNotification::StructuredEvent_var event =
                wait ? proxy->pull_structured_event() : proxy->try_pull_structured_event(has_event);
            if (has_event) inbox.structured(event.in());
            return static_cast<bool>(has_event);
          }};
}

Connection connect(const Orb& orb, const Args& args, Inbox& inbox) {
  const std::string form = args.text("form", "structured");
  const CORBA::Object_var self = orb.serve(servant_for(form, args.has("pull"), inbox), args.text("name", "consumer"));
  if (args.has("direct")) {
    const CORBA::String_var ior = orb.get()->object_to_string(self);
    say(std::string("ior ") + ior.in());
    // The supplier disconnects when it is done; ending earlier would cut off the reply to its last push.
    return {[&inbox] { inbox.wait_for_disconnection(); }, {}};
  }
  if (form == "cosevent") return connect_plain(orb, args, self, inbox);
  const CosNotifyChannelAdmin::EventChannel_var channel = find_channel(orb, args);
  const CosNotifyChannelAdmin::ConsumerAdmin_var admin = admin_of(channel, args);
  return args.has("pull") ? connect_pull(orb, admin, args, self, inbox) : connect_push(orb, admin, args, self);
}

// Pulls until all that is to come has come. One that only tries gives way to others in between.
void pull_all(const std::function<bool(bool)>& pull, bool tries, Inbox& inbox) {
  try {
    while (!inbox.is_done()) {
      if (!pull(!tries)) std::this_thread::yield();
    }
  } catch (const CORBA::Exception& refused) {
    say("pull " + describe(refused));
    inbox.stop();
  }
}

}  // namespace

int consumer(const Args& args) {
  const Orb orb(args);
  Inbox inbox(args, orb.shaper());
  const Connection connection = connect(orb, args, inbox);
  say("ready");
  if (connection.pull) {
    std::thread([&connection, &inbox, tries = args.has("try")] { pull_all(connection.pull, tries, inbox); }).detach();
  }
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
    if (!args.has("stay")) connection.disconnect();
  } catch (const CORBA::Exception& refused) {
    say("disconnect " + describe(refused));
  }
  // Its object is there to be called until the end of input.
  if (args.has("linger")) inbox.wait_for_stop();
  // Lets a reply that is still on its way out go first.
  orb.get()->shutdown(true);
  std::_Exit(good ? 0 : 1);  // the thread that listens would outlive `inbox`
}

}  // namespace peer
