package campanile.peer;

import CampanileTest.ByColour;
import CampanileTest.Colour;
import CampanileTest.ColourHelper;
import CampanileTest.ByColourHelper;
import CampanileTest.Line;
import CampanileTest.Nested;
import CampanileTest.NestedHelper;
import CampanileTest.Point;
import CampanileTest.PointHelper;
import CampanileTest.Small;
import CampanileTest.StringSeqHelper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.omg.CORBA.Any;
import org.omg.CORBA.AnyHolder;
import org.omg.CORBA.CompletionStatus;
import org.omg.CORBA.INTERNAL;
import org.omg.CORBA.NO_IMPLEMENT;
import org.omg.CORBA.UserException;
import org.omg.CosNotification.EventHeader;
import org.omg.CosNotification.EventType;
import org.omg.CosNotification.FixedEventHeader;
import org.omg.CosNotification.Property;
import org.omg.CosNotification.StructuredEvent;
import org.omg.CosNotification.StructuredEventHelper;
import org.omg.CosNotifyChannelAdmin.EventChannel;
import org.omg.CosNotifyComm.NotifySubscribe;
import org.omg.CosNotifyFilter.ConstraintExp;
import org.omg.CosNotifyFilter.ConstraintInfo;
import org.omg.CosNotifyFilter.Filter;
import org.omg.CosNotifyFilter.FilterAdmin;
import org.omg.CosNotifyFilter.FilterFactory;
import org.omg.CosNotifyFilter.FilterHelper;
import org.omg.CosNotifyFilter.FilterPOA;
import org.omg.CosNotifyFilter.InvalidConstraint;
import org.omg.CosNotifyFilter.MappingConstraintPair;
import org.omg.CosNotifyFilter.MappingFilter;

/** {@code filters}: constraints against one event in its forms; and the filters of a consumer. */
final class Filters {
    /** A filter that this program is itself: it takes every second {@code small} event, or never answers, or always raises. */
    private static final class OwnFilter extends FilterPOA {
        private final String mode;

        OwnFilter(String mode) {
            this.mode = mode;
        }

        private synchronized boolean takes(Any value) {
            Console.say("asked");
            if (mode.equals("raise")) throw new INTERNAL(7, CompletionStatus.COMPLETED_MAYBE);
            while (mode.equals("hang")) {
                try {
                    wait();
                } catch (InterruptedException interrupted) {
                    return false;
                }
            }
            Small small = Shaper.identify(value);
            return small != null && small.number % 2 == 0;
        }

        @Override
        public boolean match(Any value) {
            return takes(value);
        }

        @Override
        public boolean match_structured(StructuredEvent event) {
            return takes(event.remainder_of_body);
        }

        @Override
        public boolean match_typed(Property[] data) {
            throw new NO_IMPLEMENT();
        }

        @Override
        public String constraint_grammar() {
            return "OWN";
        }

        @Override
        public ConstraintInfo[] add_constraints(ConstraintExp[] constraints) {
            throw new NO_IMPLEMENT();
        }

        @Override
        public void modify_constraints(int[] gone, ConstraintInfo[] changed) {
            throw new NO_IMPLEMENT();
        }

        @Override
        public ConstraintInfo[] get_constraints(int[] ids) {
            throw new NO_IMPLEMENT();
        }

        @Override
        public ConstraintInfo[] get_all_constraints() {
            throw new NO_IMPLEMENT();
        }

        @Override
        public void remove_all_constraints() {
            throw new NO_IMPLEMENT();
        }

        @Override
        public void destroy() {}

        @Override
        public int attach_callback(NotifySubscribe callback) {
            throw new NO_IMPLEMENT();
        }

        @Override
        public void detach_callback(int id) {
            throw new NO_IMPLEMENT();
        }

        @Override
        public int[] get_callbacks() {
            throw new NO_IMPLEMENT();
        }
    }

    /** What a call answers. */
    private interface Call {
        String answer() throws UserException;
    }

    private final Peer peer;
    private final FilterFactory factory;

    private Filters(Args args) throws UserException {
        peer = new Peer(args);
        factory = peer.channel(args).default_filter_factory();
    }

    /** {@code --where CONSTRAINT} (several: any of them) and {@code --own-filter even|hang|raise}. */
    static void add(Peer peer, Args args, EventChannel channel, FilterAdmin to) throws UserException {
        if (args.has("where")) {
            Filter filter = channel.default_filter_factory().create_filter("EXTENDED_TCL");
            filter.add_constraints(args.all("where").stream().map(Filters::constraint).toArray(ConstraintExp[]::new));
            to.add_filter(filter);
        }
        if (args.has("own-filter")) {
            to.add_filter(FilterHelper.narrow(peer.serve(new OwnFilter(args.text("own-filter", "even")), "filter")));
        }
    }

    static int run(Args args) throws UserException {
        Filters tour = new Filters(args);
        tour.forms();
        tour.mapping();
        if (args.has("constraints")) tour.language(Path.of(args.text("constraints", "")));
        Console.say("done");
        return 0;
    }

