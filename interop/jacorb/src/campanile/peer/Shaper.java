package campanile.peer;

import CampanileTest.*;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import org.omg.CORBA.Any;
import org.omg.CORBA.ORB;
import org.omg.CORBA.TCKind;
import org.omg.CORBA.TypeCode;
import org.omg.CORBA.UserException;
import org.omg.CosNotification.EventHeader;
import org.omg.CosNotification.EventType;
import org.omg.CosNotification.FixedEventHeader;
import org.omg.CosNotification.Property;
import org.omg.CosNotification.StructuredEvent;

/**
 * What the events carry. {@code make} fills the value number {@code index} of a shape from a deterministic generator;
 * {@code check} draws the same numbers again and compares field by field. The C++ programs hold the same generator.
 */
final class Shaper {
    private static final String NARROW =
        "primitives,nested,unions,sequences,latin,block,points,tree,arrays,money,references,typecodes,colour,small";
    private static final long HOUR = 36000000000L;

    private final ORB orb;
    private final boolean latin1;
    private final int blockSize;
    private final int payloadSize;
    /**
     * Where a structured event has the value, and nothing else beside its type {"ALMA", the value's type}: in its {@code body}, or as its
     * only datum ({@code data}), which is ALMA's convention. Empty: in the body of an event with properties.
     */
    final String inside;

    Shaper(ORB orb, Args args) {
        this.orb = orb;
        this.latin1 = !args.text("chars", "latin-1").equals("utf-8");
        this.blockSize = (int) args.number("block", 1 << 20);
        this.payloadSize = (int) args.number("payload", 128);
        this.inside = args.text("inside", "");
    }

    /** The shapes of a scenario, in the order in which events go through them. {@code narrow} has no wide characters. */
    static List<String> shapesOf(String scenario) {
        String list = scenario.equals("all") ? "wide,anys,word," + NARROW : scenario.equals("narrow") ? NARROW : scenario;
        return Arrays.asList(list.split(","));
    }

    Any make(String shape, int index, int source) {
        Any any = orb.create_any();
        walkShape(walk(shape, index, source, true), shape, index, source, any);
        return any;
    }

    /** Empty when all is as {@code make} would have made it; else what differs. */
    String check(String shape, int index, int source, Any value) {
        try {
            walkShape(walk(shape, index, source, false), shape, index, source, value);
            return "";
        } catch (Walk.Differs differs) {
            return shape + ": " + differs.getMessage();
        } catch (org.omg.CORBA.BAD_OPERATION other) {
            return shape + ": the event holds another type: " + other.getMessage();
        }
    }

    /** The value that a structured event has inside, if it has one there. */
    Any valueOf(StructuredEvent event) {
        boolean isDatum = inside.equals("data") && event.filterable_data.length == 1;
        return isDatum ? event.filterable_data[0].value : event.remainder_of_body;
    }

    StructuredEvent makeEvent(String shape, int index, int source) {
        StructuredEvent event = new StructuredEvent();
        if (!inside.isEmpty()) {
            Any value = make(shape, index, source);
            EventType type = new EventType("ALMA", nameOf(value));
            event.header = new EventHeader(new FixedEventHeader(type, ""), new Property[0]);
            boolean isDatum = inside.equals("data");
            event.filterable_data = isDatum ? new Property[] {new Property("", value)} : new Property[0];
            event.remainder_of_body = isDatum ? orb.create_any() : value;
            return event;
        }
        event.header = new EventHeader(
            new FixedEventHeader(new EventType("Campanile", shape), "event-" + index),
            new Property[] {property("Timeout"), property("Campanile.Trace")});
        event.filterable_data = new Property[] {property("number"), property("flag"), property("name"), property("ratio")};
        walkProperties(walk("header of " + shape, index, source, true), index, event);
        event.remainder_of_body = make(shape, index, source);
        return event;
    }

    private static String nameOf(Any value) {
        try {
            return value.type().name();
        } catch (org.omg.CORBA.TypeCodePackage.BadKind unnamed) {
            return "";
        }
    }

