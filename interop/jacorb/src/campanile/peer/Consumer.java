package campanile.peer;

import org.omg.CORBA.Any;
import org.omg.CORBA.BooleanHolder;
import org.omg.CORBA.IntHolder;
import org.omg.CORBA.SystemException;
import org.omg.CORBA.UserException;
import org.omg.CosEventComm.Disconnected;
import org.omg.CosEventComm.PullConsumerHelper;
import org.omg.CosEventComm.PullConsumerPOA;
import org.omg.CosEventComm.PullSupplier;
import org.omg.CosEventComm.PushConsumerHelper;
import org.omg.CosEventComm.PushConsumerPOA;
import org.omg.CosNotification.EventType;
import org.omg.CosNotification.StructuredEvent;
import org.omg.CosNotifyChannelAdmin.ClientType;
import org.omg.CosNotifyChannelAdmin.ConsumerAdmin;
import org.omg.CosNotifyChannelAdmin.EventChannel;
import org.omg.CosNotifyChannelAdmin.InterFilterGroupOperator;
import org.omg.CosNotifyChannelAdmin.ProxyPullSupplier;
import org.omg.CosNotifyChannelAdmin.ProxyPullSupplierHelper;
import org.omg.CosNotifyChannelAdmin.ProxyPushSupplier;
import org.omg.CosNotifyChannelAdmin.ProxyPushSupplierHelper;
import org.omg.CosNotifyChannelAdmin.ProxySupplier;
import org.omg.CosNotifyChannelAdmin.SequenceProxyPullSupplier;
import org.omg.CosNotifyChannelAdmin.SequenceProxyPullSupplierHelper;
import org.omg.CosNotifyChannelAdmin.SequenceProxyPushSupplier;
import org.omg.CosNotifyChannelAdmin.SequenceProxyPushSupplierHelper;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPullSupplier;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPullSupplierHelper;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushSupplier;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushSupplierHelper;
import org.omg.CosNotifyComm.NotifySubscribeOperations;
import org.omg.CosNotifyComm.SequencePullConsumerHelper;
import org.omg.CosNotifyComm.SequencePullConsumerPOA;
import org.omg.CosNotifyComm.SequencePushConsumerHelper;
import org.omg.CosNotifyComm.SequencePushConsumerPOA;
import org.omg.CosNotifyComm.StructuredPullConsumerHelper;
import org.omg.CosNotifyComm.StructuredPullConsumerPOA;
import org.omg.CosNotifyComm.StructuredPushConsumerHelper;
import org.omg.CosNotifyComm.StructuredPushConsumerPOA;
import org.omg.PortableServer.Servant;

/** {@code consumer}: connects to a channel, or waits to be pushed to directly, and checks every event that arrives. */
final class Consumer {
    /** Gets what is next, waiting for it or not; false if there was nothing. */
    private interface Pull {
        boolean pull(boolean wait) throws UserException;
    }

    private record Connection(Runnable disconnect, Pull pull) {}

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

    private final class SequenceServant extends SequencePushConsumerPOA {
        @Override
        public void push_structured_events(StructuredEvent[] events) throws Disconnected {
            inbox.sequence(events);
        }

        @Override
        public void disconnect_sequence_push_consumer() {
            inbox.disconnected();
        }

