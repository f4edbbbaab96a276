// `walk`: every operation and attribute of factory, channel, admins and push proxies, good and bad, one line for each
// answer.

#include "commands.h"

#include "answers.h"
#include "campanile_test.hh"
#include "orb.h"

namespace peer {

namespace {

CN::QoSProperties three_bad() {
  CN::QoSProperties properties;
  properties.length(4);
  properties[0].name = "NoSuchProperty";
  properties[0].value <<= static_cast<CORBA::Short>(1);
  properties[1].name = "MaxEventsPerConsumer";
  properties[1].value <<= "many";
  properties[2].name = "OrderPolicy";
  properties[2].value <<= static_cast<CORBA::Short>(77);
  properties[3].name = "Priority";
  properties[3].value <<= static_cast<CORBA::Short>(0);
  return properties;
}

class Sink : public POA_CosNotifyComm::StructuredPushConsumer {
  void push_structured_event(const CN::StructuredEvent&) override {}
  void disconnect_structured_push_consumer() override { say("told: disconnect_structured_push_consumer"); }
  void offer_change(const CN::EventTypeSeq&, const CN::EventTypeSeq&) override {}
};

class Source : public POA_CosNotifyComm::StructuredPushSupplier {
  void disconnect_structured_push_supplier() override { say("told: disconnect_structured_push_supplier"); }
  void subscription_change(const CN::EventTypeSeq&, const CN::EventTypeSeq&) override {}
};

class Tour {
public:
  explicit Tour(const Args& args) : orb_(args), factory_(find_factory(orb_, args)) {}

  void factory() {
    attempt("factory is_a",
            [&] { return yes_no(factory_->_is_a("IDL:omg.org/CosNotifyChannelAdmin/EventChannelFactory:1.0")); });
    attempt("factory is_a Object", [&] { return yes_no(factory_->_is_a("IDL:omg.org/CORBA/Object:1.0")); });
    attempt("factory is_a other", [&] { return yes_no(factory_->_is_a("IDL:omg.org/CosNaming/NamingContext:1.0")); });
    attempt("factory non_existent", [&] { return yes_no(factory_->_non_existent()); });
    attempt("factory all_channels", [&] {
      const CNA::ChannelIDSeq_var all = factory_->get_all_channels();
      return ids(all.in());
    });
    CNA::ChannelID id = 0;
    attempt("factory create_channel", [&] {
      channel_ = factory_->create_channel(one("MaxEventsPerConsumer", static_cast<CORBA::Long>(100)),
                                          one("MaxSuppliers", static_cast<CORBA::Long>(50)), id);
      return std::to_string(id);
    });
    attempt("factory get_event_channel", [&] {
      const CNA::EventChannel_var got = factory_->get_event_channel(id);
      return same(got, channel_);
    });
    attempt("factory get_event_channel 999", [&] {
      const CNA::EventChannel_var got = factory_->get_event_channel(999);
      return same(got, channel_);
    });
    attempt("factory create_channel bad qos", [&] {
      CNA::ChannelID n;
      const CNA::EventChannel_var c = factory_->create_channel(three_bad(), {}, n);
      return std::to_string(n);
    });
    attempt("factory create_channel bad admin", [&] {
      CN::AdminProperties bad;
      bad.length(2);
      bad[0].name = "MaxEvents";
      bad[0].value <<= static_cast<CORBA::Long>(1);
      bad[1].name = "MaxConsumers";
      bad[1].value <<= "several";
      CNA::ChannelID n;
      const CNA::EventChannel_var c = factory_->create_channel({}, bad, n);
      return std::to_string(n);
    });
    attempt("factory all_channels after", [&] {
      const CNA::ChannelIDSeq_var all = factory_->get_all_channels();
      return ids(all.in());
    });
  }