    String checkEvent(String shape, int index, int source, StructuredEvent event) {
        if (!inside.isEmpty()) {
            Any value = valueOf(event);
            EventType type = event.header.fixed_header.event_type;
            if (!type.type_name.equals(nameOf(value))) return shape + ": its type_name is " + type.type_name;
            if (inside.equals("data") && !type.domain_name.equals("ALMA")) return shape + ": its domain_name is " + type.domain_name;
            return check(shape, index, source, value);
        }
        try {
            Walk w = walk("header of " + shape, index, source, false);
            FixedEventHeader header = event.header.fixed_header;
            w.text(header.event_type.domain_name, "Campanile", "domain_name");
            w.text(header.event_type.type_name, shape, "type_name");
            w.text(header.event_name, "event-" + index, "event_name");
            names(w, event.header.variable_header, "Timeout", "Campanile.Trace");
            names(w, event.filterable_data, "number", "flag", "name", "ratio");
            walkProperties(w, index, event);
        } catch (Walk.Differs differs) {
            return shape + ": " + differs.getMessage();
        } catch (org.omg.CORBA.BAD_OPERATION other) {
            return shape + ": a property holds another type: " + other.getMessage();
        }
        return check(shape, index, source, event.remainder_of_body);
    }

    /** A {@code Small}, whatever its source and number are; {@code null} if it is none. */
    static Small identify(Any value) {
        return value.type().equal(SmallHelper.type()) ? SmallHelper.extract(value) : null;
    }

    private Walk walk(String shape, int index, int source, boolean filling) {
        return new Walk(new Random64(shape, index, source), filling, latin1);
    }

    private Property property(String name) {
        return new Property(name, orb.create_any());
    }

    private static void names(Walk w, Property[] properties, String... expected) {
        w.length(properties.length, expected.length, "properties");
        for (int i = 0; i < expected.length; ++i) {
            w.text(properties[i].name, expected[i], "a property's name");
        }
    }

    private static void walkProperties(Walk w, int index, StructuredEvent event) {
        Property[] variable = event.header.variable_header;
        Property[] data = event.filterable_data;
        if (w.filling) {
            variable[0].value.insert_ulonglong(HOUR);
            data[0].value.insert_ulong(index);
        } else {
            w.expect(variable[0].value.extract_ulonglong() == HOUR, "Timeout");
            w.expect(data[0].value.extract_ulong() == index, "number");
        }
        string(w, variable[1].value);
        scalar(w, data[1].value, 0);
        string(w, data[2].value);
        scalar(w, data[3].value, 1);
    }

    private void walkShape(Walk w, String shape, int index, int source, Any any) {
        switch (shape) {
            case "primitives" -> {
                Primitives v = w.filling ? new Primitives() : PrimitivesHelper.extract(any);
                primitives(w, v);
                if (w.filling) PrimitivesHelper.insert(any, v);
            }
            case "nested" -> {
                Nested v = w.filling ? new Nested() : NestedHelper.extract(any);
                nested(w, v);
                if (w.filling) NestedHelper.insert(any, v);
            }
            case "unions" -> {
                Unions v = w.filling ? new Unions() : UnionsHelper.extract(any);
                unions(w, v);
                if (w.filling) UnionsHelper.insert(any, v);
            }
            case "sequences" -> {
                Sequences v = w.filling ? new Sequences() : SequencesHelper.extract(any);
                sequences(w, v);
                if (w.filling) SequencesHelper.insert(any, v);
            }
            case "wide" -> {
                Wide v = w.filling ? new Wide() : WideHelper.extract(any);
                wide(w, v);
                if (w.filling) WideHelper.insert(any, v);
            }
            case "latin", "unicode" -> {
                Text v = w.filling ? new Text() : TextHelper.extract(any);
                text(w, v, shape.equals("unicode"));
                if (w.filling) TextHelper.insert(any, v);
            }
            case "block" -> {
                Block v = w.filling ? new Block() : BlockHelper.extract(any);
                v.before = w.octet(v.before, "before");
                v.data = w.octets(v.data, blockSize, "data");
                v.after = w.int32(v.after, "after");
                if (w.filling) BlockHelper.insert(any, v);
            }
            default -> walkOtherShape(w, shape, index, source, any);
        }
    }

