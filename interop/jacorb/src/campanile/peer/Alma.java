package campanile.peer;

import NotifyExt.ReconnectionCallbackHelper;
import NotifyExt.ReconnectionCallbackPOA;
import NotifyMonitoringExt.ConsumerAdmin;
import NotifyMonitoringExt.ConsumerAdminHelper;
import NotifyMonitoringExt.EventChannel;
import NotifyMonitoringExt.EventChannelFactory;
import NotifyMonitoringExt.EventChannelFactoryHelper;
import NotifyMonitoringExt.EventChannelHelper;
import NotifyMonitoringExt.NameAlreadyUsed;
import NotifyMonitoringExt.SupplierAdmin;
import NotifyMonitoringExt.SupplierAdminHelper;
import acsnc.EventDescription;
import acsnc.EventDescriptionHelper;
import org.omg.CORBA.Any;
import org.omg.CORBA.IntHolder;
import org.omg.CORBA.NO_IMPLEMENT;
import org.omg.CORBA.UserException;
import org.omg.CosNaming.NameComponent;
import org.omg.CosNaming.NamingContext;
import org.omg.CosNaming.NamingContextHelper;
import org.omg.CosNotification.EventHeader;
import org.omg.CosNotification.EventType;
import org.omg.CosNotification.FixedEventHeader;
import org.omg.CosNotification.NotificationServiceMonitorControl;
import org.omg.CosNotification.NotificationServiceMonitorControlHelper;
import org.omg.CosNotification.NotificationServiceMonitorControlPackage.InvalidName;
import org.omg.CosNotification.Property;
import org.omg.CosNotification.StructuredEvent;
import org.omg.CosNotifyChannelAdmin.ClientType;
import org.omg.CosNotifyChannelAdmin.InterFilterGroupOperator;
import org.omg.CosNotifyChannelAdmin.ProxySupplier;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushConsumer;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushConsumerHelper;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushSupplier;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushSupplierHelper;
import org.omg.CosNotifyComm.StructuredPushConsumerHelper;
import org.omg.CosNotifyComm.StructuredPushConsumerPOA;
import org.omg.CosNotifyFilter.ConstraintExp;
import org.omg.CosNotifyFilter.Filter;

/**
 * A client that does what those of ALMA Common Software do: creates or shares a channel by its name, has named proxies, an unconnected
 * proxy that marks its admin as shared, a reconnection callback, and reads statistics.
 */
final class Alma {
    private final Peer peer;
    private final String channelName;
    private final String name;
    private final EventChannelFactory factory;
    private final NotificationServiceMonitorControl monitor;
    private final NamingContext naming;
    private EventChannel channel;
    private ConsumerAdmin consumers;
    private StructuredProxyPushConsumer consumer;
    private org.omg.CORBA.Object receiver;
    /** What its proxy is to be called; all of these clients want the same. */
    private String proxy = "dish";
    private int pushed;

    private Alma(Args args) throws UserException {
        peer = new Peer(args);
        channelName = args.text("channel-name", "CONTROL");
        name = args.text("name", "client");
        factory = EventChannelFactoryHelper.narrow(peer.resolve(args.text("factory", "")));
        monitor = NotificationServiceMonitorControlHelper.narrow(peer.resolve(args.text("monitor", "")));
        naming = NamingContextHelper.narrow(peer.orb.resolve_initial_references("NameService"));
    }

    static int run(Args args) throws UserException {
        Alma client = new Alma(args);
        client.channel = client.createdOrShared();
        org.omg.CORBA.Object callback = client.peer.serve(new Callback(), "callback");
        client.factory.register_callback(ReconnectionCallbackHelper.narrow(callback));
        client.subscribe(true);
        client.supply();
        Console.say("ready");
        for (String line = Console.hear(); line != null; line = Console.hear()) {
            if (line.equals("again")) client.subscribe(false);
            if (line.startsWith("push ")) client.push(Integer.parseInt(line.substring(5)));
            if (line.startsWith("statistic ")) client.statistic(line.substring(10));
        }
        Console.say("done");
        return 0;
    }

    private NameComponent[] path() {
        return new NameComponent[] {new NameComponent(channelName + "@DEFAULTDOMAIN", "channels")};
    }

