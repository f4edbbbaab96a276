package campanile.peer;

import java.util.concurrent.locks.LockSupport;
import org.omg.CORBA.IntHolder;
import org.omg.CORBA.SystemException;
import org.omg.CORBA.UserException;
import org.omg.CosEventChannelAdmin.ProxyPushConsumer;
import org.omg.CosEventComm.PushConsumer;
import org.omg.CosEventComm.PushConsumerHelper;
import org.omg.CosEventComm.PushSupplierHelper;
import org.omg.CosEventComm.PushSupplierPOA;
import org.omg.CosNotification.EventType;
import org.omg.CosNotifyChannelAdmin.ClientType;
import org.omg.CosNotifyChannelAdmin.ProxyPushConsumerHelper;
import org.omg.CosNotifyChannelAdmin.SequenceProxyPushConsumer;
import org.omg.CosNotifyChannelAdmin.SequenceProxyPushConsumerHelper;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushConsumer;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushConsumerHelper;
import org.omg.CosNotifyChannelAdmin.SupplierAdmin;
import org.omg.CosNotifyComm.SequencePushSupplierHelper;
import org.omg.CosNotifyComm.SequencePushSupplierPOA;
import org.omg.CosNotifyComm.StructuredPushConsumer;
import org.omg.CosNotifyComm.StructuredPushConsumerHelper;
import org.omg.CosNotifyComm.StructuredPushSupplierHelper;
import org.omg.CosNotifyComm.StructuredPushSupplierPOA;

/** {@code supplier}: connects to a channel, or straight to a consumer, and pushes the events of a scenario. */
final class Supplier {
    /** Pushes {@code count} events from number {@code index} of the scenario on. */
    interface Push {
        void push(int index, int count) throws UserException;
    }

    /** {@code push} is null where the service pulls; {@code batch} is how many events go in one push. */
    record Connection(Push push, Runnable disconnect, int batch) {
        Connection(Push push, Runnable disconnect) {
            this(push, disconnect, 1);
        }
    }

    private static final class StructuredTold extends StructuredPushSupplierPOA {
        @Override
        public void disconnect_structured_push_supplier() {
            Console.say("disconnected");
        }

