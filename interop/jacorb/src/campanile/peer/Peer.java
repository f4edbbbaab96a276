package campanile.peer;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.omg.BiDirPolicy.BIDIRECTIONAL_POLICY_TYPE;
import org.omg.BiDirPolicy.BOTH;
import org.omg.BiDirPolicy.BidirectionalPolicyValueHelper;
import org.omg.CORBA.Any;
import org.omg.CORBA.ORB;
import org.omg.CORBA.Policy;
import org.omg.CORBA.SystemException;
import org.omg.CORBA.UserException;
import org.omg.CosEventChannelAdmin.EventChannelHelper;
import org.omg.CosNaming.NamingContextExt;
import org.omg.CosNaming.NamingContextExtHelper;
import org.omg.CosNotification.EventType;
import org.omg.CosNotification.Property;
import org.omg.CosNotifyChannelAdmin.EventChannel;
import org.omg.CosNotifyChannelAdmin.EventChannelFactory;
import org.omg.CosNotifyChannelAdmin.EventChannelFactoryHelper;
import org.omg.PortableServer.IdAssignmentPolicyValue;
import org.omg.PortableServer.LifespanPolicyValue;
import org.omg.PortableServer.POA;
import org.omg.PortableServer.POAHelper;
import org.omg.PortableServer.Servant;

/** One ORB, started from the common options, and the ways in which a client finds the service. */
final class Peer {
    final ORB orb;
    final Shaper shaper;
    private final POA poa;

    Peer(Args args) throws UserException {
        Properties properties = new Properties();
        properties.setProperty("org.omg.CORBA.ORBClass", "org.jacorb.orb.ORB");
        properties.setProperty("org.omg.CORBA.ORBSingletonClass", "org.jacorb.orb.ORBSingleton");
        String[] endpoint = args.text("endpoint", "127.0.0.1:").split(":", 2);
        properties.setProperty("OAIAddr", endpoint[0]);
        if (!endpoint[1].isEmpty()) {
            properties.setProperty("OAPort", endpoint[1]);
        }
        if (args.has("publish")) {
            // The first is the profile's address, the others are alternatives to it.
            List<String> all = args.all("publish");
            String[] published = all.get(0).split(":", 2);
            properties.setProperty("jacorb.ior_proxy_host", published[0]);
            properties.setProperty("jacorb.ior_proxy_port", published[1]);
            if (all.size() > 1) properties.setProperty("jacorb.iiop.alternate_addresses", String.join(",", all.subList(1, all.size())));
        }
        boolean bidirectional = args.has("bidirectional");
        if (bidirectional) {
            properties.setProperty(
                    "org.omg.PortableInterceptor.ORBInitializerClass.bidir_init", "org.jacorb.orb.giop.BiDirConnectionInitializer");
        }
        if (args.has("giop")) {
            properties.setProperty("jacorb.giop_minor_version", args.text("giop", "").substring(2));
        }
        // JacORB tells its life story unless told to keep to errors.
        properties.setProperty("jacorb.log.default.verbosity", "1");
        boolean utf8 = args.text("chars", "latin-1").equals("utf-8");
        properties.setProperty("jacorb.native_char_codeset", utf8 ? "UTF8" : "ISO8859_1");
        for (String initial : args.all("initref")) {
            int equals = initial.indexOf('=');
            properties.setProperty("ORBInitRef." + initial.substring(0, equals), initial.substring(equals + 1));
        }
        for (String other : args.all("orb")) {
            int equals = other.indexOf('=');
            properties.setProperty(other.substring(0, equals), other.substring(equals + 1));
        }
        if (args.has("priority") || args.has("priorities")) {
            Priorities.intercept(args, properties);
        }
        // With --persistent its references are the same when it is started again, if its end point is.
        boolean persistent = args.has("persistent");
        if (persistent) properties.setProperty("jacorb.implname", "peer");
        orb = ORB.init(new String[0], properties);
        shaper = new Shaper(orb, args);
        POA root = POAHelper.narrow(orb.resolve_initial_references("RootPOA"));
        root.the_POAManager().activate();
        Policy named = root.create_id_assignment_policy(IdAssignmentPolicyValue.USER_ID);
        Policy kept = root.create_lifespan_policy(persistent ? LifespanPolicyValue.PERSISTENT : LifespanPolicyValue.TRANSIENT);
        List<Policy> policies = new ArrayList<>(List.of(named, kept));
        if (bidirectional) {
            Any both = orb.create_any();
            BidirectionalPolicyValueHelper.insert(both, BOTH.value);
            policies.add(orb.create_policy(BIDIRECTIONAL_POLICY_TYPE.value, both));
        }
        poa = root.create_POA("peer", root.the_POAManager(), policies.toArray(new Policy[0]));
    }

    org.omg.CORBA.Object resolve(String url) {
        return orb.string_to_object(url);
    }

    org.omg.CORBA.Object serve(Servant servant, String name) throws UserException {
        byte[] id = name.getBytes(java.nio.charset.StandardCharsets.US_ASCII);
        poa.activate_object_with_id(id, servant);
        return poa.id_to_reference(id);
    }