    private void walkOtherShape(Walk w, String shape, int index, int source, Any any) {
        switch (shape) {
            case "points" -> {
                Point[] v = w.filling ? new Point[1500] : PointSeqHelper.extract(any);
                w.length(v.length, 1500, "points");
                for (int i = 0; i < v.length; ++i) v[i] = point(w, v[i]);
                if (w.filling) PointSeqHelper.insert(any, v);
            }
            case "anys" -> {
                Anys v = w.filling ? new Anys() : AnysHelper.extract(any);
                anys(w, v);
                if (w.filling) AnysHelper.insert(any, v);
            }
            case "tree" -> {
                Tree v = tree(w, w.filling ? null : TreeHelper.extract(any), 4);
                if (w.filling) TreeHelper.insert(any, v);
            }
            case "arrays" -> {
                ArrayWalk v = new ArrayWalk(w.filling ? null : ArraysHelper.extract(any));
                v.walk(w);
                if (w.filling) ArraysHelper.insert(any, v.value);
            }
            case "money", "coins" -> {
                Money v = w.filling ? new Money() : MoneyHelper.extract(any);
                money(w, v, shape.equals("coins"));
                if (w.filling) MoneyHelper.insert(any, v);
            }
            case "references" -> {
                References v = w.filling ? new References() : ReferencesHelper.extract(any);
                references(w, v);
                if (w.filling) ReferencesHelper.insert(any, v);
            }
            case "typecodes" -> {
                TypeCodes v = w.filling ? new TypeCodes() : TypeCodesHelper.extract(any);
                typeCodes(w, v);
                if (w.filling) TypeCodesHelper.insert(any, v);
            }
            case "colour" -> colour(w, any);
            case "word" -> wstring(w, any);
            case "small" -> {
                Small v = w.filling ? new Small() : SmallHelper.extract(any);
                w.expect(v.source == source, "source");
                w.expect(v.number == index, "number");
                v.source = source;
                v.number = index;
                v.payload = w.octets(v.payload, payloadSize, "payload");
                if (w.filling) SmallHelper.insert(any, v);
            }
            default -> throw new Walk.Differs("no such shape: " + shape);
        }
    }

    private static void primitives(Walk w, Primitives v) {
        v.a_octet = w.octet(v.a_octet, "a_octet");
        v.a_short = w.int16(v.a_short, "a_short");
        v.a_boolean = w.bool(v.a_boolean, "a_boolean");
        v.a_long = w.int32(v.a_long, "a_long");
        v.a_char = w.letter(v.a_char, "a_char");
        v.a_long_long = w.int64(v.a_long_long, "a_long_long");
        v.b_octet = w.octet(v.b_octet, "b_octet");
        v.a_unsigned_short = w.int16(v.a_unsigned_short, "a_unsigned_short");
        v.b_boolean = w.bool(v.b_boolean, "b_boolean");
        v.a_double = w.float64(v.a_double, "a_double");
        v.b_char = w.letter(v.b_char, "b_char");
        v.a_float = w.float32(v.a_float, "a_float");
        v.c_octet = w.octet(v.c_octet, "c_octet");
        v.a_unsigned_long = w.int32(v.a_unsigned_long, "a_unsigned_long");
        v.a_unsigned_long_long = w.int64(v.a_unsigned_long_long, "a_unsigned_long_long");
        v.a_string = w.text(v.a_string, w.anyAscii(20), "a_string");
    }

    private static Point point(Walk w, Point there) {
        Point v = there == null ? new Point() : there;
        v.x = w.int32(v.x, "x");
        v.y = w.int16(v.y, "y");
        v.z = w.float64(v.z, "z");
        return v;
    }

