package campanile.peer;

import static campanile.peer.Answers.attempt;
import static campanile.peer.Answers.attemptVoid;
import static campanile.peer.Answers.ids;
import static campanile.peer.Answers.nilOrThere;
import static campanile.peer.Answers.same;
import static campanile.peer.Answers.text;
import static campanile.peer.Answers.yesNo;

import CampanileTest.WitnessHelper;
import org.omg.CORBA.Any;
import org.omg.CORBA.IntHolder;
import org.omg.CORBA.UserException;
import org.omg.CosNotification.EventType;
import org.omg.CosNotification.NamedPropertyRangeSeqHolder;
import org.omg.CosNotification.Property;
import org.omg.CosNotification.StructuredEvent;
import org.omg.CosNotifyChannelAdmin.ClientType;
import org.omg.CosNotifyChannelAdmin.ConsumerAdmin;
import org.omg.CosNotifyChannelAdmin.EventChannel;
import org.omg.CosNotifyChannelAdmin.EventChannelFactory;
import org.omg.CosNotifyChannelAdmin.EventChannelHelper;
import org.omg.CosNotifyChannelAdmin.InterFilterGroupOperator;
import org.omg.CosNotifyChannelAdmin.ObtainInfoMode;
import org.omg.CosNotifyChannelAdmin.ProxyType;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushConsumer;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushConsumerHelper;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushSupplier;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushSupplierHelper;
import org.omg.CosNotifyChannelAdmin.SupplierAdmin;
import org.omg.CosNotifyComm.StructuredPushConsumer;
import org.omg.CosNotifyComm.StructuredPushConsumerHelper;
import org.omg.CosNotifyComm.StructuredPushConsumerPOA;
import org.omg.CosNotifyComm.StructuredPushSupplier;
import org.omg.CosNotifyComm.StructuredPushSupplierHelper;
import org.omg.CosNotifyComm.StructuredPushSupplierPOA;

/** {@code walk}: every operation and attribute of factory, channel, admins and push proxies, good and bad, one line each. */
final class ServiceTour {
    private static final Property[] NONE = {};
    private static final String[] TYPES = {
        "PUSH_ANY", "PULL_ANY", "PUSH_STRUCTURED", "PULL_STRUCTURED", "PUSH_SEQUENCE", "PULL_SEQUENCE", "PUSH_TYPED", "PULL_TYPED"
    };
    private static final EventType[] ALARM = {new EventType("Campanile", "Alarm")};
    private static final EventType[] EVERYTHING = {new EventType("*", "*")};

    private static final class Sink extends StructuredPushConsumerPOA {
        @Override
        public void push_structured_event(StructuredEvent event) {}

        @Override
        public void disconnect_structured_push_consumer() {
            Console.say("told: disconnect_structured_push_consumer");
        }

        @Override
        public void offer_change(EventType[] added, EventType[] removed) {}
    }

    private static final class Source extends StructuredPushSupplierPOA {
        @Override
        public void disconnect_structured_push_supplier() {
            Console.say("told: disconnect_structured_push_supplier");
        }

        @Override
        public void subscription_change(EventType[] added, EventType[] removed) {}
    }

    private final Peer peer;
    private final EventChannelFactory factory;
    private final IntHolder id = new IntHolder();
    private final NamedPropertyRangeSeqHolder ranges = new NamedPropertyRangeSeqHolder();
    private EventChannel channel;
    private ConsumerAdmin consumers;
    private SupplierAdmin suppliers;
    private StructuredProxyPushSupplier sinkProxy;
    private StructuredProxyPushConsumer sourceProxy;

    private ServiceTour(Args args) throws UserException {
        peer = new Peer(args);
        factory = peer.factory(args);
    }

    static int run(Args args) throws UserException {
        ServiceTour tour = new ServiceTour(args);
        tour.factory();
        tour.channel();
        tour.properties();
        tour.consumerAdmin();
        tour.pushSupplier();
        tour.supplierAdmin();
        tour.pushConsumer();
        tour.wrong();
        tour.destroy();
        Console.say("done");
        return 0;
    }

    private Any any() {
        return peer.orb.create_any();
    }

