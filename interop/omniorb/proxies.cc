// `proxies`: every operation of all twelve proxies, and of the four of the plain Event Service, good and bad, one line for
// each answer.

#include "commands.h"

#include "answers.h"
#include "orb.h"

namespace peer {

namespace {

// Clients that only have to be there. What they are told comes when it comes, so it is told apart from the answers.
template <typename Skeleton>
class Consumer : public Skeleton {
  void offer_change(const CN::EventTypeSeq& added, const CN::EventTypeSeq& removed) override {
    say("told: offer_change +" + text_of_types(added) + " -" + text_of_types(removed));
  }
};
template <typename Skeleton>
class Supplier : public Skeleton {
  void subscription_change(const CN::EventTypeSeq& added, const CN::EventTypeSeq& removed) override {
    say("told: subscription_change +" + text_of_types(added) + " -" + text_of_types(removed));
  }
};

class AnyPushConsumer : public Consumer<POA_CosNotifyComm::PushConsumer> {
  void push(const CORBA::Any&) override {}
  void disconnect_push_consumer() override { say("told: disconnect_push_consumer"); }
};
class StructuredPushConsumer : public Consumer<POA_CosNotifyComm::StructuredPushConsumer> {
  void push_structured_event(const CN::StructuredEvent&) override {}
  void disconnect_structured_push_consumer() override { say("told: disconnect_structured_push_consumer"); }
};
class SequencePushConsumer : public Consumer<POA_CosNotifyComm::SequencePushConsumer> {
  void push_structured_events(const CN::EventBatch&) override {}
  void disconnect_sequence_push_consumer() override { say("told: disconnect_sequence_push_consumer"); }
};
class AnyPullConsumer : public Consumer<POA_CosNotifyComm::PullConsumer> {
  void disconnect_pull_consumer() override { say("told: disconnect_pull_consumer"); }
};
class StructuredPullConsumer : public Consumer<POA_CosNotifyComm::StructuredPullConsumer> {
  void disconnect_structured_pull_consumer() override { say("told: disconnect_structured_pull_consumer"); }
};
class SequencePullConsumer : public Consumer<POA_CosNotifyComm::SequencePullConsumer> {
  void disconnect_sequence_pull_consumer() override { say("told: disconnect_sequence_pull_consumer"); }
};
class AnyPushSupplier : public Supplier<POA_CosNotifyComm::PushSupplier> {
  void disconnect_push_supplier() override { say("told: disconnect_push_supplier"); }
};
class StructuredPushSupplier : public Supplier<POA_CosNotifyComm::StructuredPushSupplier> {
  void disconnect_structured_push_supplier() override { say("told: disconnect_structured_push_supplier"); }
};
class SequencePushSupplier : public Supplier<POA_CosNotifyComm::SequencePushSupplier> {
  void disconnect_sequence_push_supplier() override { say("told: disconnect_sequence_push_supplier"); }
};
class AnyPullSupplier : public Supplier<POA_CosNotifyComm::PullSupplier> {
  CORBA::Any* pull() override { throw CosEventComm::Disconnected(); }
  CORBA::Any* try_pull(CORBA::Boolean& has_event) override {
    has_event = false;
    return new CORBA::Any;
  }
  void disconnect_pull_supplier() override { say("told: disconnect_pull_supplier"); }
};
class StructuredPullSupplier : public Supplier<POA_CosNotifyComm::StructuredPullSupplier> {
  CN::StructuredEvent* pull_structured_event() override { throw CosEventComm::Disconnected(); }
  CN::StructuredEvent* try_pull_structured_event(CORBA::Boolean& has_event) override {
    has_event = false;
    return new CN::StructuredEvent;
  }
  void disconnect_structured_pull_supplier() override { say("told: disconnect_structured_pull_supplier"); }
};
class SequencePullSupplier : public Supplier<POA_CosNotifyComm::SequencePullSupplier> {
  CN::EventBatch* pull_structured_events(CORBA::Long) override { throw CosEventComm::Disconnected(); }
  CN::EventBatch* try_pull_structured_events(CORBA::Long, CORBA::Boolean& has_event) override {
    has_event = false;
    return new CN::EventBatch;
  }
  void disconnect_sequence_pull_supplier() override { say("told: disconnect_sequence_pull_supplier"); }
};

CN::QoSProperties bad_properties() {
  CN::QoSProperties properties = one("NoSuchProperty", static_cast<CORBA::Short>(1));
  properties.length(2);
  properties[1].name = "Timeout";
  properties[1].value <<= "soon";
  return properties;
}

class Tour {
public:
  explicit Tour(const Args& args) : orb_(args), channel_(find_channel(orb_, args)) {
    CNA::AdminID id = 0;
    consumers_ = channel_->new_for_consumers(CNA::AND_OP, id);
    suppliers_ = channel_->new_for_suppliers(CNA::AND_OP, id);
  }

