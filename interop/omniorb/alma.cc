// `alma`: a client that does what those of ALMA Common Software do: creates or shares a channel by its name, has named proxies, an
// unconnected proxy that marks its admin as shared, a reconnection callback, and reads statistics.

#include "commands.h"

#include <mutex>
#include <string>
#include <vector>

#include <omniORB4/Naming.hh>

#include "alma.hh"
#include "orb.h"

namespace peer {

namespace {

namespace CNA = CosNotifyChannelAdmin;
namespace CN = CosNotification;
namespace NME = NotifyMonitoringExt;

CosNaming::Name name_of(const std::string& channel) {
  CosNaming::Name name;
  name.length(1);
  name[0].id = (channel + "@DEFAULTDOMAIN").c_str();
  name[0].kind = "channels";
  return name;
}

// Says which events come: whose, and their number.
class Receiver : public POA_CosNotifyComm::StructuredPushConsumer {
public:
  void push_structured_event(const CN::StructuredEvent& event) override {
    const acsnc::EventDescription* description = nullptr;
    if (!(event.remainder_of_body >>= description)) return say("bad remainder");
    CORBA::Long value = -1;
    if (event.filterable_data.length() != 1 || !(event.filterable_data[0].value >>= value)) return say("bad data");
    say(std::string("got ") + description->name.in() + " " + std::to_string(value));
  }
  void disconnect_structured_push_consumer() override { say("disconnected"); }
  void offer_change(const CN::EventTypeSeq&, const CN::EventTypeSeq&) override {}
};

// Its liveness answers with an exception, as ALMA's does.
class Callback : public POA_NotifyExt::ReconnectionCallback {
public:
  void reconnect(CORBA::Object_ptr factory) override {
    const NME::EventChannelFactory_var narrowed = NME::EventChannelFactory::_narrow(factory);
    say(CORBA::is_nil(narrowed) ? "reconnect with something else" : "reconnect");
  }
  CORBA::Boolean is_alive() override { throw CORBA::NO_IMPLEMENT(); }
};

class Client {
public:
  explicit Client(const Args& args)
      : orb_(args), channel_name_(args.text("channel-name", "CONTROL")), name_(args.text("name", "client")) {
    const CORBA::Object_var factory = orb_.resolve(args.text("factory", ""));
    factory_ = NME::EventChannelFactory::_narrow(factory);
    if (CORBA::is_nil(factory_)) throw Usage{"this is no factory with names"};
    const CORBA::Object_var monitor = orb_.resolve(args.text("monitor", ""));
    monitor_ = CN::NotificationServiceMonitorControl::_narrow(monitor);
    if (CORBA::is_nil(monitor_)) throw Usage{"this is no monitor"};
    const CORBA::Object_var names = orb_.get()->resolve_initial_references("NameService");
    naming_ = CosNaming::NamingContext::_narrow(names);
  }

  int run() {
    channel_ = created_or_shared();
    const CORBA::Object_var callback = orb_.serve(new Callback, "callback");
    const NotifyExt::ReconnectionCallback_var narrowed = NotifyExt::ReconnectionCallback::_narrow(callback);
    factory_->register_callback(narrowed);
    subscribe(true);
    supply();
    say("ready");
    std::string line;
    while (hear(line)) {
      if (line == "again") subscribe(false);
      if (line.rfind("push ", 0) == 0) push(std::stoi(line.substr(5)));
      if (line.rfind("statistic ", 0) == 0) statistic(line.substr(10));
    }
    say("done");
    return 0;
  }

private:
  // The name is what keeps two that come at once from making a channel each.
  CNA::EventChannel_ptr created_or_shared() {
    try {
      CN::QoSProperties qos;
      CN::AdminProperties admin;
      CNA::ChannelID id = 0;
      const CNA::EventChannel_var made = factory_->create_named_channel(qos, admin, id, channel_name_.c_str());
      naming_->bind(name_of(channel_name_), made);
      say("channel created");
    } catch (const NME::NameAlreadyUsed&) {
      say("channel used");
      std::string look;
      hear(look);
    }
    const CORBA::Object_var found = naming_->resolve(name_of(channel_name_));
    const NME::EventChannel_var channel = NME::EventChannel::_narrow(found);
    if (CORBA::is_nil(channel)) throw Usage{"this is no channel with names"};
    return CNA::EventChannel::_duplicate(channel);
  }

