package campanile.peer;

import java.util.Arrays;
import java.util.stream.Collectors;
import org.omg.CORBA.Any;
import org.omg.CORBA.SystemException;
import org.omg.CORBA.UserException;
import org.omg.CosNaming.NamingContextPackage.NotFound;
import org.omg.CosNotification.EventType;
import org.omg.CosNotification.NamedPropertyRange;
import org.omg.CosNotification.Property;
import org.omg.CosNotification.PropertyError;
import org.omg.CosNotification.PropertyRange;
import org.omg.CosNotification.UnsupportedAdmin;
import org.omg.CosNotification.UnsupportedQoS;
import org.omg.CosNotifyChannelAdmin.AdminLimitExceeded;

/** What a call answered, or what it raised with what the exception holds, as one line. */
final class Answers {
    interface Call {
        String call() throws UserException;
    }

    interface VoidCall {
        void call() throws UserException;
    }

    private static final String[] CODES = {
        "UNSUPPORTED_PROPERTY", "UNAVAILABLE_PROPERTY", "UNSUPPORTED_VALUE", "UNAVAILABLE_VALUE", "BAD_PROPERTY", "BAD_TYPE", "BAD_VALUE"
    };

    private Answers() {}

    static void attempt(String name, Call call) {
        Console.say(name + ": " + outcome(call));
    }

    static void attemptVoid(String name, VoidCall call) {
        attempt(name, () -> {
            call.call();
            return "ok";
        });
    }

    private static String outcome(Call call) {
        try {
            return call.call();
        } catch (UnsupportedQoS raised) {
            return "UnsupportedQoS " + errors(raised.qos_err);
        } catch (UnsupportedAdmin raised) {
            return "UnsupportedAdmin " + errors(raised.admin_err);
        } catch (AdminLimitExceeded raised) {
            return "AdminLimitExceeded " + raised.admin_property_err.name + "=" + text(raised.admin_property_err.value);
        } catch (NotFound raised) {
            String[] why = {"missing_node", "not_context", "not_object"};
            return "NotFound " + why[raised.why.value()] + " " + NamingTour.text(raised.rest_of_name);
        } catch (SystemException raised) {
            // Minor codes may be the ORB's own; the name is what programs act on.
            return raised.getClass().getSimpleName();
        } catch (UserException raised) {
            return Peer.describe(raised);
        }
    }

    static String text(Any any) {
        return switch (any.type().kind().value()) {
            case org.omg.CORBA.TCKind._tk_null -> "null";
            case org.omg.CORBA.TCKind._tk_short -> "short:" + any.extract_short();
            case org.omg.CORBA.TCKind._tk_ushort -> "ushort:" + (any.extract_ushort() & 0xffff);
            case org.omg.CORBA.TCKind._tk_long -> "long:" + any.extract_long();
            case org.omg.CORBA.TCKind._tk_ulong -> "ulong:" + Integer.toUnsignedString(any.extract_ulong());
            case org.omg.CORBA.TCKind._tk_ulonglong -> "time:" + Long.toUnsignedString(any.extract_ulonglong());
            case org.omg.CORBA.TCKind._tk_boolean -> "boolean:" + any.extract_boolean();
            case org.omg.CORBA.TCKind._tk_string -> "string:" + any.extract_string();
            default -> "kind:" + any.type().kind().value();
        };
    }

    static String text(Property[] properties) {
        return Arrays.stream(properties).map(one -> one.name + "=" + text(one.value)).sorted().collect(Collectors.joining(" "));
    }

    static String text(NamedPropertyRange[] ranges) {
        return Arrays.stream(ranges).map(one -> one.name + "=" + text(one.range)).sorted().collect(Collectors.joining(" "));
    }

    static String text(EventType[] types) {
        return Arrays.stream(types).map(one -> one.domain_name + ":" + one.type_name).collect(Collectors.joining(" ", "[", "]"));
    }

    private static String text(PropertyRange range) {
        return text(range.low_val) + ".." + text(range.high_val);
    }

    private static String errors(PropertyError[] errors) {
        return Arrays.stream(errors)
            .map(one -> CODES[one.code.value()] + " " + one.name + " " + text(one.available_range))
            .collect(Collectors.joining(", "));
    }

    static String ids(int[] ids) {
        return Arrays.stream(ids).sorted().mapToObj(String::valueOf).collect(Collectors.joining(" ", "[", "]"));
    }

    static String same(org.omg.CORBA.Object one, org.omg.CORBA.Object other) {
        return one != null && one._is_equivalent(other) ? "same" : "different";
    }

    static String yesNo(boolean yes) {
        return yes ? "yes" : "no";
    }

    static String nilOrThere(Object object) {
        return object == null ? "nil" : "there";
    }
}