    /** The name is what keeps two that come at once from making a channel each. */
    private EventChannel createdOrShared() throws UserException {
        try {
            naming.bind(path(), factory.create_named_channel(new Property[0], new Property[0], new IntHolder(), channelName));
            Console.say("channel created");
        } catch (NameAlreadyUsed used) {
            Console.say("channel used");
            Console.hear();
        }
        return EventChannelHelper.narrow(naming.resolve(path()));
    }

    private void subscribe(boolean first) throws UserException {
        if (first) {
            consumers = ConsumerAdminHelper.narrow(channel.new_for_consumers(InterFilterGroupOperator.AND_OP, new IntHolder()));
            consumers.obtain_named_notification_push_supplier(ClientType.ANY_EVENT, new IntHolder(), "dummyproxy-" + name);
            receiver = peer.serve(new Receiver(), "receiver");
        }
        StructuredProxyPushSupplier supplier = StructuredProxyPushSupplierHelper.narrow(obtain(first));
        EventType[] types = {new EventType("ALMA", "Temperature")};
        supplier.subscription_change(types, new EventType[] {new EventType("*", "*")});
        Filter filter = channel.default_filter_factory().create_filter("ETCL");
        filter.add_constraints(new ConstraintExp[] {new ConstraintExp(types, "")});
        supplier.add_filter(filter);
        supplier.connect_structured_push_consumer(StructuredPushConsumerHelper.narrow(receiver));
        Console.say("subscribed");
    }

    /** Under another name where the first is had already. */
    private ProxySupplier obtain(boolean first) throws UserException {
        for (int tries = 0;; ++tries) {
            String wanted = tries == 0 ? proxy : proxy + "-" + tries;
            try {
                ProxySupplier found =
                    consumers.obtain_named_notification_push_supplier(ClientType.STRUCTURED_EVENT, new IntHolder(), wanted);
                Console.say("proxy " + wanted);
                if (first) proxy = wanted;
                return found;
            } catch (NameAlreadyUsed used) {
                continue;
            }
        }
    }

    private void supply() throws UserException {
        SupplierAdmin suppliers = SupplierAdminHelper.narrow(channel.default_supplier_admin());
        consumer = StructuredProxyPushConsumerHelper.narrow(
            suppliers.obtain_named_notification_push_consumer(ClientType.STRUCTURED_EVENT, new IntHolder(), name));
        consumer.connect_structured_push_supplier(null);
    }

    private void push(int count) throws UserException {
        for (int i = 0; i < count; ++i) {
            Any data = peer.orb.create_any();
            data.insert_long(pushed);
            Any remainder = peer.orb.create_any();
            EventDescriptionHelper.insert(remainder, new EventDescription(name, 138000000000000000L, pushed++));
            FixedEventHeader fixed = new FixedEventHeader(new EventType("ALMA", "Temperature"), "");
            EventHeader header = new EventHeader(fixed, new Property[0]);
            consumer.push_structured_event(new StructuredEvent(header, new Property[] {new Property("", data)}, remainder));
        }
        Console.say("pushed " + pushed);
    }

    private void statistic(String wanted) {
        try {
            Monitor.UData data = monitor.get_statistic(wanted).data_union;
            if (data.discriminator() == Monitor.DataType.DATA_NUMERIC) {
                Console.say("statistic " + (long) data.num().last);
            } else {
                Console.say(("statistic " + String.join(" ", data.list())).trim());
            }
        } catch (InvalidName raised) {
            Console.say("statistic InvalidName " + raised.names.length);
        }
    }

    /** Says which events come: whose, and their number. */
    private static final class Receiver extends StructuredPushConsumerPOA {
        @Override
        public void push_structured_event(StructuredEvent event) {
            EventDescription description = EventDescriptionHelper.extract(event.remainder_of_body);
            Console.say("got " + description.name + " " + event.filterable_data[0].value.extract_long());
        }

        @Override
        public void disconnect_structured_push_consumer() {
            Console.say("disconnected");
        }

        @Override
        public void offer_change(EventType[] added, EventType[] removed) {}
    }

    /** Its liveness answers with an exception, as ALMA's does. */
    private static final class Callback extends ReconnectionCallbackPOA {
        @Override
        public void reconnect(org.omg.CORBA.Object factory) {
            Console.say(EventChannelFactoryHelper.narrow(factory) == null ? "reconnect with something else" : "reconnect");
        }

        @Override
        public boolean is_alive() {
            throw new NO_IMPLEMENT();
        }
    }
}