  void channel() {
    attempt("channel is_a",
            [&] { return yes_no(channel_->_is_a("IDL:omg.org/CosEventChannelAdmin/EventChannel:1.0")); });
    attempt("channel MyFactory", [&] {
      const CNA::EventChannelFactory_var got = channel_->MyFactory();
      const CNA::ChannelIDSeq_var all = got->get_all_channels();
      return ids(all.in());
    });
    attempt("channel default_consumer_admin", [&] {
      const CNA::ConsumerAdmin_var got = channel_->default_consumer_admin();
      return std::to_string(got->MyID());
    });
    attempt("channel default_supplier_admin", [&] {
      const CNA::SupplierAdmin_var got = channel_->default_supplier_admin();
      return std::to_string(got->MyID());
    });
    attempt("channel default_filter_factory", [&] {
      const CosNotifyFilter::FilterFactory_var got = channel_->default_filter_factory();
      return std::string(CORBA::is_nil(got) ? "nil" : "there");
    });
    CNA::AdminID id = 0;
    attempt("channel new_for_consumers", [&] {
      consumers_ = channel_->new_for_consumers(CNA::OR_OP, id);
      return std::to_string(id);
    });
    attempt("channel get_consumeradmin", [&] {
      const CNA::ConsumerAdmin_var got = channel_->get_consumeradmin(id);
      return same(got, consumers_);
    });
    attempt("channel get_consumeradmin 999", [&] {
      const CNA::ConsumerAdmin_var got = channel_->get_consumeradmin(999);
      return same(got, consumers_);
    });
    attempt("channel all_consumeradmins", [&] {
      const CNA::AdminIDSeq_var all = channel_->get_all_consumeradmins();
      return ids(all.in());
    });
    attempt("channel new_for_suppliers", [&] {
      suppliers_ = channel_->new_for_suppliers(CNA::AND_OP, id);
      return std::to_string(id);
    });
    attempt("channel get_supplieradmin", [&] {
      const CNA::SupplierAdmin_var got = channel_->get_supplieradmin(id);
      return same(got, suppliers_);
    });
    attempt("channel get_supplieradmin 999", [&] {
      const CNA::SupplierAdmin_var got = channel_->get_supplieradmin(999);
      return same(got, suppliers_);
    });
    attempt("channel all_supplieradmins", [&] {
      const CNA::AdminIDSeq_var all = channel_->get_all_supplieradmins();
      return ids(all.in());
    });
    attempt("channel for_consumers", [&] {
      const CosEventChannelAdmin::ConsumerAdmin_var got = channel_->for_consumers();
      const CNA::ConsumerAdmin_var def = channel_->default_consumer_admin();
      return same(got, def);
    });
    attempt("channel for_suppliers", [&] {
      const CosEventChannelAdmin::SupplierAdmin_var got = channel_->for_suppliers();
      const CNA::SupplierAdmin_var def = channel_->default_supplier_admin();
      return same(got, def);
    });
  }

  void properties() {
    attempt("channel get_qos", [&] {
      const CN::QoSProperties_var got = channel_->get_qos();
      return text_of(got.in());
    });
    attempt("channel get_admin", [&] {
      const CN::AdminProperties_var got = channel_->get_admin();
      return text_of(got.in());
    });
    attempt_void("channel set_qos",
                 [&] { channel_->set_qos(one("MaxEventsPerConsumer", static_cast<CORBA::Long>(10))); });
    attempt_void("channel set_qos bad", [&] { channel_->set_qos(three_bad()); });
    attempt_void("channel set_qos bad value",
                 [&] { channel_->set_qos(one("MaxEventsPerConsumer", static_cast<CORBA::Long>(-5))); });
    attempt_void("channel set_qos FullOutbox", [&] { channel_->set_qos(one("FullOutbox", "Reject")); });
    attempt_void("channel set_qos FullOutbox bad", [&] { channel_->set_qos(one("FullOutbox", "Explode")); });
    attempt_void("channel set_qos PushWindow",
                 [&] { channel_->set_qos(one("PushWindow", static_cast<CORBA::UShort>(16))); });
    attempt_void("channel set_qos PushWindow bad",
                 [&] { channel_->set_qos(one("PushWindow", static_cast<CORBA::UShort>(5000))); });
    attempt_void("channel set_qos Persistent",
                 [&] { channel_->set_qos(one("ConnectionReliability", static_cast<CORBA::Short>(1))); });
    attempt_void("channel set_qos unknown",
                 [&] { channel_->set_qos(one("TheirOwn", static_cast<CORBA::Long>(7))); });
    attempt("channel validate_qos", [&] {
      CN::NamedPropertyRangeSeq_var ranges;
      channel_->validate_qos(one("MaxEventsPerConsumer", static_cast<CORBA::Long>(5)), ranges);
      return text_of(ranges.in());
    });
    attempt("channel validate_qos bad", [&] {
      CN::NamedPropertyRangeSeq_var ranges;
      channel_->validate_qos(three_bad(), ranges);
      return text_of(ranges.in());
    });
    attempt_void("channel set_admin", [&] { channel_->set_admin(one("MaxConsumers", static_cast<CORBA::Long>(3))); });
    attempt_void("channel set_admin bad",
                 [&] { channel_->set_admin(one("MaxConsumers", static_cast<CORBA::Long>(-1))); });
    attempt("channel get_qos after", [&] {
      const CN::QoSProperties_var got = channel_->get_qos();
      return text_of(got.in());
    });
    attempt("channel get_admin after", [&] {
      const CN::AdminProperties_var got = channel_->get_admin();
      return text_of(got.in());
    });
  }