  void subscribe(bool first) {
    if (first) {
      CNA::AdminID id = 0;
      const CNA::ConsumerAdmin_var admin = channel_->new_for_consumers(CNA::AND_OP, id);
      consumers_ = NME::ConsumerAdmin::_narrow(admin);
      CNA::ProxyID dummy = 0;
      const CNA::ProxySupplier_var marks =
          consumers_->obtain_named_notification_push_supplier(CNA::ANY_EVENT, dummy, ("dummyproxy-" + name_).c_str());
      receiver_ = orb_.serve(new Receiver, "receiver");
    }
    const CNA::ProxySupplier_var proxy = obtain(first);
    const CNA::StructuredProxyPushSupplier_var supplier = CNA::StructuredProxyPushSupplier::_narrow(proxy);
    CN::EventTypeSeq added, removed;
    added.length(1);
    added[0].domain_name = "ALMA";
    added[0].type_name = "Temperature";
    removed.length(1);
    removed[0].domain_name = "*";
    removed[0].type_name = "*";
    supplier->subscription_change(added, removed);
    const CosNotifyFilter::FilterFactory_var filters = channel_->default_filter_factory();
    const CosNotifyFilter::Filter_var filter = filters->create_filter("ETCL");
    CosNotifyFilter::ConstraintExpSeq all;
    all.length(1);
    all[0].event_types = added;
    all[0].constraint_expr = "";
    const CosNotifyFilter::ConstraintInfoSeq_var taken = filter->add_constraints(all);
    supplier->add_filter(filter);
    const CosNotifyComm::StructuredPushConsumer_var consumer =
        CosNotifyComm::StructuredPushConsumer::_narrow(receiver_);
    supplier->connect_structured_push_consumer(consumer);
    say("subscribed");
  }

  // Under another name where the first is had already.
  CNA::ProxySupplier_ptr obtain(bool first) {
    CNA::ProxyID id = 0;
    for (int tries = 0;; ++tries) {
      const std::string name = tries == 0 ? proxy_ : proxy_ + "-" + std::to_string(tries);
      try {
        const CNA::ProxySupplier_var proxy =
            consumers_->obtain_named_notification_push_supplier(CNA::STRUCTURED_EVENT, id, name.c_str());
        say("proxy " + name);
        if (first) proxy_ = name;
        return CNA::ProxySupplier::_duplicate(proxy);
      } catch (const NME::NameAlreadyUsed&) {
      }
    }
  }

  void supply() {
    const CNA::SupplierAdmin_var admin = channel_->default_supplier_admin();
    const NME::SupplierAdmin_var suppliers = NME::SupplierAdmin::_narrow(admin);
    CNA::ProxyID id = 0;
    const CNA::ProxyConsumer_var proxy =
        suppliers->obtain_named_notification_push_consumer(CNA::STRUCTURED_EVENT, id, name_.c_str());
    consumer_ = CNA::StructuredProxyPushConsumer::_narrow(proxy);
    consumer_->connect_structured_push_supplier(CosNotifyComm::StructuredPushSupplier::_nil());
  }

  void push(int count) {
    for (int i = 0; i < count; ++i) {
      CN::StructuredEvent event;
      event.header.fixed_header.event_type.domain_name = "ALMA";
      event.header.fixed_header.event_type.type_name = "Temperature";
      event.header.fixed_header.event_name = "";
      event.filterable_data.length(1);
      event.filterable_data[0].name = "";
      event.filterable_data[0].value <<= static_cast<CORBA::Long>(pushed_);
      acsnc::EventDescription description;
      description.name = name_.c_str();
      description.timestamp = 138000000000000000ULL;
      description.count = pushed_++;
      event.remainder_of_body <<= description;
      consumer_->push_structured_event(event);
    }
    say("pushed " + std::to_string(pushed_));
  }

  void statistic(const std::string& name) {
    try {
      const Monitor::Data_var data = monitor_->get_statistic(name.c_str());
      if (data->data_union._d() == Monitor::DATA_NUMERIC)
        return say("statistic " + std::to_string(static_cast<long>(data->data_union.num().last)));
      const Monitor::NameList& list = data->data_union.list();
      std::string line = "statistic";
      for (CORBA::ULong i = 0; i < list.length(); ++i) line += std::string(" ") + list[i].in();
      say(line);
    } catch (const CN::NotificationServiceMonitorControl::InvalidName& raised) {
      say("statistic InvalidName " + std::to_string(raised.names.length()));
    }
  }

  Orb orb_;
  std::string channel_name_;
  std::string name_;
  // What its proxy is to be called; all of these clients want the same.
  std::string proxy_ = "dish";
  unsigned long pushed_ = 0;
  NME::EventChannelFactory_var factory_;
  CN::NotificationServiceMonitorControl_var monitor_;
  CosNaming::NamingContext_var naming_;
  CNA::EventChannel_var channel_;
  NME::ConsumerAdmin_var consumers_;
  CNA::StructuredProxyPushConsumer_var consumer_;
  CORBA::Object_var receiver_;
};

}  // namespace

int alma(const Args& args) { return Client(args).run(); }

}  // namespace peer