    /** By {@code --factory URL}, {@code --initial NAME} or {@code --naming PATH}. */
    EventChannelFactory factory(Args args) throws UserException {
        org.omg.CORBA.Object object;
        if (args.has("factory")) {
            object = resolve(args.text("factory", ""));
        } else if (args.has("initial")) {
            object = orb.resolve_initial_references(args.text("initial", ""));
        } else if (args.has("naming")) {
            NamingContextExt context = NamingContextExtHelper.narrow(orb.resolve_initial_references("NameService"));
            object = context.resolve_str(args.text("naming", ""));
        } else {
            throw new Args.Usage("--factory, --initial or --naming is missing");
        }
        return EventChannelFactoryHelper.narrow(object);
    }

    /** {@code --channel ID} (default 0) of that factory, or a {@code new} one, which is announced. */
    EventChannel channel(Args args) throws UserException {
        EventChannelFactory factory = factory(args);
        String which = args.text("channel", "0");
        if (!which.equals("new")) {
            return factory.get_event_channel(Integer.parseInt(which));
        }
        org.omg.CORBA.IntHolder id = new org.omg.CORBA.IntHolder();
        EventChannel channel = factory.create_channel(qos(args, "channel-qos"), qos(args, "channel-admin"), id);
        for (Property property : channel.get_qos()) {
            String pool = Priorities.describedPool(property.name, property.value);
            if (!pool.isEmpty()) {
                Console.say(pool);
            }
        }
        Console.say("channel " + id.value);
        return channel;
    }

    /** The same seen as the plain Event Service; {@code --event-channel URL} or {@code --plain} names it directly. */
    org.omg.CosEventChannelAdmin.EventChannel eventChannel(Args args) throws UserException {
        if (args.has("event-channel")) {
            return EventChannelHelper.narrow(resolve(args.text("event-channel", "")));
        }
        if (args.has("plain")) {
            return EventChannelHelper.narrow(orb.resolve_initial_references(args.text("initial", "EventService")));
        }
        return EventChannelHelper.narrow(channel(args));
    }

    /** {@code --qos NAME=TYPE:VALUE}. */
    Property[] qos(Args args, String option) {
        return args.all(option).stream().map(word -> {
            int equals = word.indexOf('=');
            int colon = word.indexOf(':', equals);
            if (equals < 0 || colon < 0) {
                throw new Args.Usage("not NAME=TYPE:VALUE: " + word);
            }
            return new Property(word.substring(0, equals), value(word.substring(equals + 1, colon), word.substring(colon + 1)));
        }).toArray(Property[]::new);
    }

    private Any value(String type, String text) {
        if (type.equals("pool")) return Priorities.pool(orb, text);
        if (type.equals("lanes")) return Priorities.lanes(orb, text);
        Any any = orb.create_any();
        switch (type) {
            case "short" -> any.insert_short(Short.parseShort(text));
            case "ushort" -> any.insert_ushort((short) Integer.parseInt(text));
            case "long" -> any.insert_long(Integer.parseInt(text));
            case "ulong" -> any.insert_ulong((int) Long.parseLong(text));
            case "time" -> any.insert_ulonglong(Long.parseUnsignedLong(text));
            case "boolean" -> any.insert_boolean(text.equals("true"));
            case "string" -> any.insert_string(text);
            default -> throw new Args.Usage("no such type of a property: " + type);
        }
        return any;
    }

    /** {@code --add domain:type} and {@code --remove domain:type}. */
    static EventType[] types(Args args, String option) {
        return args.all(option).stream().map(word -> {
            int colon = word.indexOf(':');
            if (colon < 0) {
                throw new Args.Usage("not DOMAIN:TYPE: " + word);
            }
            return new EventType(word.substring(0, colon), word.substring(colon + 1));
        }).toArray(EventType[]::new);
    }

    static String changes(String operation, EventType[] added, EventType[] removed) {
        StringBuilder line = new StringBuilder(operation);
        for (EventType type : added) line.append(" +").append(type.domain_name).append(':').append(type.type_name);
        for (EventType type : removed) line.append(" -").append(type.domain_name).append(':').append(type.type_name);
        return line.toString();
    }

    /** The repository id, and of a system exception minor and completion, as the C++ programs print them. */
    static String describe(Exception raised) {
        if (raised instanceof SystemException system) {
            String[] completed = {"yes", "no", "maybe"};
            return String.format("IDL:omg.org/CORBA/%s:1.0 minor 0x%08x completed %s",
                system.getClass().getSimpleName(), system.minor, completed[system.completed.value()]);
        }
        if (raised instanceof UserException) {
            try {
                Class<?> helper = Class.forName(raised.getClass().getName() + "Helper", true, raised.getClass().getClassLoader());
                return (String) helper.getMethod("id").invoke(null);
            } catch (ReflectiveOperationException none) {
                return raised.getClass().getName();
            }
        }
        return raised.toString();
    }
}