        @Override
        public void offer_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("offer_change", added, removed));
        }
    }

    private final class StructuredPuller extends StructuredPullConsumerPOA {
        @Override
        public void disconnect_structured_pull_consumer() {
            inbox.disconnected();
        }

        @Override
        public void offer_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("offer_change", added, removed));
        }
    }

    private final class AnyPuller extends org.omg.CosNotifyComm.PullConsumerPOA {
        @Override
        public void disconnect_pull_consumer() {
            inbox.disconnected();
        }

        @Override
        public void offer_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("offer_change", added, removed));
        }
    }

    private final class SequencePuller extends SequencePullConsumerPOA {
        @Override
        public void disconnect_sequence_pull_consumer() {
            inbox.disconnected();
        }

        @Override
        public void offer_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("offer_change", added, removed));
        }
    }

    private final class PlainPuller extends PullConsumerPOA {
        @Override
        public void disconnect_pull_consumer() {
            inbox.disconnected();
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
        Connection connection = consumer.connect();
        Console.say("ready");
        if (connection.pull != null) {
            Thread puller = new Thread(() -> consumer.pullAll(connection.pull), "pull");
            puller.setDaemon(true);
            puller.start();
        }
        Thread listener = new Thread(consumer::listen, "input");
        listener.setDaemon(true);
        listener.start();
        boolean good = consumer.inbox.await();
        Console.say("done " + consumer.inbox.seen() + " bad " + consumer.inbox.bad());
        try {
            if (!args.has("stay")) connection.disconnect.run();
        } catch (SystemException refused) {
            Console.say("disconnect " + Peer.describe(refused));
        }
        // Its object is there to be called until the end of input.
        if (args.has("linger")) consumer.inbox.awaitStop();
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

    private Servant servant(String form) {
        boolean pulls = args.has("pull");
        return switch (form) {
            case "structured" -> pulls ? new StructuredPuller() : new StructuredServant();
            case "sequence" -> pulls ? new SequencePuller() : new SequenceServant();
            case "any" -> pulls ? new AnyPuller() : new AnyServant();
            default -> pulls ? new PlainPuller() : new PlainServant();
        };
    }

    private Connection connect() throws UserException {
        String form = args.text("form", "structured");
        org.omg.CORBA.Object self = peer.serve(servant(form), args.text("name", "consumer"));
        if (args.has("direct")) {
            Console.say("ior " + peer.orb.object_to_string(self));
            // The supplier disconnects when it is done; ending earlier would cut off the reply to its last push.
            return new Connection(inbox::awaitDisconnection, null);
        }
        if (form.equals("cosevent")) return connectPlain(self);
        ConsumerAdmin admin = admin(peer.channel(args));
        return args.has("pull") ? connectPull(admin, form, self) : connectPush(admin, form, self);
    }

    private Connection connectPlain(org.omg.CORBA.Object self) throws UserException {
        org.omg.CosEventChannelAdmin.ConsumerAdmin admin = peer.eventChannel(args).for_consumers();
        if (args.has("pull")) {
            org.omg.CosEventChannelAdmin.ProxyPullSupplier proxy = admin.obtain_pull_supplier();
            proxy.connect_pull_consumer(PullConsumerHelper.narrow(self));
            return new Connection(proxy::disconnect_pull_supplier, wait -> pullAny(proxy, wait));
        }
        org.omg.CosEventChannelAdmin.ProxyPushSupplier proxy = admin.obtain_push_supplier();
        proxy.connect_push_consumer(PushConsumerHelper.narrow(self));
        return new Connection(proxy::disconnect_push_supplier, null);
    }

    private Connection connectPush(ConsumerAdmin admin, String form, org.omg.CORBA.Object self) throws UserException {
        IntHolder id = new IntHolder();
        if (form.equals("any")) {
            ProxyPushSupplier proxy = ProxyPushSupplierHelper.narrow(admin.obtain_notification_push_supplier(ClientType.ANY_EVENT, id));
            prepare(proxy, proxy, id.value);
            proxy.connect_any_push_consumer(PushConsumerHelper.narrow(self));
            return new Connection(proxy::disconnect_push_supplier, null);
        }
        if (form.equals("sequence")) {
            SequenceProxyPushSupplier proxy = SequenceProxyPushSupplierHelper.narrow(
                admin.obtain_notification_push_supplier(ClientType.SEQUENCE_EVENT, id));
            prepare(proxy, proxy, id.value);
            proxy.connect_sequence_push_consumer(SequencePushConsumerHelper.narrow(self));
            return new Connection(proxy::disconnect_sequence_push_supplier, null);
        }
        StructuredProxyPushSupplier proxy = StructuredProxyPushSupplierHelper.narrow(
            admin.obtain_notification_push_supplier(ClientType.STRUCTURED_EVENT, id));
        prepare(proxy, proxy, id.value);
        proxy.connect_structured_push_consumer(StructuredPushConsumerHelper.narrow(self));
        return new Connection(proxy::disconnect_structured_push_supplier, null);
    }

    private Connection connectPull(ConsumerAdmin admin, String form, org.omg.CORBA.Object self) throws UserException {
        IntHolder id = new IntHolder();
        if (form.equals("any")) {
            ProxyPullSupplier proxy = ProxyPullSupplierHelper.narrow(admin.obtain_notification_pull_supplier(ClientType.ANY_EVENT, id));
            prepare(proxy, proxy, id.value);
            proxy.connect_any_pull_consumer(PullConsumerHelper.narrow(self));
            return new Connection(proxy::disconnect_pull_supplier, wait -> pullAny(proxy, wait));
        }
        if (form.equals("sequence")) {
            SequenceProxyPullSupplier proxy = SequenceProxyPullSupplierHelper.narrow(
                admin.obtain_notification_pull_supplier(ClientType.SEQUENCE_EVENT, id));
            prepare(proxy, proxy, id.value);
            proxy.connect_sequence_pull_consumer(SequencePullConsumerHelper.narrow(self));
            int most = (int) args.number("batch", 4);
            return new Connection(proxy::disconnect_sequence_pull_supplier, wait -> {
                BooleanHolder hasEvent = new BooleanHolder(true);
                StructuredEvent[] events = wait ? proxy.pull_structured_events(most) : proxy.try_pull_structured_events(most, hasEvent);
                if (hasEvent.value) inbox.sequence(events);
                return hasEvent.value;
            });
        }
        StructuredProxyPullSupplier proxy = StructuredProxyPullSupplierHelper.narrow(
            admin.obtain_notification_pull_supplier(ClientType.STRUCTURED_EVENT, id));
        prepare(proxy, proxy, id.value);
        proxy.connect_structured_pull_consumer(StructuredPullConsumerHelper.narrow(self));
        return new Connection(proxy::disconnect_structured_pull_supplier, wait -> {
            BooleanHolder hasEvent = new BooleanHolder(true);
            StructuredEvent event = wait ? proxy.pull_structured_event() : proxy.try_pull_structured_event(hasEvent);
            if (hasEvent.value) inbox.structured(event);
            return hasEvent.value;
        });
    }

    private boolean pullAny(PullSupplier from, boolean wait) throws Disconnected {
        BooleanHolder hasEvent = new BooleanHolder(true);
        Any value = wait ? from.pull() : from.try_pull(hasEvent);
        if (hasEvent.value) inbox.any(value);
        return hasEvent.value;
    }

    /** Pulls until all that is to come has come. One that only tries gives way to others in between. */
    private void pullAll(Pull pull) {
        boolean tries = args.has("try");
        try {
            while (!inbox.isDone()) {
                if (!pull.pull(!tries)) Thread.yield();
            }
        } catch (SystemException | UserException refused) {
            Console.say("pull " + Peer.describe(refused));
            inbox.stop();
        }
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
    private void prepare(ProxySupplier proxy, NotifySubscribeOperations subscriber, int id) throws UserException {
        ConsumerAdmin admin = proxy.MyAdmin();
        Filters.add(peer, args, admin.MyChannel(), args.text("filter-at", "proxy").equals("admin") ? admin : proxy);
        if (args.has("qos")) proxy.set_qos(peer.qos(args, "qos"));
        if (args.has("add") || args.has("remove")) {
            subscriber.subscription_change(Peer.types(args, "add"), Peer.types(args, "remove"));
        }
        Console.say("proxy " + id);
    }
}