    private static Line line(Walk w, Line there) {
        Line v = there == null ? new Line() : there;
        v.from = point(w, v.from);
        v.weight = w.octet(v.weight, "weight");
        v.to = point(w, v.to);
        return v;
    }

    private static void nested(Walk w, Nested v) {
        v.name = w.text(v.name, w.anyAscii(20), "name");
        v.outline = line(w, v.outline);
        v.tint = w.colour(v.tint, "tint");
        v.origin = point(w, v.origin);
    }

    private static ByColour byColour(Walk w, ByColour there) {
        Colour d = Colour.from_int(w.below(4));
        ByColour v = there == null ? new ByColour() : there;
        w.expect(there != null && there.discriminator() == d, "discriminator of ByColour");
        if (d == Colour.red) {
            int n = w.int32(w.filling ? 0 : v.number(), "number");
            if (w.filling) v.number(n);
        } else if (d == Colour.violet) {
            Point p = point(w, w.filling ? null : v.at());
            if (w.filling) v.at(p);
        } else {
            String s = w.text(w.filling ? "" : v.text(), w.anyAscii(10), "text");
            if (w.filling) v.text(d, s);
        }
        return v;
    }

    private static ByLong byLong(Walk w, ByLong there) {
        int r = w.below(3);
        ByLong v = there == null ? new ByLong() : there;
        w.expect(there != null && there.discriminator() == (r == 0 ? -1 : r == 1 ? 70000 : 0), "discriminator of ByLong");
        if (r == 0) {
            byte o = w.octet(w.filling ? 0 : v.small(), "small");
            if (w.filling) v.small(o);
        } else if (r == 1) {
            long l = w.int64(w.filling ? 0 : v.large(), "large");
            if (w.filling) v.large(l);
        } else {
            String s = w.text(w.filling ? "" : v.other(), w.anyAscii(10), "other");
            if (w.filling) v.other(s);
        }
        return v;
    }

    private static ByBoolean byBoolean(Walk w, ByBoolean there) {
        boolean d = (w.draw() & 1) != 0;
        ByBoolean v = there == null ? new ByBoolean() : there;
        w.expect(there != null && there.discriminator() == d, "discriminator of ByBoolean");
        if (d) {
            double n = w.float64(w.filling ? 0 : v.yes(), "yes");
            if (w.filling) v.yes(n);
        } else if (w.filling) {
            v.__default();
        }
        return v;
    }

    private static ByChar byChar(Walk w, ByChar there) {
        int r = w.below(2);
        ByChar v = there == null ? new ByChar() : there;
        w.expect(there != null && there.discriminator() == (r == 0 ? 'a' : 'z'), "discriminator of ByChar");
        if (r == 0) {
            short n = w.int16(w.filling ? 0 : v.letter(), "letter");
            if (w.filling) v.letter(n);
        } else {
            Line l = line(w, w.filling ? null : v.last());
            if (w.filling) v.last(l);
        }
        return v;
    }

    private static void unions(Walk w, Unions v) {
        v.first = byColour(w, v.first);
        v.second = byLong(w, v.second);
        v.third = byBoolean(w, v.third);
        v.fourth = byChar(w, v.fourth);
        int n = w.length(v.more == null ? 0 : v.more.length, w.below(6), "more");
        if (w.filling) v.more = new ByColour[n];
        for (int i = 0; i < n; ++i) v.more[i] = byColour(w, v.more[i]);
    }