    private static Property[] one(String name, Any value) {
        return new Property[] {new Property(name, value)};
    }

    private Any int32(int value) {
        Any any = any();
        any.insert_long(value);
        return any;
    }

    private Any int16(int value) {
        Any any = any();
        any.insert_short((short) value);
        return any;
    }

    private Any uint16(int value) {
        Any any = any();
        any.insert_ushort((short) value);
        return any;
    }

    private Any string(String value) {
        Any any = any();
        any.insert_string(value);
        return any;
    }

    private Property[] threeBad() {
        return new Property[] {
            new Property("NoSuchProperty", int16(1)), new Property("MaxEventsPerConsumer", string("many")),
            new Property("OrderPolicy", int16(77)), new Property("Priority", int16(0)),
        };
    }

    private static String proxy(int id, ProxyType type) {
        return id + " " + TYPES[type.value()];
    }

    private void factory() {
        attempt("factory is_a", () -> yesNo(factory._is_a("IDL:omg.org/CosNotifyChannelAdmin/EventChannelFactory:1.0")));
        attempt("factory is_a Object", () -> yesNo(factory._is_a("IDL:omg.org/CORBA/Object:1.0")));
        attempt("factory is_a other", () -> yesNo(factory._is_a("IDL:omg.org/CosNaming/NamingContext:1.0")));
        attempt("factory non_existent", () -> yesNo(factory._non_existent()));
        attempt("factory all_channels", () -> ids(factory.get_all_channels()));
        attempt("factory create_channel", () -> {
            channel = factory.create_channel(one("MaxEventsPerConsumer", int32(100)), one("MaxSuppliers", int32(50)), id);
            return String.valueOf(id.value);
        });
        attempt("factory get_event_channel", () -> same(factory.get_event_channel(id.value), channel));
        attempt("factory get_event_channel 999", () -> same(factory.get_event_channel(999), channel));
        attempt("factory create_channel bad qos", () -> {
            factory.create_channel(threeBad(), NONE, id);
            return String.valueOf(id.value);
        });
        attempt("factory create_channel bad admin", () -> {
            Property[] bad = {new Property("MaxEvents", int32(1)), new Property("MaxConsumers", string("several"))};
            factory.create_channel(NONE, bad, id);
            return String.valueOf(id.value);
        });
        attempt("factory all_channels after", () -> ids(factory.get_all_channels()));
    }

    private void channel() {
        attempt("channel is_a", () -> yesNo(channel._is_a("IDL:omg.org/CosEventChannelAdmin/EventChannel:1.0")));
        attempt("channel MyFactory", () -> ids(channel.MyFactory().get_all_channels()));
        attempt("channel default_consumer_admin", () -> String.valueOf(channel.default_consumer_admin().MyID()));
        attempt("channel default_supplier_admin", () -> String.valueOf(channel.default_supplier_admin().MyID()));
        attempt("channel default_filter_factory", () -> nilOrThere(channel.default_filter_factory()));
        attempt("channel new_for_consumers", () -> {
            consumers = channel.new_for_consumers(InterFilterGroupOperator.OR_OP, id);
            return String.valueOf(id.value);
        });
        attempt("channel get_consumeradmin", () -> same(channel.get_consumeradmin(id.value), consumers));
        attempt("channel get_consumeradmin 999", () -> same(channel.get_consumeradmin(999), consumers));
        attempt("channel all_consumeradmins", () -> ids(channel.get_all_consumeradmins()));
        attempt("channel new_for_suppliers", () -> {
            suppliers = channel.new_for_suppliers(InterFilterGroupOperator.AND_OP, id);
            return String.valueOf(id.value);
        });
        attempt("channel get_supplieradmin", () -> same(channel.get_supplieradmin(id.value), suppliers));
        attempt("channel get_supplieradmin 999", () -> same(channel.get_supplieradmin(999), suppliers));
        attempt("channel all_supplieradmins", () -> ids(channel.get_all_supplieradmins()));
        attempt("channel for_consumers", () -> same(channel.for_consumers(), channel.default_consumer_admin()));
        attempt("channel for_suppliers", () -> same(channel.for_suppliers(), channel.default_supplier_admin()));
    }