  void push_suppliers() {
    {
      const auto proxy = push_supplier<CNA::ProxyPushSupplier>("any push supplier", CNA::ANY_EVENT);
      const auto self = serve<AnyPushConsumer, CosEventComm::PushConsumer>("any-push-consumer");
      connecting("any push supplier", [&] { proxy->connect_any_push_consumer(self); },
                 [&] { proxy->connect_any_push_consumer(CosEventComm::PushConsumer::_nil()); });
      suspending("any push supplier", proxy);
      ending("any push supplier", proxy, [&] { proxy->disconnect_push_supplier(); });
    }
    {
      const auto proxy = push_supplier<CNA::StructuredProxyPushSupplier>("structured push supplier", CNA::STRUCTURED_EVENT);
      const auto self =
          serve<StructuredPushConsumer, CosNotifyComm::StructuredPushConsumer>("structured-push-consumer");
      connecting("structured push supplier", [&] { proxy->connect_structured_push_consumer(self); },
                 [&] { proxy->connect_structured_push_consumer(CosNotifyComm::StructuredPushConsumer::_nil()); });
      suspending("structured push supplier", proxy);
      ending("structured push supplier", proxy, [&] { proxy->disconnect_structured_push_supplier(); });
    }
    {
      const auto proxy = push_supplier<CNA::SequenceProxyPushSupplier>("sequence push supplier", CNA::SEQUENCE_EVENT);
      attempt_void("sequence push supplier set MaximumBatchSize",
                   [&] { proxy->set_qos(one("MaximumBatchSize", static_cast<CORBA::Long>(16))); });
      attempt_void("sequence push supplier set PacingInterval",
                   [&] { proxy->set_qos(one("PacingInterval", static_cast<CORBA::ULongLong>(10000000))); });
      attempt_void("sequence push supplier set MaximumBatchSize 0",
                   [&] { proxy->set_qos(one("MaximumBatchSize", static_cast<CORBA::Long>(0))); });
      const auto self = serve<SequencePushConsumer, CosNotifyComm::SequencePushConsumer>("sequence-push-consumer");
      connecting("sequence push supplier", [&] { proxy->connect_sequence_push_consumer(self); },
                 [&] { proxy->connect_sequence_push_consumer(CosNotifyComm::SequencePushConsumer::_nil()); });
      suspending("sequence push supplier", proxy);
      ending("sequence push supplier", proxy, [&] { proxy->disconnect_sequence_push_supplier(); });
    }
  }