    private static void sequences(Walk w, Sequences v) {
        int n = w.length(v.points == null ? 0 : v.points.length, w.below(5), "points");
        if (w.filling) v.points = new Point[n];
        for (int i = 0; i < n; ++i) v.points[i] = point(w, v.points[i]);
        v.names = strings(w, v.names, () -> w.anyAscii(9), w.below(5), "names");
        v.bytes = w.octets(v.bytes, w.below(40), "bytes");
        n = w.length(v.flags == null ? 0 : v.flags.length, w.below(9), "flags");
        if (w.filling) v.flags = new boolean[n];
        for (int i = 0; i < n; ++i) v.flags[i] = w.bool(v.flags[i], "flags");
        n = w.length(v.rows == null ? 0 : v.rows.length, w.below(4), "rows");
        if (w.filling) v.rows = new short[n][];
        for (int i = 0; i < n; ++i) {
            int m = w.length(v.rows[i] == null ? 0 : v.rows[i].length, w.below(4), "row");
            if (w.filling) v.rows[i] = new short[m];
            for (int j = 0; j < m; ++j) v.rows[i][j] = w.int16(v.rows[i][j], "row");
        }
        n = w.length(v.samples == null ? 0 : v.samples.length, w.below(7), "samples");
        if (w.filling) v.samples = new double[n];
        for (int i = 0; i < n; ++i) v.samples[i] = w.float64(v.samples[i], "samples");
        n = w.length(v.colours == null ? 0 : v.colours.length, w.below(6), "colours");
        if (w.filling) v.colours = new Colour[n];
        for (int i = 0; i < n; ++i) v.colours[i] = w.colour(v.colours[i], "colours");
        n = w.length(v.few == null ? 0 : v.few.length, w.below(9), "few");
        if (w.filling) v.few = new int[n];
        for (int i = 0; i < n; ++i) v.few[i] = w.int32(v.few[i], "few");
        v.tag = w.text(v.tag, w.anyAscii(24), "tag");
        w.length(v.none == null ? 0 : v.none.length, 0, "none");
        if (w.filling) v.none = new Point[0];
    }

    private static String[] strings(Walk w, String[] there, java.util.function.Supplier<String> next, int count, String what) {
        w.length(there == null ? 0 : there.length, count, what);
        String[] made = new String[count];
        for (int i = 0; i < count; ++i) made[i] = w.text(w.filling ? "" : there[i], next.get(), what);
        return made;
    }

    private static void wide(Walk w, Wide v) {
        v.before = w.octet(v.before, "before");
        v.letter = w.wide(v.letter, "letter");
        v.word = w.text(v.word, w.anyWide(false), "word");
        v.empty = w.text(v.empty, "", "empty");
        v.words = strings(w, v.words, () -> w.anyWide(false), w.below(4), "words");
        int n = w.length(v.letters == null ? 0 : v.letters.length, w.below(5), "letters");
        if (w.filling) v.letters = new char[n];
        for (int i = 0; i < n; ++i) v.letters[i] = w.wide(v.letters[i], "letters");
        v.astral = w.text(v.astral, w.anyWide(true), "astral");
        v.after = w.int32(v.after, "after");
    }

    private static void text(Walk w, Text v, boolean unicode) {
        v.latin = w.text(v.latin, w.anyText(unicode), "latin");
        // A char is one octet on the wire, which leaves UTF-8 only ASCII.
        v.letter = w.letter(v.letter, "letter");
        v.empty = w.text(v.empty, "", "empty");
        v.more = strings(w, v.more, () -> w.anyText(unicode), w.below(4), "more");
    }

    private static Tree tree(Walk w, Tree there, int depth) {
        Tree v = there == null ? new Tree() : there;
        v.leaf = w.int16(v.leaf, "leaf");
        int n = w.length(v.branches == null ? 0 : v.branches.length, depth == 0 ? 0 : w.below(4), "branches");
        if (w.filling) v.branches = new Tree[n];
        for (int i = 0; i < n; ++i) v.branches[i] = tree(w, v.branches[i], depth - 1);
        v.weight = w.float64(v.weight, "weight");
        return v;
    }

    /** Arrays must have their extent before they are walked. */
    private static final class ArrayWalk {
        final CampanileTest.Arrays value;

        ArrayWalk(CampanileTest.Arrays there) {
            value = there != null ? there
                : new CampanileTest.Arrays(new byte[6], new int[3][4], new String[2], new Colour[3], new Point[2]);
        }

