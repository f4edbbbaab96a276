package campanile.peer;

import java.util.List;
import org.omg.CORBA.Any;
import org.omg.CORBA.BAD_PARAM;
import org.omg.CORBA.BooleanHolder;
import org.omg.CORBA.CompletionStatus;
import org.omg.CORBA.IntHolder;
import org.omg.CORBA.UserException;
import org.omg.CosEventComm.Disconnected;
import org.omg.CosEventComm.PullSupplierHelper;
import org.omg.CosEventComm.PullSupplierPOA;
import org.omg.CosNotification.EventHeader;
import org.omg.CosNotification.EventType;
import org.omg.CosNotification.FixedEventHeader;
import org.omg.CosNotification.Property;
import org.omg.CosNotification.StructuredEvent;
import org.omg.CosNotifyChannelAdmin.ClientType;
import org.omg.CosNotifyChannelAdmin.ProxyConsumer;
import org.omg.CosNotifyChannelAdmin.ProxyPullConsumer;
import org.omg.CosNotifyChannelAdmin.ProxyPullConsumerHelper;
import org.omg.CosNotifyChannelAdmin.SequenceProxyPullConsumer;
import org.omg.CosNotifyChannelAdmin.SequenceProxyPullConsumerHelper;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPullConsumer;
import org.omg.CosNotifyChannelAdmin.StructuredProxyPullConsumerHelper;
import org.omg.CosNotifyChannelAdmin.SupplierAdmin;
import org.omg.CosNotifyComm.SequencePullSupplierHelper;
import org.omg.CosNotifyComm.SequencePullSupplierPOA;
import org.omg.CosNotifyComm.StructuredPullSupplierHelper;
import org.omg.CosNotifyComm.StructuredPullSupplierPOA;

/** The events of a supplier, and how it gives them away where the service pulls. */
final class Stock {
    private final class StructuredPulled extends StructuredPullSupplierPOA {
        @Override
        public StructuredEvent pull_structured_event() throws Disconnected {
            return event(take(1, true)[0]);
        }

        @Override
        public StructuredEvent try_pull_structured_event(BooleanHolder hasEvent) throws Disconnected {
            int[] taken = take(1, false);
            hasEvent.value = taken[1] > 0;
            return hasEvent.value ? event(taken[0]) : noEvent();
        }

        @Override
        public void disconnect_structured_pull_supplier() {
            close();
        }