  void pull_suppliers() {
    {
      const auto proxy = pull_supplier<CNA::ProxyPullSupplier>("any pull supplier", CNA::ANY_EVENT);
      CORBA::Boolean has = true;
      const auto pulls = [&] {
        attempt("any pull supplier try_pull", [&] {
          const CORBA::Any_var got = proxy->try_pull(has);
          return yes_no(has) + " " + text_of(got.in());
        });
      };
      pulls();
      attempt_void("any pull supplier pull unconnected", [&] { const CORBA::Any_var got = proxy->pull(); });
      const auto self = serve<AnyPullConsumer, CosEventComm::PullConsumer>("any-pull-consumer");
      connecting("any pull supplier", [&] { proxy->connect_any_pull_consumer(self); }, {});
      pulls();
      ending("any pull supplier", proxy, [&] { proxy->disconnect_pull_supplier(); });
      pulls();
    }
    {
      const auto proxy = pull_supplier<CNA::StructuredProxyPullSupplier>("structured pull supplier", CNA::STRUCTURED_EVENT);
      CORBA::Boolean has = true;
      const auto pulls = [&] {
        attempt("structured pull supplier try_pull_structured_event", [&] {
          const CN::StructuredEvent_var got = proxy->try_pull_structured_event(has);
          return yes_no(has) + " " + got->header.fixed_header.event_type.type_name.in();
        });
      };
      pulls();
      attempt_void("structured pull supplier pull_structured_event unconnected",
                   [&] { const CN::StructuredEvent_var got = proxy->pull_structured_event(); });
      // Nil: it is told nothing when the connection ends.
      connecting("structured pull supplier",
                 [&] { proxy->connect_structured_pull_consumer(CosNotifyComm::StructuredPullConsumer::_nil()); }, {});
      pulls();
      ending("structured pull supplier", proxy, [&] { proxy->disconnect_structured_pull_supplier(); });
      pulls();
    }
    {
      const auto proxy = pull_supplier<CNA::SequenceProxyPullSupplier>("sequence pull supplier", CNA::SEQUENCE_EVENT);
      CORBA::Boolean has = true;
      const auto pulls = [&](CORBA::Long most) {
        attempt("sequence pull supplier try_pull_structured_events " + std::to_string(most), [&] {
          const CN::EventBatch_var got = proxy->try_pull_structured_events(most, has);
          return yes_no(has) + " " + std::to_string(got->length());
        });
      };
      pulls(5);
      attempt_void("sequence pull supplier pull_structured_events unconnected",
                   [&] { const CN::EventBatch_var got = proxy->pull_structured_events(5); });
      const auto self = serve<SequencePullConsumer, CosNotifyComm::SequencePullConsumer>("sequence-pull-consumer");
      connecting("sequence pull supplier", [&] { proxy->connect_sequence_pull_consumer(self); }, {});
      pulls(5);
      pulls(0);
      pulls(-1);
      ending("sequence pull supplier", proxy, [&] { proxy->disconnect_sequence_pull_supplier(); });
      pulls(5);
    }
    attempt("consumers pull_suppliers", [&] { return ids(CNA::ProxyIDSeq_var(consumers_->pull_suppliers()).in()); });
  }

  void push_consumers() {
    const CN::StructuredEvent event = orb_.shaper().make_event("nested", 0, 0);
    {
      const auto proxy = push_consumer<CNA::ProxyPushConsumer>("any push consumer", CNA::ANY_EVENT);
      const auto pushes = [&] { attempt_void("any push consumer push", [&] { proxy->push(event.remainder_of_body); }); };
      pushes();
      connecting("any push consumer", [&] { proxy->connect_any_push_supplier(CosEventComm::PushSupplier::_nil()); }, {});
      pushes();
      ending("any push consumer", proxy, [&] { proxy->disconnect_push_consumer(); });
      pushes();
    }
    {
      const auto proxy = push_consumer<CNA::StructuredProxyPushConsumer>("structured push consumer", CNA::STRUCTURED_EVENT);
      const auto pushes = [&] {
        attempt_void("structured push consumer push_structured_event", [&] { proxy->push_structured_event(event); });
      };
      pushes();
      const auto self =
          serve<StructuredPushSupplier, CosNotifyComm::StructuredPushSupplier>("structured-push-supplier");
      connecting("structured push consumer", [&] { proxy->connect_structured_push_supplier(self); }, {});
      pushes();
      ending("structured push consumer", proxy, [&] { proxy->disconnect_structured_push_consumer(); });
      pushes();
    }
    {
      const auto proxy = push_consumer<CNA::SequenceProxyPushConsumer>("sequence push consumer", CNA::SEQUENCE_EVENT);
      CN::EventBatch events;
      events.length(2);
      events[0] = event;
      events[1] = event;
      const auto pushes = [&](const CN::EventBatch& batch) {
        attempt_void("sequence push consumer push_structured_events " + std::to_string(batch.length()),
                     [&] { proxy->push_structured_events(batch); });
      };
      pushes(events);
      const auto self = serve<SequencePushSupplier, CosNotifyComm::SequencePushSupplier>("sequence-push-supplier");
      connecting("sequence push consumer", [&] { proxy->connect_sequence_push_supplier(self); }, {});
      pushes(events);
      pushes(CN::EventBatch());
      ending("sequence push consumer", proxy, [&] { proxy->disconnect_sequence_push_consumer(); });
      pushes(events);
    }
  }