        void walk(Walk w) {
            for (int i = 0; i < 6; ++i) value.address[i] = w.octet(value.address[i], "address");
            for (int i = 0; i < 3; ++i) {
                for (int j = 0; j < 4; ++j) value.cells[i][j] = w.int32(value.cells[i][j], "cells");
            }
            for (int i = 0; i < 2; ++i) value.names[i] = w.text(value.names[i], w.anyAscii(8), "names");
            for (int i = 0; i < 3; ++i) value.colours[i] = w.colour(value.colours[i], "colours");
            for (int i = 0; i < 2; ++i) value.ends[i] = point(w, value.ends[i]);
        }
    }

    private static BigDecimal fixed(long r, long least, int scale) {
        BigInteger digits = BigInteger.valueOf(least + Long.remainderUnsigned(r >>> 1, 9 * least));
        return new BigDecimal((r & 1) != 0 ? digits.negate() : digits, scale);
    }

    /**
     * {@code money} uses every digit and {@code coins} only the last ones: JacORB leaves out the octets of leading zeros,
     * which omniORB refuses to read.
     */
    private static void money(Walk w, Money v, boolean coins) {
        v.before = w.octet(v.before, "before");
        BigDecimal price = fixed(w.draw(), coins ? 1 : 100000000000L, 4);
        BigDecimal fee = fixed(w.draw(), coins ? 1 : 1000000L, 2);
        w.expect(v.price != null && v.price.compareTo(price) == 0, "price");
        w.expect(v.fee != null && v.fee.compareTo(fee) == 0, "fee");
        if (w.filling) {
            v.price = price;
            v.fee = fee;
        }
        v.after = w.int32(v.after, "after");
    }

    /**
     * True if the reference's stringified form holds the end point and the key. Each ORB writes a reference in its own way,
     * so comparing them whole, or with {@code _is_equivalent}, says less than it seems to.
     */
    private boolean leadsTo(org.omg.CORBA.Object object, String key) {
        if (object == null) return false;
        String hex = orb.object_to_string(object).toLowerCase(Locale.ROOT);
        HexFormat format = HexFormat.of();
        return hex.contains(format.formatHex("127.0.0.1".getBytes(StandardCharsets.US_ASCII)))
            && hex.contains(format.formatHex(key.getBytes(StandardCharsets.US_ASCII)));
    }

    private void references(Walk w, References v) {
        String key = "witness-" + w.anyAscii(12);
        w.expect(v.nil_object == null, "nil_object");
        w.expect(w.filling || leadsTo(v.some_object, key), "some_object");
        w.expect(w.filling || leadsTo(v.typed, key), "typed");
        if (w.filling) {
            v.some_object = orb.string_to_object("corbaloc:iiop:1.2@127.0.0.1:9/" + key);
            v.typed = WitnessHelper.unchecked_narrow(v.some_object);
        }
        v.between = w.octet(v.between, "between");
    }

    /**
     * Equal, or a union or struct of the same name with the same members: ORBs differ in what label they give a union's
     * default member, and so in what they call equal.
     */
    private static boolean sameType(TypeCode one, TypeCode other) {
        if (one.equal(other)) return true;
        try {
            int kind = one.kind().value();
            boolean named = kind == TCKind._tk_union || kind == TCKind._tk_struct;
            if (!named || other.kind().value() != kind) return false;
            if (!one.id().equals(other.id()) || one.member_count() != other.member_count()) return false;
            for (int i = 0; i < one.member_count(); ++i) {
                if (!one.member_name(i).equals(other.member_name(i))) return false;
            }
            return true;
        } catch (UserException notThere) {
            return false;
        }
    }

