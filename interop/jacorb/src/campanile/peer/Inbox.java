package campanile.peer;

import CampanileTest.Small;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.omg.CORBA.Any;
import org.omg.CORBA.CompletionStatus;
import org.omg.CosEventComm.Disconnected;
import org.omg.CosNotification.FixedEventHeader;
import org.omg.CosNotification.Property;
import org.omg.CosNotification.StructuredEvent;
import org.omg.CosNotification.StructuredEventHelper;

/** What arrives, checked, counted and, where asked, answered badly or late. */
final class Inbox {
    private interface Check {
        String check(String shape, int index, int source);
    }

    private final Shaper shaper;
    private final List<String> shapes;
    private final boolean fromStructured;
    private final Map<Integer, Integer> sources = new HashMap<>();
    private final long count;
    private final long every;
    private final long stallAt;
    private final long batch;
    /** Events may be missing between those that come, but never out of order. */
    private final boolean gaps;
    /** Every event is told of as it comes, and nothing is expected of it. */
    private final boolean tells;
    /** Of events that are told, the one that is refused whenever it comes. */
    private final long refuse;
    private final String raise;
    private final long raiseAt;
    private final long raiseTimes;
    /** Only the value is looked at that is in the body, or in the data. */
    private int next;
    private long raised;
    private long seen;
    private long bad;
    private boolean resumed;
    private boolean stopped;
    private boolean disconnected;

    Inbox(Args args, Shaper shaper) {
        this.shaper = shaper;
        shapes = Shaper.shapesOf(args.text("scenario", "all"));
        String form = args.text("form", "any");
        String own = form.equals("structured") || form.equals("sequence") ? "structured" : "any";
        fromStructured = args.text("from", own).equals("structured");
        next = (int) args.number("first", 0);
        count = args.number("count", 0);
        every = args.number("every", 1);
        stallAt = args.number("stall-at", Long.MAX_VALUE);
        batch = args.number("batch", Long.MAX_VALUE);
        gaps = args.has("gaps");
        tells = args.has("tell");
        refuse = args.number("refuse", Long.MAX_VALUE);
        raise = args.text("raise", "");
        raiseAt = args.number("raise-at", 0);
        raiseTimes = args.number("raise-times", 1);
    }

    void structured(StructuredEvent event) throws Disconnected {
        if (tells) {
            tell(event);
            return;
        }
        if (fromStructured || !shaper.inside.isEmpty()) {
            arrived(shaper.valueOf(event), (shape, index, source) -> shaper.checkEvent(shape, index, source, event));
            return;
        }
        // An Any becomes a structured event of type "%ANY" that carries it whole.
        arrived(event.remainder_of_body, (shape, index, source) -> {
            FixedEventHeader header = event.header.fixed_header;
            if (!header.event_type.domain_name.isEmpty()) return "domain_name of an Any is " + header.event_type.domain_name;
            if (!header.event_type.type_name.equals("%ANY")) return "type_name of an Any is " + header.event_type.type_name;
            if (!header.event_name.isEmpty()) return "event_name of an Any is " + header.event_name;
            if (event.header.variable_header.length != 0 || event.filterable_data.length != 0) return "an Any came with properties";
            return shaper.check(shape, index, source, event.remainder_of_body);
        });
    }

    void any(Any value) throws Disconnected {
        if (!fromStructured) {
            arrived(value, (shape, index, source) -> shaper.check(shape, index, source, value));
        } else if (!value.type().equal(StructuredEventHelper.type())) {
            arrived(value, (shape, index, source) -> "the Any holds no StructuredEvent");
        } else {
            StructuredEvent event = StructuredEventHelper.extract(value);
            arrived(event.remainder_of_body, (shape, index, source) -> shaper.checkEvent(shape, index, source, event));
        }
    }

    void sequence(StructuredEvent[] events) throws Disconnected {
        if (events.length == 0) throw new org.omg.CORBA.BAD_PARAM(7, CompletionStatus.COMPLETED_NO);
        if (events.length > batch) {
            synchronized (this) {
                ++bad;
                Console.say("bad batch of " + events.length);
            }
        }
        for (StructuredEvent event : events) structured(event);
    }

    /** Ends every wait, with what is there. */
    synchronized void stop() {
        stopped = true;
        notifyAll();
    }

    synchronized void resume() {
        resumed = true;
        notifyAll();
    }