        @Override
        public void subscription_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("subscription_change", added, removed));
        }
    }

    private final class SequencePulled extends SequencePullSupplierPOA {
        @Override
        public StructuredEvent[] pull_structured_events(int most) throws Disconnected {
            int[] taken = take(atMost(most), true);
            return events(taken[0], taken[1]);
        }

        @Override
        public StructuredEvent[] try_pull_structured_events(int most, BooleanHolder hasEvent) throws Disconnected {
            int[] taken = take(atMost(most), false);
            hasEvent.value = taken[1] > 0;
            return events(taken[0], taken[1]);
        }

        @Override
        public void disconnect_sequence_pull_supplier() {
            close();
        }

        @Override
        public void subscription_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("subscription_change", added, removed));
        }
    }

    private final class AnyPulled extends org.omg.CosNotifyComm.PullSupplierPOA {
        @Override
        public Any pull() throws Disconnected {
            return any(take(1, true)[0]);
        }

        @Override
        public Any try_pull(BooleanHolder hasEvent) throws Disconnected {
            return tryAny(hasEvent);
        }

        @Override
        public void disconnect_pull_supplier() {
            close();
        }

        @Override
        public void subscription_change(EventType[] added, EventType[] removed) {
            Console.say(Peer.changes("subscription_change", added, removed));
        }
    }

    private final class PlainPulled extends PullSupplierPOA {
        @Override
        public Any pull() throws Disconnected {
            return any(take(1, true)[0]);
        }

        @Override
        public Any try_pull(BooleanHolder hasEvent) throws Disconnected {
            return tryAny(hasEvent);
        }

        @Override
        public void disconnect_pull_supplier() {
            close();
        }
    }

    private final Peer peer;
    private final Args args;
    private final List<String> shapes;
    private final int source;
    private final int batch;
    private int next;
    private int end;
    private boolean askedInVain;
    private boolean closed;

    Stock(Peer peer, Args args) {
        this.peer = peer;
        this.args = args;
        shapes = Shaper.shapesOf(args.text("scenario", "all"));
        source = (int) args.number("source", 0);
        batch = (int) args.number("batch", 4);
        next = (int) args.number("first", 0);
        end = next;
    }

    // ---- what there is ----

    Any any(int index) {
        return peer.shaper.make(shape(index), index, source);
    }

    StructuredEvent event(int index) {
        return peer.shaper.makeEvent(shape(index), index, source);
    }

    StructuredEvent[] events(int first, int count) {
        StructuredEvent[] all = new StructuredEvent[count];
        for (int i = 0; i < count; ++i) all[i] = event(first + i);
        return all;
    }

    private String shape(int index) {
        return shapes.get(Integer.remainderUnsigned(index, shapes.size()));
    }

    // ---- giving it away ----

    synchronized void add(long count) {
        end += (int) count;
        askedInVain = false;
        notifyAll();
    }

    /** Until it has been asked for more than there is: then whoever asked has what there was. */
    synchronized void awaitEmpty() {
        while (!askedInVain && !closed) pause();
    }

    /** The supplier's connection, to a proxy that pulls. */
    Supplier.Connection connect() throws UserException {
        String form = args.text("form", "structured");
        if (form.equals("cosevent")) {
            org.omg.CosEventChannelAdmin.ProxyPullConsumer proxy = peer.eventChannel(args).for_suppliers().obtain_pull_consumer();
            proxy.connect_pull_supplier(PullSupplierHelper.narrow(peer.serve(new PlainPulled(), "supplier")));
            return new Supplier.Connection(null, proxy::disconnect_pull_consumer);
        }
        SupplierAdmin admin = peer.channel(args).default_supplier_admin();
        ClientType kind = switch (form) {
            case "any" -> ClientType.ANY_EVENT;
            case "sequence" -> ClientType.SEQUENCE_EVENT;
            default -> ClientType.STRUCTURED_EVENT;
        };
        IntHolder id = new IntHolder();
        ProxyConsumer made = admin.obtain_notification_pull_consumer(kind, id);
        if (args.has("qos")) made.set_qos(peer.qos(args, "qos"));
        Console.say("proxy " + id.value);
        if (form.equals("any")) {
            ProxyPullConsumer proxy = ProxyPullConsumerHelper.narrow(made);
            proxy.connect_any_pull_supplier(
                org.omg.CosNotifyComm.PullSupplierHelper.narrow(peer.serve(new AnyPulled(), "supplier")));
            return new Supplier.Connection(null, proxy::disconnect_pull_consumer);
        }
        if (form.equals("sequence")) {
            SequenceProxyPullConsumer proxy = SequenceProxyPullConsumerHelper.narrow(made);
            proxy.connect_sequence_pull_supplier(SequencePullSupplierHelper.narrow(peer.serve(new SequencePulled(), "supplier")));
            return new Supplier.Connection(null, proxy::disconnect_sequence_pull_consumer);
        }
        StructuredProxyPullConsumer proxy = StructuredProxyPullConsumerHelper.narrow(made);
        proxy.connect_structured_pull_supplier(
            StructuredPullSupplierHelper.narrow(peer.serve(new StructuredPulled(), "supplier")));
        return new Supplier.Connection(null, proxy::disconnect_structured_pull_consumer);
    }

    private Any tryAny(BooleanHolder hasEvent) throws Disconnected {
        int[] taken = take(1, false);
        hasEvent.value = taken[1] > 0;
        return hasEvent.value ? any(taken[0]) : peer.orb.create_any();
    }

    private StructuredEvent noEvent() {
        FixedEventHeader fixed = new FixedEventHeader(new EventType("", ""), "");
        return new StructuredEvent(new EventHeader(fixed, new Property[0]), new Property[0], peer.orb.create_any());
    }

    private int atMost(int most) {
        if (most <= 0) throw new BAD_PARAM(7, CompletionStatus.COMPLETED_NO);
        return Math.min(most, batch);
    }

    /** The first number and how many. */
    private synchronized int[] take(int most, boolean wait) throws Disconnected {
        while (wait && next == end && !closed) {
            askedInVain = true;
            notifyAll();
            pause();
        }
        if (wait && next == end) throw new Disconnected();
        int first = next;
        int count = Math.min(most, end - next);
        next += count;
        askedInVain = count == 0;
        notifyAll();
        return new int[] {first, count};
    }

    private synchronized void close() {
        Console.say("disconnected");
        closed = true;
        notifyAll();
    }

    private void pause() {
        try {
            wait();
        } catch (InterruptedException interrupted) {
            closed = true;
        }
    }
}