  void pull_consumers() {
    {
      const auto proxy = pull_consumer<CNA::ProxyPullConsumer>("any pull consumer", CNA::ANY_EVENT);
      const auto self = serve<AnyPullSupplier, CosEventComm::PullSupplier>("any-pull-supplier");
      connecting("any pull consumer", [&] { proxy->connect_any_pull_supplier(self); },
                 [&] { proxy->connect_any_pull_supplier(CosEventComm::PullSupplier::_nil()); });
      suspending("any pull consumer", proxy);
      ending("any pull consumer", proxy, [&] { proxy->disconnect_pull_consumer(); });
    }
    {
      const auto proxy = pull_consumer<CNA::StructuredProxyPullConsumer>("structured pull consumer", CNA::STRUCTURED_EVENT);
      const auto self =
          serve<StructuredPullSupplier, CosNotifyComm::StructuredPullSupplier>("structured-pull-supplier");
      connecting("structured pull consumer", [&] { proxy->connect_structured_pull_supplier(self); },
                 [&] { proxy->connect_structured_pull_supplier(CosNotifyComm::StructuredPullSupplier::_nil()); });
      suspending("structured pull consumer", proxy);
      ending("structured pull consumer", proxy, [&] { proxy->disconnect_structured_pull_consumer(); });
    }
    {
      const auto proxy = pull_consumer<CNA::SequenceProxyPullConsumer>("sequence pull consumer", CNA::SEQUENCE_EVENT);
      const auto self = serve<SequencePullSupplier, CosNotifyComm::SequencePullSupplier>("sequence-pull-supplier");
      connecting("sequence pull consumer", [&] { proxy->connect_sequence_pull_supplier(self); },
                 [&] { proxy->connect_sequence_pull_supplier(CosNotifyComm::SequencePullSupplier::_nil()); });
      suspending("sequence pull consumer", proxy);
      ending("sequence pull consumer", proxy, [&] { proxy->disconnect_sequence_pull_consumer(); });
    }
    attempt("suppliers pull_consumers", [&] { return ids(CNA::ProxyIDSeq_var(suppliers_->pull_consumers()).in()); });
  }

  void plain() {
    {
      const CosEventChannelAdmin::ProxyPullSupplier_var proxy = consumers_->obtain_pull_supplier();
      CORBA::Boolean has = true;
      const auto pulls = [&] {
        attempt("plain pull supplier try_pull", [&] {
          const CORBA::Any_var got = proxy->try_pull(has);
          return yes_no(has) + " " + text_of(got.in());
        });
      };
      pulls();
      const auto connect = [&] { proxy->connect_pull_consumer(CosEventComm::PullConsumer::_nil()); };
      attempt_void("plain pull supplier connect", connect);
      attempt_void("plain pull supplier connect again", connect);
      pulls();
      attempt_void("plain pull supplier disconnect", [&] { proxy->disconnect_pull_supplier(); });
      pulls();
    }
    {
      const CosEventChannelAdmin::ProxyPullConsumer_var proxy = suppliers_->obtain_pull_consumer();
      const auto self = serve<AnyPullSupplier, CosEventComm::PullSupplier>("plain-pull-supplier");
      attempt_void("plain pull consumer connect nil",
                   [&] { proxy->connect_pull_supplier(CosEventComm::PullSupplier::_nil()); });
      attempt_void("plain pull consumer connect", [&] { proxy->connect_pull_supplier(self); });
      attempt_void("plain pull consumer connect again", [&] { proxy->connect_pull_supplier(self); });
      attempt_void("plain pull consumer disconnect", [&] { proxy->disconnect_pull_consumer(); });
      attempt("plain pull consumer after disconnect", [&] { return yes_no(proxy->_non_existent()); });
    }
  }