    private void forms() throws UserException {
        Filter filter = factory.create_filter("EXTENDED_TCL");
        filter.add_constraints(new ConstraintExp[] {constraint("$x > 4")});
        Any any = peer.orb.create_any();
        PointHelper.insert(any, new Point(5, (short) 0, 0));
        ask("filter match any", () -> yesNo(filter.match(any)));
        Any less = peer.orb.create_any();
        PointHelper.insert(less, new Point(4, (short) 0, 0));
        ask("filter match any less", () -> yesNo(filter.match(less)));
        ask("filter match empty any", () -> yesNo(filter.match(peer.orb.create_any())));
        Any number = peer.orb.create_any();
        number.insert_float(4.5f);
        ask("filter match_typed", () -> yesNo(filter.match_typed(new Property[] {new Property("x", number)})));
        Any text = peer.orb.create_any();
        text.insert_string("five");
        ask("filter match_typed text", () -> yesNo(filter.match_typed(new Property[] {new Property("x", text)})));
        filter.destroy();
    }

    private void mapping() throws UserException {
        MappingFilter filter = factory.create_mapping_filter("EXTENDED_TCL", shortValue(1));
        MappingConstraintPair pair = new MappingConstraintPair(constraint("$value > 3"), shortValue(7));
        filter.add_mapping_constraints(new MappingConstraintPair[] {pair});
        AnyHolder result = new AnyHolder();
        ask("mapping match_structured", () -> yesNo(filter.match_structured(event(), result)) + " short:" + result.value.extract_short());
        filter.remove_all_mapping_constraints();
        ask("mapping match_structured empty", () -> yesNo(filter.match_structured(event(), result)));
        filter.destroy();
    }

    /** Each line of a file is a verdict and a constraint, which the event matches or does not. */
    private void language(Path file) throws UserException {
        Filter filter = factory.create_filter("EXTENDED_TCL");
        Any whole = peer.orb.create_any();
        StructuredEventHelper.insert(whole, event());
        try {
            for (String line : Files.readAllLines(file)) {
                if (line.isEmpty() || line.startsWith("#")) continue;
                String text = line.substring(line.indexOf(' ') + 1);
                ask(text, () -> {
                    filter.remove_all_constraints();
                    filter.add_constraints(new ConstraintExp[] {constraint(text)});
                    return yesNo(filter.match_structured(event())) + " " + yesNo(filter.match(whole));
                });
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        filter.destroy();
    }

    private static void ask(String name, Call call) {
        try {
            Console.say(name + ": " + call.answer());
        } catch (InvalidConstraint raised) {
            Console.say(name + ": InvalidConstraint " + raised.constr.constraint_expr);
        } catch (UserException | org.omg.CORBA.SystemException raised) {
            Console.say(name + ": " + Peer.describe(raised));
        }
    }

    private static String yesNo(boolean yes) {
        return yes ? "yes" : "no";
    }

    private static ConstraintExp constraint(String text) {
        return new ConstraintExp(new EventType[0], text);
    }

    private Any shortValue(int value) {
        Any any = peer.orb.create_any();
        any.insert_short((short) value);
        return any;
    }

    /** The same event as in {@code omniorb/filters.cc}. */
    private StructuredEvent event() {
        Property priority = new Property("Priority", shortValue(5));
        Any hour = peer.orb.create_any();
        hour.insert_ulonglong(36_000_000_000L);
        FixedEventHeader fixed = new FixedEventHeader(new EventType("Telescope", "Status"), "noon");
        EventHeader header = new EventHeader(fixed, new Property[] {priority, new Property("Timeout", hour)});
        Line outline = new Line(new Point(1, (short) -2, 0.5), (byte) 9, new Point(100000, (short) 7, -1.5));
        Any body = peer.orb.create_any();
        NestedHelper.insert(body, new Nested("M51", outline, Colour.blue, new Point(0, (short) 0, 3.25)));
        return new StructuredEvent(header, data(), body);
    }

    private Property[] data() {
        Any antenna = peer.orb.create_any();
        antenna.insert_string("DV01");
        Any value = peer.orb.create_any();
        value.insert_double(3.25);
        Any count = peer.orb.create_any();
        count.insert_ulong(7);
        Any tint = peer.orb.create_any();
        ColourHelper.insert(tint, Colour.green);
        Any healthy = peer.orb.create_any();
        healthy.insert_boolean(true);
        Any point = peer.orb.create_any();
        PointHelper.insert(point, new Point(5, (short) 6, 7.5));
        Any names = peer.orb.create_any();
        StringSeqHelper.insert(names, new String[] {"alpha", "beta", "gamma"});
        ByColour chosen = new ByColour();
        chosen.text(Colour.green, "chosen");
        Any choice = peer.orb.create_any();
        ByColourHelper.insert(choice, chosen);
        Any letter = peer.orb.create_any();
        letter.insert_char('q');
        return new Property[] {
            new Property("antenna", antenna), new Property("value", value), new Property("count", count),
            new Property("tint", tint), new Property("healthy", healthy), new Property("point", point),
            new Property("names", names), new Property("choice", choice), new Property("letter", letter),
        };
    }
}