    private void properties() {
        attempt("channel get_qos", () -> text(channel.get_qos()));
        attempt("channel get_admin", () -> text(channel.get_admin()));
        attemptVoid("channel set_qos", () -> channel.set_qos(one("MaxEventsPerConsumer", int32(10))));
        attemptVoid("channel set_qos bad", () -> channel.set_qos(threeBad()));
        attemptVoid("channel set_qos bad value", () -> channel.set_qos(one("MaxEventsPerConsumer", int32(-5))));
        attemptVoid("channel set_qos FullOutbox", () -> channel.set_qos(one("FullOutbox", string("Reject"))));
        attemptVoid("channel set_qos FullOutbox bad", () -> channel.set_qos(one("FullOutbox", string("Explode"))));
        attemptVoid("channel set_qos PushWindow", () -> channel.set_qos(one("PushWindow", uint16(16))));
        attemptVoid("channel set_qos PushWindow bad", () -> channel.set_qos(one("PushWindow", uint16(5000))));
        attemptVoid("channel set_qos Persistent", () -> channel.set_qos(one("ConnectionReliability", int16(1))));
        attemptVoid("channel set_qos unknown", () -> channel.set_qos(one("TheirOwn", int32(7))));
        attempt("channel validate_qos", () -> {
            channel.validate_qos(one("MaxEventsPerConsumer", int32(5)), ranges);
            return text(ranges.value);
        });
        attempt("channel validate_qos bad", () -> {
            channel.validate_qos(threeBad(), ranges);
            return text(ranges.value);
        });
        attemptVoid("channel set_admin", () -> channel.set_admin(one("MaxConsumers", int32(3))));
        attemptVoid("channel set_admin bad", () -> channel.set_admin(one("MaxConsumers", int32(-1))));
        attempt("channel get_qos after", () -> text(channel.get_qos()));
        attempt("channel get_admin after", () -> text(channel.get_admin()));
    }

    private void consumerAdmin() {
        attempt("consumers MyID", () -> String.valueOf(consumers.MyID()));
        attempt("consumers MyChannel", () -> same(consumers.MyChannel(), channel));
        attempt("consumers MyOperator", () -> consumers.MyOperator() == InterFilterGroupOperator.OR_OP ? "OR_OP" : "AND_OP");
        attempt("consumers get_qos", () -> text(consumers.get_qos()));
        attemptVoid("consumers set_qos bad", () -> consumers.set_qos(threeBad()));
        attempt("consumers priority_filter", () -> nilOrThere(consumers.priority_filter()));
        attempt("consumers lifetime_filter", () -> nilOrThere(consumers.lifetime_filter()));
        attempt("consumers all_filters", () -> ids(consumers.get_all_filters()));
        attempt("consumers get_filter 7", () -> nilOrThere(consumers.get_filter(7)));
        attemptVoid("consumers remove_all_filters", () -> consumers.remove_all_filters());
        attemptVoid("consumers subscription_change", () -> consumers.subscription_change(ALARM, EVERYTHING));
        obtainSuppliers();
    }

    private void obtainSuppliers() {
        IntHolder last = new IntHolder();
        attempt("consumers obtain push any",
            () -> proxy(consumers.obtain_notification_push_supplier(ClientType.ANY_EVENT, last).MyType(), last));
        attempt("consumers obtain push structured", () -> {
            sinkProxy = StructuredProxyPushSupplierHelper.narrow(
                consumers.obtain_notification_push_supplier(ClientType.STRUCTURED_EVENT, id));
            return proxy(sinkProxy.MyType(), id);
        });
        attempt("consumers obtain push sequence",
            () -> proxy(consumers.obtain_notification_push_supplier(ClientType.SEQUENCE_EVENT, last).MyType(), last));
        attempt("consumers obtain pull any",
            () -> proxy(consumers.obtain_notification_pull_supplier(ClientType.ANY_EVENT, last).MyType(), last));
        attempt("consumers obtain pull structured",
            () -> proxy(consumers.obtain_notification_pull_supplier(ClientType.STRUCTURED_EVENT, last).MyType(), last));
        attempt("consumers get_proxy_supplier", () -> same(consumers.get_proxy_supplier(id.value), sinkProxy));
        attempt("consumers get_proxy_supplier 999", () -> same(consumers.get_proxy_supplier(999), sinkProxy));
        attempt("consumers push_suppliers", () -> ids(consumers.push_suppliers()));
        attempt("consumers pull_suppliers", () -> ids(consumers.pull_suppliers()));
        attempt("consumers obtain_push_supplier", () -> nilOrThere(consumers.obtain_push_supplier()));
    }