  // With clients connected, from the admins down and from the channel down; each client is told.
  void destroy() {
    const auto self = serve<SequencePushConsumer, CosNotifyComm::SequencePushConsumer>("destroyed-consumer");
    const auto source = serve<StructuredPullSupplier, CosNotifyComm::StructuredPullSupplier>("destroyed-supplier");
    CNA::ProxyID id = 0;
    const CNA::ProxySupplier_var made = consumers_->obtain_notification_push_supplier(CNA::SEQUENCE_EVENT, id);
    const CNA::SequenceProxyPushSupplier_var proxy = CNA::SequenceProxyPushSupplier::_narrow(made);
    proxy->connect_sequence_push_consumer(self);
    const CNA::ProxyConsumer_var made_for_supplier =
        suppliers_->obtain_notification_pull_consumer(CNA::STRUCTURED_EVENT, id);
    const CNA::StructuredProxyPullConsumer_var other = CNA::StructuredProxyPullConsumer::_narrow(made_for_supplier);
    other->connect_structured_pull_supplier(source);
    attempt_void("consumers destroy", [&] { consumers_->destroy(); });
    attempt("proxy after consumers destroy", [&] { return yes_no(proxy->_non_existent()); });
    attempt_void("channel destroy", [&] { channel_->destroy(); });
    attempt("proxy after channel destroy", [&] { return yes_no(other->_non_existent()); });
  }

private:
  template <typename Servant, typename Interface>
  typename Interface::_var_type serve(const char* name) {
    const CORBA::Object_var object = orb_.serve(new Servant, name);
    return Interface::_narrow(object);
  }

  // What any proxy answers before anybody is connected.
  template <typename Proxy>
  void beginning(const std::string& name, const Proxy& proxy, CNA::ProxyID id) {
    attempt(name + " obtained", [&] { return proxy_text(id, proxy->MyType()).substr(std::to_string(id).size() + 1); });
    attempt_void(name + " set_qos Timeout",
                 [&] { proxy->set_qos(one("Timeout", static_cast<CORBA::ULongLong>(50000000))); });
    attempt_void(name + " set_qos bad", [&] { proxy->set_qos(bad_properties()); });
    attempt(name + " get_qos", [&] { return text_of(CN::QoSProperties_var(proxy->get_qos()).in()); });
    attempt(name + " validate_qos", [&] {
      CN::NamedPropertyRangeSeq_var ranges;
      proxy->validate_qos(one("Timeout", static_cast<CORBA::ULongLong>(5)), ranges);
      return text_of(ranges.in());
    });
    attempt(name + " validate_event_qos", [&] {
      CN::NamedPropertyRangeSeq_var ranges;
      proxy->validate_event_qos(one("Priority", static_cast<CORBA::Short>(5)), ranges);
      return text_of(ranges.in());
    });
    attempt(name + " validate_event_qos bad", [&] {
      CN::NamedPropertyRangeSeq_var ranges;
      proxy->validate_event_qos(bad_properties(), ranges);
      return text_of(ranges.in());
    });
  }

  template <typename Proxy>
  void supplier_beginning(const std::string& name, const Proxy& proxy, CNA::ProxyID id) {
    beginning(name, proxy, id);
    attempt(name + " MyAdmin", [&] { return same(CNA::ConsumerAdmin_var(proxy->MyAdmin()), consumers_); });
    attempt(name + " get_proxy_supplier",
            [&] { return same(CNA::ProxySupplier_var(consumers_->get_proxy_supplier(id)), proxy); });
    for (const auto mode :
         {CNA::ALL_NOW_UPDATES_OFF, CNA::ALL_NOW_UPDATES_ON, CNA::NONE_NOW_UPDATES_OFF, CNA::NONE_NOW_UPDATES_ON})
      attempt(name + " obtain_offered_types " + std::to_string(mode),
              [&] { return text_of_types(CN::EventTypeSeq_var(proxy->obtain_offered_types(mode)).in()); });
    attempt_void(name + " subscription_change",
                 [&] { proxy->subscription_change(types({"Telescope", "Status"}), types({"*", "*"})); });
    attempt_void(name + " subscription_change back",
                 [&] { proxy->subscription_change(types({"*", "*"}), types({"Telescope", "Status"})); });
  }

