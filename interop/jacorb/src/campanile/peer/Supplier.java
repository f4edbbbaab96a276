package campanile.peer;

import java.util.List;
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
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushConsumer;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPushConsumerHelper;
import org.omg.CosNotifyChannelAdmin.SupplierAdmin;
import org.omg.CosNotifyComm.StructuredPushConsumer;
import org.omg.CosNotifyComm.StructuredPushConsumerHelper;
import org.omg.CosNotifyComm.StructuredPushSupplierHelper;
import org.omg.CosNotifyComm.StructuredPushSupplierPOA;

/** {@code supplier}: connects to a channel, or straight to a consumer, and pushes the events of a scenario. */
final class Supplier {
    /** Pushes event number {@code index} of a shape. */
    private interface Push {
        void push(String shape, int index) throws UserException;
    }

    private record Connection(Push push, Runnable disconnect) {}

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

    private static final class PlainTold extends PushSupplierPOA {
        @Override
        public void disconnect_push_supplier() {
            Console.say("disconnected");
        }
    }

    private final Peer peer;
    private final Args args;
    private final int source;
    private final List<String> shapes;
    private final boolean keepGoing;
    private final long stepNs;
    private long dueNs;
    private int next;
    private long pushed;
    private long failed;

    private Supplier(Args args) throws UserException {
        this.args = args;
        peer = new Peer(args);
        source = (int) args.number("source", 0);
        shapes = Shaper.shapesOf(args.text("scenario", "all"));
        keepGoing = args.has("keep-going");
        next = (int) args.number("first", 0);
        long rate = args.number("rate", 0);
        stepNs = rate == 0 ? 0 : 1_000_000_000L / rate;
    }

    static int run(Args args) throws UserException {
        Supplier supplier = new Supplier(args);
        Connection connection = args.text("form", "").equals("structured") ? supplier.structured() : supplier.any();
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
        dueNs = System.nanoTime();
        for (long i = 0; i < count; ++i) {
            pace();
            int index = next++;
            try {
                connection.push.push(shapes.get(index % shapes.size()), index);
                ++pushed;
            } catch (SystemException | UserException refused) {
                Console.say("failed " + index + " " + Peer.describe(refused));
                ++failed;
                if (!keepGoing) return false;
            }
        }
        return true;
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
        return (shape, index) -> to.push_structured_event(peer.shaper.makeEvent(shape, index, source));
    }

    private Push pusher(PushConsumer to) {
        return (shape, index) -> to.push(peer.shaper.make(shape, index, source));
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
        Console.say("proxy " + id.value);
        return new Connection(pusher(proxy), proxy::disconnect_structured_push_consumer);
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
        Console.say("proxy " + id.value);
        return new Connection(pusher(proxy), proxy::disconnect_push_consumer);
    }
}