    private static String proxy(ProxyType type, IntHolder id) {
        return proxy(id.value, type);
    }

    private void pushSupplier() throws UserException {
        if (sinkProxy == null) return;
        attempt("push_supplier MyAdmin", () -> same(sinkProxy.MyAdmin(), consumers));
        attempt("push_supplier get_qos", () -> text(sinkProxy.get_qos()));
        attemptVoid("push_supplier set_qos", () -> {
            Any yes = any();
            yes.insert_boolean(true);
            sinkProxy.set_qos(one("PushOneWay", yes));
        });
        attemptVoid("push_supplier set_qos bad", () -> sinkProxy.set_qos(threeBad()));
        attempt("push_supplier validate_event_qos", () -> {
            sinkProxy.validate_event_qos(threeBad(), ranges);
            return text(ranges.value);
        });
        attempt("push_supplier obtain_offered_types", () -> text(sinkProxy.obtain_offered_types(ObtainInfoMode.ALL_NOW_UPDATES_OFF)));
        attemptVoid("push_supplier subscription_change", () -> sinkProxy.subscription_change(ALARM, EVERYTHING));
        attempt("push_supplier priority_filter", () -> nilOrThere(sinkProxy.priority_filter()));
        attempt("push_supplier all_filters", () -> ids(sinkProxy.get_all_filters()));
        attemptVoid("push_supplier suspend unconnected", () -> sinkProxy.suspend_connection());
        attemptVoid("push_supplier resume unconnected", () -> sinkProxy.resume_connection());
        attemptVoid("push_supplier connect nil", () -> sinkProxy.connect_structured_push_consumer(null));
        StructuredPushConsumer self = StructuredPushConsumerHelper.narrow(peer.serve(new Sink(), "sink"));
        attemptVoid("push_supplier connect", () -> sinkProxy.connect_structured_push_consumer(self));
        attemptVoid("push_supplier connect again", () -> sinkProxy.connect_structured_push_consumer(self));
        // The limit is on who is connected, and asked about when a proxy is asked for.
        attemptVoid("channel set_admin MaxConsumers 1", () -> channel.set_admin(one("MaxConsumers", int32(1))));
        attempt("consumers obtain at MaxConsumers",
            () -> nilOrThere(consumers.obtain_notification_push_supplier(ClientType.ANY_EVENT, new IntHolder())));
        attemptVoid("push_supplier resume active", () -> sinkProxy.resume_connection());
        attemptVoid("push_supplier suspend", () -> sinkProxy.suspend_connection());
        attemptVoid("push_supplier suspend again", () -> sinkProxy.suspend_connection());
        attemptVoid("push_supplier resume", () -> sinkProxy.resume_connection());
        attemptVoid("push_supplier disconnect", () -> sinkProxy.disconnect_structured_push_supplier());
        attempt("push_supplier after disconnect", () -> yesNo(sinkProxy._non_existent()));
        attemptVoid("push_supplier suspend after disconnect", () -> sinkProxy.suspend_connection());
    }