  void consumer_admin() {
    attempt("consumers MyID", [&] { return std::to_string(consumers_->MyID()); });
    attempt("consumers MyChannel", [&] {
      const CNA::EventChannel_var got = consumers_->MyChannel();
      return same(got, channel_);
    });
    attempt("consumers MyOperator",
            [&] { return std::string(consumers_->MyOperator() == CNA::OR_OP ? "OR_OP" : "AND_OP"); });
    attempt("consumers get_qos", [&] {
      const CN::QoSProperties_var got = consumers_->get_qos();
      return text_of(got.in());
    });
    attempt_void("consumers set_qos bad", [&] { consumers_->set_qos(three_bad()); });
    attempt("consumers priority_filter", [&] {
      const CosNotifyFilter::MappingFilter_var got = consumers_->priority_filter();
      return std::string(CORBA::is_nil(got) ? "nil" : "there");
    });
    attempt("consumers lifetime_filter", [&] {
      const CosNotifyFilter::MappingFilter_var got = consumers_->lifetime_filter();
      return std::string(CORBA::is_nil(got) ? "nil" : "there");
    });
    attempt("consumers all_filters", [&] {
      const CosNotifyFilter::FilterIDSeq_var got = consumers_->get_all_filters();
      return ids(got.in());
    });
    attempt("consumers get_filter 7", [&] {
      const CosNotifyFilter::Filter_var got = consumers_->get_filter(7);
      return std::string("there");
    });
    attempt_void("consumers remove_all_filters", [&] { consumers_->remove_all_filters(); });
    attempt_void("consumers subscription_change",
                 [&] { consumers_->subscription_change(types({"Campanile", "Alarm"}), types({"*", "*"})); });
    CNA::ProxyID id = 0;
    attempt("consumers obtain push any", [&] {
      const CNA::ProxySupplier_var got = consumers_->obtain_notification_push_supplier(CNA::ANY_EVENT, id);
      return proxy_text(id, got->MyType());
    });
    attempt("consumers obtain push structured", [&] {
      const CNA::ProxySupplier_var got = consumers_->obtain_notification_push_supplier(CNA::STRUCTURED_EVENT, id);
      sink_proxy_ = CNA::StructuredProxyPushSupplier::_narrow(got);
      return proxy_text(id, sink_proxy_->MyType());
    });
    attempt("consumers obtain push sequence", [&] {
      const CNA::ProxySupplier_var got = consumers_->obtain_notification_push_supplier(CNA::SEQUENCE_EVENT, last_);
      return proxy_text(last_, got->MyType());
    });
    attempt("consumers obtain pull any", [&] {
      const CNA::ProxySupplier_var got = consumers_->obtain_notification_pull_supplier(CNA::ANY_EVENT, last_);
      return proxy_text(last_, got->MyType());
    });
    attempt("consumers obtain pull structured", [&] {
      const CNA::ProxySupplier_var got = consumers_->obtain_notification_pull_supplier(CNA::STRUCTURED_EVENT, last_);
      return proxy_text(last_, got->MyType());
    });
    attempt("consumers get_proxy_supplier", [&] {
      const CNA::ProxySupplier_var got = consumers_->get_proxy_supplier(id);
      return same(got, sink_proxy_);
    });
    attempt("consumers get_proxy_supplier 999", [&] {
      const CNA::ProxySupplier_var got = consumers_->get_proxy_supplier(999);
      return same(got, sink_proxy_);
    });
    attempt("consumers push_suppliers", [&] {
      const CNA::ProxyIDSeq_var all = consumers_->push_suppliers();
      return ids(all.in());
    });
    attempt("consumers pull_suppliers", [&] {
      const CNA::ProxyIDSeq_var all = consumers_->pull_suppliers();
      return ids(all.in());
    });
    attempt("consumers obtain_push_supplier", [&] {
      const CosEventChannelAdmin::ProxyPushSupplier_var got = consumers_->obtain_push_supplier();
      return std::string("there");
    });
  }