  template <typename Proxy>
  void consumer_beginning(const std::string& name, const Proxy& proxy, CNA::ProxyID id) {
    beginning(name, proxy, id);
    attempt(name + " MyAdmin", [&] { return same(CNA::SupplierAdmin_var(proxy->MyAdmin()), suppliers_); });
    attempt(name + " get_proxy_consumer",
            [&] { return same(CNA::ProxyConsumer_var(suppliers_->get_proxy_consumer(id)), proxy); });
    for (const auto mode :
         {CNA::ALL_NOW_UPDATES_OFF, CNA::ALL_NOW_UPDATES_ON, CNA::NONE_NOW_UPDATES_OFF, CNA::NONE_NOW_UPDATES_ON})
      attempt(name + " obtain_subscription_types " + std::to_string(mode),
              [&] { return text_of_types(CN::EventTypeSeq_var(proxy->obtain_subscription_types(mode)).in()); });
    attempt_void(name + " offer_change", [&] { proxy->offer_change(types({"Telescope", "Status"}), types({"*", "*"})); });
    attempt_void(name + " offer_change back",
                 [&] { proxy->offer_change(types({"*", "*"}), types({"Telescope", "Status"})); });
  }

  template <typename Proxy>
  typename Proxy::_var_type push_supplier(const std::string& name, CNA::ClientType kind) {
    CNA::ProxyID id = 0;
    const CNA::ProxySupplier_var made = consumers_->obtain_notification_push_supplier(kind, id);
    const typename Proxy::_var_type proxy = Proxy::_narrow(made);
    supplier_beginning(name, proxy, id);
    return proxy;
  }

  template <typename Proxy>
  typename Proxy::_var_type pull_supplier(const std::string& name, CNA::ClientType kind) {
    CNA::ProxyID id = 0;
    const CNA::ProxySupplier_var made = consumers_->obtain_notification_pull_supplier(kind, id);
    const typename Proxy::_var_type proxy = Proxy::_narrow(made);
    supplier_beginning(name, proxy, id);
    return proxy;
  }

  template <typename Proxy>
  typename Proxy::_var_type push_consumer(const std::string& name, CNA::ClientType kind) {
    CNA::ProxyID id = 0;
    const CNA::ProxyConsumer_var made = suppliers_->obtain_notification_push_consumer(kind, id);
    const typename Proxy::_var_type proxy = Proxy::_narrow(made);
    consumer_beginning(name, proxy, id);
    return proxy;
  }

  template <typename Proxy>
  typename Proxy::_var_type pull_consumer(const std::string& name, CNA::ClientType kind) {
    CNA::ProxyID id = 0;
    const CNA::ProxyConsumer_var made = suppliers_->obtain_notification_pull_consumer(kind, id);
    const typename Proxy::_var_type proxy = Proxy::_narrow(made);
    consumer_beginning(name, proxy, id);
    return proxy;
  }

  static void connecting(const std::string& name, const std::function<void()>& connect,
                         const std::function<void()>& connect_nil) {
    if (connect_nil) attempt_void(name + " connect nil", connect_nil);
    attempt_void(name + " connect", connect);
    attempt_void(name + " connect again", connect);
  }

  template <typename Proxy>
  static void suspending(const std::string& name, const Proxy& proxy) {
    attempt_void(name + " resume active", [&] { proxy->resume_connection(); });
    attempt_void(name + " suspend", [&] { proxy->suspend_connection(); });
    attempt_void(name + " suspend again", [&] { proxy->suspend_connection(); });
    attempt_void(name + " resume", [&] { proxy->resume_connection(); });
  }

  template <typename Proxy>
  static void ending(const std::string& name, const Proxy& proxy, const std::function<void()>& disconnect) {
    attempt_void(name + " disconnect", disconnect);
    attempt(name + " after disconnect", [&] { return yes_no(proxy->_non_existent()); });
  }

  Orb orb_;
  CNA::EventChannel_var channel_;
  CNA::ConsumerAdmin_var consumers_;
  CNA::SupplierAdmin_var suppliers_;
};

}  // namespace

int proxies(const Args& args) {
  Tour tour(args);
  tour.push_suppliers();
  tour.pull_suppliers();
  tour.push_consumers();
  tour.pull_consumers();
  tour.plain();
  tour.destroy();
  say("done");
  return 0;
}

int destroy(const Args& args) {
  const Orb orb(args);
  const CNA::EventChannel_var channel = find_channel(orb, args);
  channel->destroy();
  say("done");
  return 0;
}

}  // namespace peer