    private void supplierAdmin() {
        attempt("suppliers MyID", () -> String.valueOf(suppliers.MyID()));
        attempt("suppliers MyChannel", () -> same(suppliers.MyChannel(), channel));
        attempt("suppliers MyOperator", () -> suppliers.MyOperator() == InterFilterGroupOperator.OR_OP ? "OR_OP" : "AND_OP");
        attempt("suppliers get_qos", () -> text(suppliers.get_qos()));
        attemptVoid("suppliers offer_change", () -> suppliers.offer_change(ALARM, EVERYTHING));
        IntHolder last = new IntHolder();
        attempt("suppliers obtain push any",
            () -> proxy(suppliers.obtain_notification_push_consumer(ClientType.ANY_EVENT, last).MyType(), last));
        attempt("suppliers obtain push structured", () -> {
            sourceProxy = StructuredProxyPushConsumerHelper.narrow(
                suppliers.obtain_notification_push_consumer(ClientType.STRUCTURED_EVENT, id));
            return proxy(sourceProxy.MyType(), id);
        });
        attempt("suppliers obtain push sequence",
            () -> proxy(suppliers.obtain_notification_push_consumer(ClientType.SEQUENCE_EVENT, last).MyType(), last));
        attempt("suppliers obtain pull any",
            () -> proxy(suppliers.obtain_notification_pull_consumer(ClientType.ANY_EVENT, last).MyType(), last));
        attempt("suppliers get_proxy_consumer", () -> same(suppliers.get_proxy_consumer(id.value), sourceProxy));
        attempt("suppliers get_proxy_consumer 999", () -> same(suppliers.get_proxy_consumer(999), sourceProxy));
        attempt("suppliers push_consumers", () -> ids(suppliers.push_consumers()));
        attempt("suppliers pull_consumers", () -> ids(suppliers.pull_consumers()));
        attempt("suppliers obtain_push_consumer", () -> nilOrThere(suppliers.obtain_push_consumer()));
        attempt("suppliers obtain_pull_consumer", () -> nilOrThere(suppliers.obtain_pull_consumer()));
    }

    private void pushConsumer() throws UserException {
        if (sourceProxy == null) return;
        StructuredEvent event = peer.shaper.makeEvent("nested", 0, 0);
        attempt("push_consumer MyAdmin", () -> same(sourceProxy.MyAdmin(), suppliers));
        attempt("push_consumer get_qos", () -> text(sourceProxy.get_qos()));
        attempt("push_consumer validate_event_qos", () -> {
            sourceProxy.validate_event_qos(threeBad(), ranges);
            return text(ranges.value);
        });
        attempt("push_consumer obtain_subscription_types",
            () -> text(sourceProxy.obtain_subscription_types(ObtainInfoMode.ALL_NOW_UPDATES_OFF)));
        attemptVoid("push_consumer push unconnected", () -> sourceProxy.push_structured_event(event));
        StructuredPushSupplier self = StructuredPushSupplierHelper.narrow(peer.serve(new Source(), "source"));
        attemptVoid("push_consumer connect", () -> sourceProxy.connect_structured_push_supplier(self));
        attemptVoid("push_consumer connect again", () -> sourceProxy.connect_structured_push_supplier(self));
        attemptVoid("push_consumer offer_change", () -> sourceProxy.offer_change(ALARM, EVERYTHING));
        attemptVoid("push_consumer push", () -> sourceProxy.push_structured_event(event));
        attemptVoid("push_consumer disconnect", () -> sourceProxy.disconnect_structured_push_consumer());
        attemptVoid("push_consumer push after disconnect", () -> sourceProxy.push_structured_event(event));
    }

    private void wrong() {
        attempt("wrong operation", () -> String.valueOf(WitnessHelper.unchecked_narrow(factory).twice(1)));
        attempt("wrong interface", () -> ids(EventChannelHelper.unchecked_narrow(factory).get_all_consumeradmins()));
    }

    private void destroy() {
        int adminId = suppliers.MyID();
        attemptVoid("suppliers destroy", () -> suppliers.destroy());
        attempt("suppliers MyID after destroy", () -> String.valueOf(suppliers.MyID()));
        attempt("channel get_supplieradmin after destroy", () -> nilOrThere(channel.get_supplieradmin(adminId)));
        SupplierAdmin defaultAdmin = channel.default_supplier_admin();
        attemptVoid("channel destroy", () -> channel.destroy());
        attempt("channel MyFactory after destroy", () -> same(channel.MyFactory(), factory));
        attempt("consumers MyID after channel destroy", () -> String.valueOf(consumers.MyID()));
        attempt("default_supplier_admin MyID after channel destroy", () -> String.valueOf(defaultAdmin.MyID()));
        attempt("factory all_channels in the end", () -> ids(factory.get_all_channels()));
    }
}
