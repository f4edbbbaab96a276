package campanile.peer;

import org.omg.CORBA.Any;
import org.omg.CORBA.IntHolder;
import org.omg.CORBA.SystemException;
import org.omg.CORBA.UserException;
import org.omg.CosEventComm.Disconnected;
import org.omg.CosEventComm.PushConsumerHelper;
import org.omg.CosEventComm.PushConsumerPOA;
import org.omg.CosNotification.EventType;
import org.omg.CosNotification.StructuredEvent;
import org.omg.CosNotifyChannelAdmin.ClientType;
import org.omg.CosNotifyChannelAdmin.ConsumerAdmin;
import org.omg.CosNotifyChannelAdmin.EventChannel;
import org.omg.CosNotifyChannelAdmin.InterFilterGroupOperator;
import org.omg.CosNotifyChannelAdmin.ProxyPushSupplier;
import org.omg.CosNotifyChannelAdmin.ProxyPushSupplierHelper;
import org.omg.CosNotifyChannelAdmin.ProxySupplier;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushSupplier;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushSupplierHelper;
import org.omg.CosNotifyComm.StructuredPushConsumerHelper;
import org.omg.CosNotifyComm.StructuredPushConsumerPOA;
import org.omg.PortableServer.Servant;

/** {@code consumer}: connects to a channel, or waits to be pushed to directly, and checks every event that arrives. */
final class Consumer {
    private final class StructuredServant extends StructuredPushConsumerPOA {
        @Override
        public void push_structured_event(StructuredEvent event) throws Disconnected {
            inbox.structured(event);
        }

        @Override
        public void disconnect_structured_push_consumer() {
            inbox.disconnected();
        }

        @Override
        public void offer_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("offer_change", added, removed));
        }
    }

    private final class AnyServant extends org.omg.CosNotifyComm.PushConsumerPOA {
        @Override
        public void push(Any value) throws Disconnected {
            inbox.any(value);
        }

        @Override
        public void disconnect_push_consumer() {
            inbox.disconnected();
        }

        @Override
        public void offer_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("offer_change", added, removed));
        }
    }

    private final class PlainServant extends PushConsumerPOA {
        @Override
        public void push(Any value) throws Disconnected {
            inbox.any(value);
        }

        @Override
        public void disconnect_push_consumer() {
            inbox.disconnected();
        }
    }

    private final Args args;
    private final Peer peer;
    private final Inbox inbox;

    private Consumer(Args args) throws UserException {
        this.args = args;
        peer = new Peer(args);
        inbox = new Inbox(args, peer.shaper);
    }

    static int run(Args args) throws UserException {
        Consumer consumer = new Consumer(args);
        Runnable disconnect = consumer.connect();
        Console.say("ready");
        Thread listener = new Thread(consumer::listen, "input");
        listener.setDaemon(true);
        listener.start();
        boolean good = consumer.inbox.await();
        Console.say("done " + consumer.inbox.seen() + " bad " + consumer.inbox.bad());
        try {
            if (!args.has("stay")) disconnect.run();
        } catch (SystemException refused) {
            Console.say("disconnect " + Peer.describe(refused));
        }
        // Lets a reply that is still on its way out go first.
        consumer.peer.orb.shutdown(true);
        return good ? 0 : 1;
    }

    private void listen() {
        String line = Console.hear();
        while (line != null && !line.equals("quit")) {
            if (line.equals("resume")) inbox.resume();
            line = Console.hear();
        }
        inbox.stop();
    }

    private Runnable connect() throws UserException {
        String form = args.text("form", "structured");
        Servant servant = form.equals("structured") ? new StructuredServant() : form.equals("any") ? new AnyServant() : new PlainServant();
        org.omg.CORBA.Object self = peer.serve(servant, args.text("name", "consumer"));
        if (args.has("direct")) {
            Console.say("ior " + peer.orb.object_to_string(self));
            // The supplier disconnects when it is done; ending earlier would cut off the reply to its last push.
            return inbox::awaitDisconnection;
        }
        if (form.equals("cosevent")) {
            org.omg.CosEventChannelAdmin.ProxyPushSupplier proxy = peer.eventChannel(args).for_consumers().obtain_push_supplier();
            proxy.connect_push_consumer(PushConsumerHelper.narrow(self));
            return proxy::disconnect_push_supplier;
        }
        ConsumerAdmin admin = admin(peer.channel(args));
        IntHolder id = new IntHolder();
        if (form.equals("any")) {
            ProxyPushSupplier proxy = ProxyPushSupplierHelper.narrow(admin.obtain_notification_push_supplier(ClientType.ANY_EVENT, id));
            prepare(proxy, id.value);
            proxy.connect_any_push_consumer(PushConsumerHelper.narrow(self));
            return proxy::disconnect_push_supplier;
        }
        StructuredProxyPushSupplier proxy = StructuredProxyPushSupplierHelper.narrow(
            admin.obtain_notification_push_supplier(ClientType.STRUCTURED_EVENT, id));
        prepare(proxy, id.value);
        proxy.connect_structured_push_consumer(StructuredPushConsumerHelper.narrow(self));
        return proxy::disconnect_structured_push_supplier;
    }

    private ConsumerAdmin admin(EventChannel channel) {
        String which = args.text("admin", "default");
        if (which.equals("default")) return channel.default_consumer_admin();
        IntHolder id = new IntHolder();
        ConsumerAdmin made = channel.new_for_consumers(
            which.equals("or") ? InterFilterGroupOperator.OR_OP : InterFilterGroupOperator.AND_OP, id);
        Console.say("admin " + id.value);
        return made;
    }

    /** Sets what the options say on the proxy, before it is connected, so that the first event already finds it so. */
    private void prepare(ProxySupplier proxy, int id) throws UserException {
        if (args.has("qos")) proxy.set_qos(peer.qos(args, "qos"));
        if (args.has("add") || args.has("remove")) {
            EventType[] added = Peer.types(args, "add");
            EventType[] removed = Peer.types(args, "remove");
            if (proxy instanceof ProxyPushSupplier any) any.subscription_change(added, removed);
            else ((StructuredProxyPushSupplier) proxy).subscription_change(added, removed);
        }
        Console.say("proxy " + id);
    }
}