    private void typeCodes(Walk w, TypeCodes v) {
        v.of_long = typeCode(w, v.of_long, orb.get_primitive_tc(TCKind.tk_long), "of_long");
        v.of_string = typeCode(w, v.of_string, orb.create_string_tc(0), "of_string");
        v.of_alias = typeCode(w, v.of_alias, ShortStringHelper.type(), "of_alias");
        v.between = w.octet(v.between, "between");
        v.of_union = typeCode(w, v.of_union, ByColourHelper.type(), "of_union");
        v.of_recursive = typeCode(w, v.of_recursive, TreeHelper.type(), "of_recursive");
        v.of_interface = typeCode(w, v.of_interface, WitnessHelper.type(), "of_interface");
        v.of_exception_free_struct = typeCode(w, v.of_exception_free_struct, SequencesHelper.type(), "of_exception_free_struct");
    }

    private static TypeCode typeCode(Walk w, TypeCode there, TypeCode value, String what) {
        w.expect(there != null && sameType(there, value), what);
        return value;
    }

    private void anys(Walk w, Anys v) {
        if (w.filling) v.inner = orb.create_any();
        switch (w.below(3)) {
            case 0 -> {
                int n = w.int32(w.filling ? 0 : v.inner.extract_long(), "long in any");
                if (w.filling) v.inner.insert_long(n);
            }
            case 1 -> string(w, v.inner);
            default -> {
                Point p = point(w, w.filling ? null : PointHelper.extract(v.inner));
                if (w.filling) PointHelper.insert(v.inner, p);
            }
        }
        v.between = w.octet(v.between, "between");
        Any one = w.filling ? orb.create_any() : v.deep.extract_any().extract_any();
        Line l = line(w, w.filling ? null : LineHelper.extract(one));
        if (w.filling) {
            LineHelper.insert(one, l);
            Any two = orb.create_any();
            two.insert_any(one);
            v.deep = orb.create_any();
            v.deep.insert_any(two);
        }
        int n = w.length(v.mixed == null ? 0 : v.mixed.length, w.below(10), "mixed");
        if (w.filling) v.mixed = new Any[n];
        for (int i = 0; i < n; ++i) {
            if (w.filling) v.mixed[i] = orb.create_any();
            mixed(w, v.mixed[i]);
        }
        if (w.filling) {
            v.nothing = orb.create_any();
        } else {
            w.expect(v.nothing.type().kind() == TCKind.tk_null, "nothing");
        }
    }

    private static void mixed(Walk w, Any any) {
        int kind = w.below(8);
        switch (kind) {
            case 0, 1, 2 -> scalar(w, any, kind);
            case 3 -> wstring(w, any);
            case 4 -> colour(w, any);
            case 5 -> {
                byte[] there = w.filling ? null : OctetSeqHelper.extract(any);
                byte[] octets = w.octets(there, w.below(30), "octets in any");
                if (w.filling) OctetSeqHelper.insert(any, octets);
            }
            case 6 -> string(w, any);
            default -> {
                Primitives v = w.filling ? new Primitives() : PrimitivesHelper.extract(any);
                primitives(w, v);
                if (w.filling) PrimitivesHelper.insert(any, v);
            }
        }
    }

    private static void string(Walk w, Any any) {
        String value = w.anyAscii(12);
        if (w.filling) any.insert_string(value);
        else w.text(any.extract_string(), value, "string in any");
    }

    private static void wstring(Walk w, Any any) {
        String value = w.anyWide(true);
        if (w.filling) any.insert_wstring(value);
        else w.text(any.extract_wstring(), value, "wstring in any");
    }

    private static void colour(Walk w, Any any) {
        Colour value = w.colour(w.filling ? null : ColourHelper.extract(any), "colour in any");
        if (w.filling) ColourHelper.insert(any, value);
    }

    private static void scalar(Walk w, Any any, int kind) {
        if (kind == 0) {
            boolean value = w.bool(!w.filling && any.extract_boolean(), "boolean in any");
            if (w.filling) any.insert_boolean(value);
        } else if (kind == 1) {
            double value = w.float64(w.filling ? 0 : any.extract_double(), "double in any");
            if (w.filling) any.insert_double(value);
        } else {
            byte value = w.octet(w.filling ? 0 : any.extract_octet(), "octet in any");
            if (w.filling) any.insert_octet(value);
        }
    }
}