  void push_supplier() {
    if (CORBA::is_nil(sink_proxy_)) return;
    attempt("push_supplier MyAdmin", [&] {
      const CNA::ConsumerAdmin_var got = sink_proxy_->MyAdmin();
      return same(got, consumers_);
    });
    attempt("push_supplier get_qos", [&] {
      const CN::QoSProperties_var got = sink_proxy_->get_qos();
      return text_of(got.in());
    });
    attempt_void("push_supplier set_qos",
                 [&] { sink_proxy_->set_qos(one("PushOneWay", CORBA::Any::from_boolean(true))); });
    attempt_void("push_supplier set_qos bad", [&] { sink_proxy_->set_qos(three_bad()); });
    attempt("push_supplier validate_event_qos", [&] {
      CN::NamedPropertyRangeSeq_var ranges;
      sink_proxy_->validate_event_qos(three_bad(), ranges);
      return text_of(ranges.in());
    });
    attempt("push_supplier obtain_offered_types", [&] {
      const CN::EventTypeSeq_var got = sink_proxy_->obtain_offered_types(CNA::ALL_NOW_UPDATES_OFF);
      return text_of_types(got.in());
    });
    attempt_void("push_supplier subscription_change",
                 [&] { sink_proxy_->subscription_change(types({"Campanile", "Alarm"}), types({"*", "*"})); });
    attempt("push_supplier priority_filter", [&] {
      const CosNotifyFilter::MappingFilter_var got = sink_proxy_->priority_filter();
      return std::string(CORBA::is_nil(got) ? "nil" : "there");
    });
    attempt("push_supplier all_filters", [&] {
      const CosNotifyFilter::FilterIDSeq_var got = sink_proxy_->get_all_filters();
      return ids(got.in());
    });
    attempt_void("push_supplier suspend unconnected", [&] { sink_proxy_->suspend_connection(); });
    attempt_void("push_supplier resume unconnected", [&] { sink_proxy_->resume_connection(); });
    attempt_void("push_supplier connect nil",
                 [&] { sink_proxy_->connect_structured_push_consumer(CosNotifyComm::StructuredPushConsumer::_nil()); });
    const CORBA::Object_var object = orb_.serve(new Sink, "sink");
    const CosNotifyComm::StructuredPushConsumer_var self = CosNotifyComm::StructuredPushConsumer::_narrow(object);
    attempt_void("push_supplier connect", [&] { sink_proxy_->connect_structured_push_consumer(self); });
    attempt_void("push_supplier connect again", [&] { sink_proxy_->connect_structured_push_consumer(self); });
    // The limit is on who is connected, and asked about when a proxy is asked for.
    attempt_void("channel set_admin MaxConsumers 1",
                 [&] { channel_->set_admin(one("MaxConsumers", static_cast<CORBA::Long>(1))); });
    attempt("consumers obtain at MaxConsumers", [&] {
      const CNA::ProxySupplier_var got = consumers_->obtain_notification_push_supplier(CNA::ANY_EVENT, last_);
      return std::string("there");
    });
    attempt_void("push_supplier resume active", [&] { sink_proxy_->resume_connection(); });
    attempt_void("push_supplier suspend", [&] { sink_proxy_->suspend_connection(); });
    attempt_void("push_supplier suspend again", [&] { sink_proxy_->suspend_connection(); });
    attempt_void("push_supplier resume", [&] { sink_proxy_->resume_connection(); });
    attempt_void("push_supplier disconnect", [&] { sink_proxy_->disconnect_structured_push_supplier(); });
    attempt("push_supplier after disconnect", [&] { return yes_no(sink_proxy_->_non_existent()); });
    attempt_void("push_supplier suspend after disconnect", [&] { sink_proxy_->suspend_connection(); });
  }