        @Override
        public void subscription_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("subscription_change", added, removed));
        }
    }

    private static final class AnyTold extends org.omg.CosNotifyComm.PushSupplierPOA {
        @Override
        public void disconnect_push_supplier() {
            Console.say("disconnected");
        }

        @Override
        public void subscription_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("subscription_change", added, removed));
        }
    }

    private static final class SequenceTold extends SequencePushSupplierPOA {
        @Override
        public void disconnect_sequence_push_supplier() {
            Console.say("disconnected");
        }

        @Override
        public void subscription_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("subscription_change", added, removed));
        }
    }

    private static final class PlainTold extends PushSupplierPOA {
        @Override
        public void disconnect_push_supplier() {
            Console.say("disconnected");
        }
    }

    private final Peer peer;
    private final Args args;
    private final Stock stock;
    private final boolean keepGoing;
    private final long stepNs;
    private long dueNs;
    private int next;
    private long pushed;
    private long failed;

    private Supplier(Args args) throws UserException {
        this.args = args;
        peer = new Peer(args);
        stock = new Stock(peer, args);
        keepGoing = args.has("keep-going");
        next = (int) args.number("first", 0);
        long rate = args.number("rate", 0);
        stepNs = rate == 0 ? 0 : 1_000_000_000L / rate;
    }

    static int run(Args args) throws UserException {
        Supplier supplier = new Supplier(args);
        Connection connection = supplier.connect();
        Console.say("ready");
        boolean all = args.has("step") ? supplier.step(connection) : supplier.push(connection, args.number("count", 1));
        Console.say("done " + supplier.pushed + " failed " + supplier.failed);
        if (args.has("stay")) {
            // Connected to the end of input, and then gone without a word.
            Console.untilQuit();
            return all ? 0 : 1;
        }
        try {
            connection.disconnect.run();
        } catch (SystemException refused) {
            // It changes nothing about the events.
            Console.say("disconnect " + Peer.describe(refused));
        }
        // Its object is there to be called until the end of input.
        if (args.has("linger")) Console.untilQuit();
        return all ? 0 : 1;
    }

    private boolean step(Connection connection) {
        boolean all = true;
        String line = Console.hear();
        while (all && line != null && line.startsWith("push ")) {
            all = push(connection, Long.parseLong(line.substring(5).trim()));
            Console.say("pushed " + pushed);
            line = Console.hear();
        }
        return all;
    }

    /** False when a push was refused and the run is not to go on. */
    private boolean push(Connection connection, long count) {
        if (connection.push == null) {
            stock.add(count);
            stock.awaitEmpty();
            pushed += count;
            return true;
        }
        dueNs = System.nanoTime();
        for (long left = count; left > 0;) {
            pace();
            int size = (int) Math.min(left, connection.batch);
            int index = next;
            next += size;
            left -= size;
            try {
                Priorities.prioritize(index);
                connection.push.push(index, size);
                Priorities.sayEcho();
                pushed += size;
            } catch (SystemException | UserException refused) {
                Console.say("failed " + index + " " + Peer.describe(refused));
                failed += size;
                if (!keepGoing) return false;
            }
        }
        return true;
    }

    private Connection connect() throws UserException {
        if (args.has("pull")) return stock.connect();
        return switch (args.text("form", "")) {
            case "sequence" -> sequence();
            case "structured" -> structured();
            default -> any();
        };
    }

    /** Keeps events apart by absolute times, so that a late one does not shift the next. */
    private void pace() {
        if (stepNs == 0) return;
        long left = dueNs - System.nanoTime();
        while (left > 0) {
            LockSupport.parkNanos(left);
            left = dueNs - System.nanoTime();
        }
        dueNs += stepNs;
    }

    private Push pusher(StructuredPushConsumer to) {
        return (index, count) -> to.push_structured_event(stock.event(index));
    }

    private Push pusher(PushConsumer to) {
        return (index, count) -> to.push(stock.any(index));
    }

    private Connection structured() throws UserException {
        if (args.has("consumer")) {
            StructuredPushConsumer to = StructuredPushConsumerHelper.narrow(peer.resolve(args.text("consumer", "")));
            return new Connection(pusher(to), to::disconnect_structured_push_consumer);
        }
        SupplierAdmin admin = peer.channel(args).default_supplier_admin();
        IntHolder id = new IntHolder();
        StructuredProxyPushConsumer proxy = StructuredProxyPushConsumerHelper.narrow(
            admin.obtain_notification_push_consumer(ClientType.STRUCTURED_EVENT, id));
        proxy.connect_structured_push_supplier(
            StructuredPushSupplierHelper.narrow(peer.serve(new StructuredTold(), "supplier")));
        Priorities.sayModel();
        Console.say("proxy " + id.value);
        return new Connection(pusher(proxy), proxy::disconnect_structured_push_consumer);
    }

    private Connection sequence() throws UserException {
        SupplierAdmin admin = peer.channel(args).default_supplier_admin();
        IntHolder id = new IntHolder();
        SequenceProxyPushConsumer proxy = SequenceProxyPushConsumerHelper.narrow(
            admin.obtain_notification_push_consumer(ClientType.SEQUENCE_EVENT, id));
        proxy.connect_sequence_push_supplier(SequencePushSupplierHelper.narrow(peer.serve(new SequenceTold(), "supplier")));
        Priorities.sayModel();
        Console.say("proxy " + id.value);
        Push push = (index, count) -> proxy.push_structured_events(stock.events(index, count));
        return new Connection(push, proxy::disconnect_sequence_push_consumer, (int) args.number("batch", 4));
    }

    private Connection any() throws UserException {
        if (args.has("consumer")) {
            PushConsumer to = PushConsumerHelper.narrow(peer.resolve(args.text("consumer", "")));
            return new Connection(pusher(to), to::disconnect_push_consumer);
        }
        if (args.text("form", "").equals("cosevent")) {
            ProxyPushConsumer proxy = peer.eventChannel(args).for_suppliers().obtain_push_consumer();
            proxy.connect_push_supplier(PushSupplierHelper.narrow(peer.serve(new PlainTold(), "supplier")));
            return new Connection(pusher(proxy), proxy::disconnect_push_consumer);
        }
        SupplierAdmin admin = peer.channel(args).default_supplier_admin();
        IntHolder id = new IntHolder();
        org.omg.CosNotifyChannelAdmin.ProxyPushConsumer proxy = ProxyPushConsumerHelper.narrow(
            admin.obtain_notification_push_consumer(ClientType.ANY_EVENT, id));
        proxy.connect_any_push_supplier(PushSupplierHelper.narrow(peer.serve(new AnyTold(), "supplier")));
        Priorities.sayModel();
        Console.say("proxy " + id.value);
        return new Connection(pusher(proxy), proxy::disconnect_push_consumer);
    }
}