    /** Whoever pushes has said that nothing more comes. */
    synchronized void disconnected() {
        Console.say("disconnected");
        disconnected = true;
        notifyAll();
    }

    /** Until {@link #stop}, whatever has come. */
    synchronized void awaitStop() {
        while (!stopped) pause();
    }

    /** Until all that was asked for has come; true if it was all good. */
    synchronized boolean await() {
        while (!stopped && (count == 0 || seen < count)) pause();
        return bad == 0 && (count == 0 || seen >= count);
    }

    /** Whether there is nothing more to wait for. */
    synchronized boolean isDone() {
        return stopped || disconnected || (count != 0 && seen >= count);
    }

    synchronized void awaitDisconnection() {
        while (!stopped && !disconnected) pause();
    }

    synchronized long seen() {
        return seen;
    }

    synchronized long bad() {
        return bad;
    }

    private void pause() {
        try {
            wait();
        } catch (InterruptedException interrupted) {
            stopped = true;
        }
    }

    private synchronized void arrived(Any body, Check check) throws Disconnected {
        long at = seen;
        if (at == stallAt && !resumed) {
            Console.say("stalled " + at);
            while (!resumed && !stopped) pause();
            Console.say("resumed");
        }
        if (!raise.isEmpty() && at == raiseAt && raised < raiseTimes) {
            ++raised;
            Console.say("raised " + at + " " + raise);
            refuse();
        }
        if (count != 0 && seen >= count) return;
        int index = next++;
        int source = 0;
        String shape = shapes.get(Integer.remainderUnsigned(index, shapes.size()));
        String wrong = "";
        Small small = shape.equals("small") && shapes.size() == 1 ? Shaper.identify(body) : null;
        if (small != null) {
            // Several suppliers may feed this one; each counts for itself.
            source = small.source;
            index = small.number;
            Integer due = sources.put(source, index + 1);
            boolean skipped = gaps && due != null && index > due;
            if (due != null && due != index && !skipped) wrong = "number " + index + " of source " + source + " where " + due + " was due";
        }
        if (wrong.isEmpty()) wrong = check.check(shape, index, source);
        ++seen;
        if (!wrong.isEmpty()) {
            ++bad;
            Console.say("bad " + index + " " + wrong);
        } else if (every != 0 && seen % every == 0) {
            Console.say("ok " + index + (source == 0 ? "" : " source " + source) + Priorities.heard());
        }
        notifyAll();
    }

    /** Says which `small` event it is, and whether it is marked as one that may have come before. */
    private synchronized void tell(StructuredEvent event) throws Disconnected {
        Small small = Shaper.identify(event.remainder_of_body);
        if (small == null) {
            ++bad;
            Console.say("bad event: it is not a Small");
            return;
        }
        if (small.number == refuse) {
            Console.say("refused " + small.number + " " + raise);
            refuse();
        }
        boolean marked = false;
        for (Property property : event.header.variable_header) {
            marked |= property.name.equals("PossiblyRepeated") && property.value.extract_boolean();
        }
        ++seen;
        Console.say("got " + small.source + " " + small.number + (marked ? " marked" : " new"));
        notifyAll();
    }

    private void refuse() throws Disconnected {
        switch (raise) {
            case "disconnected" -> throw new Disconnected();
            case "transient" -> throw new org.omg.CORBA.TRANSIENT(7, CompletionStatus.COMPLETED_NO);
            case "no_resources" -> throw new org.omg.CORBA.NO_RESOURCES(7, CompletionStatus.COMPLETED_NO);
            case "internal" -> throw new org.omg.CORBA.INTERNAL(7, CompletionStatus.COMPLETED_MAYBE);
            case "bad_param" -> throw new org.omg.CORBA.BAD_PARAM(7, CompletionStatus.COMPLETED_NO);
            case "unknown" -> throw new org.omg.CORBA.UNKNOWN(7, CompletionStatus.COMPLETED_MAYBE);
            case "marshal" -> throw new org.omg.CORBA.MARSHAL(7, CompletionStatus.COMPLETED_NO);
            case "object_not_exist" -> throw new org.omg.CORBA.OBJECT_NOT_EXIST(7, CompletionStatus.COMPLETED_NO);
            default -> throw new IllegalStateException("an exception CORBA knows nothing of");
        }
    }
}