  void supplier_admin() {
    attempt("suppliers MyID", [&] { return std::to_string(suppliers_->MyID()); });
    attempt("suppliers MyChannel", [&] {
      const CNA::EventChannel_var got = suppliers_->MyChannel();
      return same(got, channel_);
    });
    attempt("suppliers MyOperator",
            [&] { return std::string(suppliers_->MyOperator() == CNA::OR_OP ? "OR_OP" : "AND_OP"); });
    attempt("suppliers get_qos", [&] {
      const CN::QoSProperties_var got = suppliers_->get_qos();
      return text_of(got.in());
    });
    attempt_void("suppliers offer_change",
                 [&] { suppliers_->offer_change(types({"Campanile", "Alarm"}), types({"*", "*"})); });
    CNA::ProxyID id = 0;
    attempt("suppliers obtain push any", [&] {
      const CNA::ProxyConsumer_var got = suppliers_->obtain_notification_push_consumer(CNA::ANY_EVENT, id);
      return proxy_text(id, got->MyType());
    });
    attempt("suppliers obtain push structured", [&] {
      const CNA::ProxyConsumer_var got = suppliers_->obtain_notification_push_consumer(CNA::STRUCTURED_EVENT, id);
      source_proxy_ = CNA::StructuredProxyPushConsumer::_narrow(got);
      return proxy_text(id, source_proxy_->MyType());
    });
    attempt("suppliers obtain push sequence", [&] {
      const CNA::ProxyConsumer_var got = suppliers_->obtain_notification_push_consumer(CNA::SEQUENCE_EVENT, last_);
      return proxy_text(last_, got->MyType());
    });
    attempt("suppliers obtain pull any", [&] {
      const CNA::ProxyConsumer_var got = suppliers_->obtain_notification_pull_consumer(CNA::ANY_EVENT, last_);
      return proxy_text(last_, got->MyType());
    });
    attempt("suppliers get_proxy_consumer", [&] {
      const CNA::ProxyConsumer_var got = suppliers_->get_proxy_consumer(id);
      return same(got, source_proxy_);
    });
    attempt("suppliers get_proxy_consumer 999", [&] {
      const CNA::ProxyConsumer_var got = suppliers_->get_proxy_consumer(999);
      return same(got, source_proxy_);
    });
    attempt("suppliers push_consumers", [&] {
      const CNA::ProxyIDSeq_var all = suppliers_->push_consumers();
      return ids(all.in());
    });
    attempt("suppliers pull_consumers", [&] {
      const CNA::ProxyIDSeq_var all = suppliers_->pull_consumers();
      return ids(all.in());
    });
    attempt("suppliers obtain_push_consumer", [&] {
      const CosEventChannelAdmin::ProxyPushConsumer_var got = suppliers_->obtain_push_consumer();
      return std::string("there");
    });
    attempt("suppliers obtain_pull_consumer", [&] {
      const CosEventChannelAdmin::ProxyPullConsumer_var got = suppliers_->obtain_pull_consumer();
      return std::string("there");
    });
  }

  void push_consumer() {
    if (CORBA::is_nil(source_proxy_)) return;
    const CN::StructuredEvent event = orb_.shaper().make_event("nested", 0, 0);
    attempt("push_consumer MyAdmin", [&] {
      const CNA::SupplierAdmin_var got = source_proxy_->MyAdmin();
      return same(got, suppliers_);
    });
    attempt("push_consumer get_qos", [&] {
      const CN::QoSProperties_var got = source_proxy_->get_qos();
      return text_of(got.in());
    });
    attempt("push_consumer validate_event_qos", [&] {
      CN::NamedPropertyRangeSeq_var ranges;
      source_proxy_->validate_event_qos(three_bad(), ranges);
      return text_of(ranges.in());
    });
    attempt("push_consumer obtain_subscription_types", [&] {
      const CN::EventTypeSeq_var got = source_proxy_->obtain_subscription_types(CNA::ALL_NOW_UPDATES_OFF);
      return text_of_types(got.in());
    });
    attempt_void("push_consumer push unconnected", [&] { source_proxy_->push_structured_event(event); });
    const CORBA::Object_var object = orb_.serve(new Source, "source");
    const CosNotifyComm::StructuredPushSupplier_var self = CosNotifyComm::StructuredPushSupplier::_narrow(object);
    attempt_void("push_consumer connect", [&] { source_proxy_->connect_structured_push_supplier(self); });
    attempt_void("push_consumer connect again", [&] { source_proxy_->connect_structured_push_supplier(self); });
    attempt_void("push_consumer offer_change",
                 [&] { source_proxy_->offer_change(types({"Campanile", "Alarm"}), types({"*", "*"})); });
    attempt_void("push_consumer push", [&] { source_proxy_->push_structured_event(event); });
    attempt_void("push_consumer disconnect", [&] { source_proxy_->disconnect_structured_push_consumer(); });
    attempt_void("push_consumer push after disconnect", [&] { source_proxy_->push_structured_event(event); });
  }

  void wrong() {
    const CampanileTest::Witness_var mistaken = CampanileTest::Witness::_unchecked_narrow(factory_);
    attempt("wrong operation", [&] { return std::to_string(mistaken->twice(1)); });
    const CNA::EventChannel_var elsewhere = CNA::EventChannel::_unchecked_narrow(factory_);
    attempt("wrong interface", [&] {
      const CNA::AdminIDSeq_var all = elsewhere->get_all_consumeradmins();
      return ids(all.in());
    });
  }

  void destroy() {
    const CORBA::Long id = suppliers_->MyID();
    attempt_void("suppliers destroy", [&] { suppliers_->destroy(); });
    attempt("suppliers MyID after destroy", [&] { return std::to_string(suppliers_->MyID()); });
    attempt("channel get_supplieradmin after destroy", [&] {
      const CNA::SupplierAdmin_var got = channel_->get_supplieradmin(id);
      return std::string("there");
    });
    const CNA::SupplierAdmin_var default_admin = channel_->default_supplier_admin();
    attempt_void("channel destroy", [&] { channel_->destroy(); });
    attempt("channel MyFactory after destroy", [&] {
      const CNA::EventChannelFactory_var got = channel_->MyFactory();
      return same(got, factory_);
    });
    attempt("consumers MyID after channel destroy", [&] { return std::to_string(consumers_->MyID()); });
    attempt("default_supplier_admin MyID after channel destroy", [&] { return std::to_string(default_admin->MyID()); });
    attempt("factory all_channels in the end", [&] {
      const CNA::ChannelIDSeq_var all = factory_->get_all_channels();
      return ids(all.in());
    });
  }

private:
  Orb orb_;
  CNA::EventChannelFactory_var factory_;
  CNA::EventChannel_var channel_;
  CNA::ConsumerAdmin_var consumers_;
  CNA::SupplierAdmin_var suppliers_;
  CNA::StructuredProxyPushSupplier_var sink_proxy_;
  CNA::StructuredProxyPushConsumer_var source_proxy_;
  CNA::ProxyID last_ = 0;
};

}  // namespace

int walk(const Args& args) {
  Tour tour(args);
  tour.factory();
  tour.channel();
  tour.properties();
  tour.consumer_admin();
  tour.push_supplier();
  tour.supplier_admin();
  tour.push_consumer();
  tour.wrong();
  tour.destroy();
  say("done");
  return 0;
}

}  // namespace peer
