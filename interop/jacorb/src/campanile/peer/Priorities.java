package campanile.peer;

import CampanileTest.PolicyValue;
import CampanileTest.PolicyValueSeqHelper;
import CampanileTest.PriorityModelValue;
import CampanileTest.PriorityModelValueHelper;
import NotifyExt.PriorityModel;
import NotifyExt.ThreadPoolLane;
import NotifyExt.ThreadPoolLanesParams;
import NotifyExt.ThreadPoolLanesParamsHelper;
import NotifyExt.ThreadPoolParams;
import NotifyExt.ThreadPoolParamsHelper;
import java.util.Arrays;
import java.util.Properties;
import java.util.stream.Collectors;
import org.omg.CORBA.Any;
import org.omg.CORBA.BAD_PARAM;
import org.omg.CORBA.LocalObject;
import org.omg.CORBA.ORB;
import org.omg.CORBA.TCKind;
import org.omg.CORBA.UserException;
import org.omg.IOP.Codec;
import org.omg.IOP.ENCODING_CDR_ENCAPS;
import org.omg.IOP.Encoding;
import org.omg.IOP.RTCorbaPriority;
import org.omg.IOP.ServiceContext;
import org.omg.IOP.TaggedComponent;
import org.omg.PortableInterceptor.ClientRequestInfo;
import org.omg.PortableInterceptor.ClientRequestInterceptor;
import org.omg.PortableInterceptor.IORInfo;
import org.omg.PortableInterceptor.IORInterceptor;
import org.omg.PortableInterceptor.ORBInitInfo;
import org.omg.PortableInterceptor.ORBInitializer;
import org.omg.PortableInterceptor.ServerRequestInfo;
import org.omg.PortableInterceptor.ServerRequestInterceptor;

/**
 * Real-time CORBA's priorities for an ORB that knows nothing of them, by interceptors; and pools of threads as properties.
 */
public final class Priorities extends LocalObject implements ORBInitializer {
    /** No priority. */
    private static final int NONE = -1;
    private static final int TAG_POLICIES = 2;
    private static final int PRIORITY_MODEL_POLICY = 40;
    private static final int CLIENT_PROPAGATED = 0;

    /** What pushes are told with, in turn. */
    private static int[] told = {};
    private static boolean isAskedFor;
    private static int telling = NONE;
    private static int echoed = NONE;
    /** What the reference of the proxy that was last connected to names. */
    private static PriorityModelValue model;
    private static final ThreadLocal<Integer> HEARING = ThreadLocal.withInitial(() -> NONE);
    private static Codec codec;

    /**
     * Has the ORB that is about to be started tell priorities ({@code --priority P,P,…}, of a supplier), hear them, and ask
     * for them in the references of this program's objects ({@code --priorities}, of a consumer).
     */
    static void intercept(Args args, Properties properties) {
        isAskedFor = args.has("priorities");
        if (args.has("priority")) {
            told = Arrays.stream(args.text("priority", "").split(",")).mapToInt(Integer::parseInt).toArray();
        }
        properties.setProperty("org.omg.PortableInterceptor.ORBInitializerClass." + Priorities.class.getName(), "");
    }

    /** Says {@code model MODEL PRIORITY} if the reference of the proxy that was just connected to names a model. */
    static void sayModel() {
        if (model != null) {
            Console.say("model " + (model.model == CLIENT_PROPAGATED ? "propagated" : "declared") + " " + model.server_priority);
        }
    }

    /** The priority to be told with the push of event {@code index}, if the reference it goes to asks for one. */
    static void prioritize(int index) {
        telling = told.length == 0 ? NONE : told[index % told.length];
        echoed = NONE;
    }

    /** Says {@code echo PRIORITY} if the reply to the last push told one. */
    static void sayEcho() {
        if (echoed != NONE) {
            Console.say("echo " + echoed);
        }
    }

    /** {@code " priority P"} with what was told with the call that this thread serves; nothing if nothing was. */
    static String heard() {
        int priority = HEARING.get();
        return priority == NONE ? "" : " priority " + priority;
    }

    /** {@code pool:MODEL/PRIORITY/THREADS}, MODEL {@code propagated} or {@code declared}. */
    static Any pool(ORB orb, String text) {
        String[] words = text.split("/");
        short priority = Short.parseShort(words[1]);
        Any any = orb.create_any();
        ThreadPoolParamsHelper.insert(any,
            new ThreadPoolParams(model(words[0]), priority, 0, Integer.parseInt(words[2]), 0, priority, true, 0, 0));
        return any;
    }

    /** {@code lanes:MODEL/PRIORITY/PRIORITYxTHREADS+…}. */
    static Any lanes(ORB orb, String text) {
        String[] words = text.split("/");
        short declared = Short.parseShort(words[1]);
        ThreadPoolLane[] lanes = Arrays.stream(words[2].split("\\+")).map(word -> {
            String[] lane = word.split("x");
            return new ThreadPoolLane(model(words[0]), declared, Short.parseShort(lane[0]), Integer.parseInt(lane[1]), 0);
        }).toArray(ThreadPoolLane[]::new);
        Any any = orb.create_any();
        ThreadPoolLanesParamsHelper.insert(any,
            new ThreadPoolLanesParams(model(words[0]), declared, 0, lanes, false, true, 0, 0));
        return any;
    }

    /** The same the other way, of the pool among a channel's properties; empty without one. */
    static String describedPool(String name, Any value) {
        if (name.equals("ThreadPool")) {
            ThreadPoolParams pool = ThreadPoolParamsHelper.extract(value);
            return "pool " + name(pool.priority_model) + "/" + pool.server_priority + "/" + pool.static_threads;
        }
        if (name.equals("ThreadPoolLanes")) {
            ThreadPoolLanesParams pool = ThreadPoolLanesParamsHelper.extract(value);
            return "lanes " + name(pool.priority_model) + "/" + pool.server_priority + "/" + Arrays.stream(pool.lanes)
                .map(lane -> lane.lane_priority + "x" + lane.static_threads).collect(Collectors.joining("+"));
        }
        return "";
    }

    private static PriorityModel model(String word) {
        return switch (word) {
            case "propagated" -> PriorityModel.CLIENT_PROPAGATED;
            case "declared" -> PriorityModel.SERVER_DECLARED;
            default -> throw new Args.Usage("no such priority model: " + word);
        };
    }

    private static String name(PriorityModel model) {
        return model.equals(PriorityModel.CLIENT_PROPAGATED) ? "propagated" : "declared";
    }

    @Override
    public void pre_init(ORBInitInfo info) {}

    @Override
    public void post_init(ORBInitInfo info) {
        try {
            codec = info.codec_factory().create_codec(new Encoding(ENCODING_CDR_ENCAPS.value, (byte) 1, (byte) 2));
            info.add_client_request_interceptor(new Client());
            info.add_server_request_interceptor(new Server());
            info.add_ior_interceptor(new References());
        } catch (UserException raised) {
            throw new IllegalStateException(raised);
        }
    }

    private static int priority(ServiceContext context) {
        try {
            return codec.decode_value(context.context_data, ORB.init().get_primitive_tc(TCKind.tk_short)).extract_short();
        } catch (UserException raised) {
            throw new IllegalStateException(raised);
        }
    }

    private static byte[] encoded(Any any) {
        try {
            return codec.encode_value(any);
        } catch (UserException raised) {
            throw new IllegalStateException(raised);
        }
    }

    private static final class Client extends LocalObject implements ClientRequestInterceptor {
        @Override
        public String name() {
            return "priorities told";
        }

        @Override
        public void send_request(ClientRequestInfo info) {
            boolean connects = info.operation().startsWith("connect_");
            if (!connects && !info.operation().startsWith("push")) return;
            PriorityModelValue asked = asked(info);
            if (connects) {
                model = asked;
            } else if (telling != NONE && asked != null && asked.model == CLIENT_PROPAGATED) {
                Any any = ORB.init().create_any();
                any.insert_short((short) telling);
                info.add_request_service_context(new ServiceContext(RTCorbaPriority.value, encoded(any)), true);
            }
        }

        /** What the reference that is called names as its model. */
        private static PriorityModelValue asked(ClientRequestInfo info) {
            try {
                TaggedComponent component = info.get_effective_component(TAG_POLICIES);
                Any policies = codec.decode_value(component.component_data, PolicyValueSeqHelper.type());
                for (PolicyValue policy : PolicyValueSeqHelper.extract(policies)) {
                    if (policy.ptype == PRIORITY_MODEL_POLICY) {
                        Any value = codec.decode_value(policy.pvalue, PriorityModelValueHelper.type());
                        return PriorityModelValueHelper.extract(value);
                    }
                }
                return null;
            } catch (BAD_PARAM none) {
                return null;
            } catch (UserException raised) {
                throw new IllegalStateException(raised);
            }
        }

        @Override
        public void receive_reply(ClientRequestInfo info) {
            if (!info.operation().startsWith("push")) return;
            try {
                echoed = priority(info.get_reply_service_context(RTCorbaPriority.value));
            } catch (BAD_PARAM none) {
                echoed = NONE;
            }
        }

        @Override
        public void send_poll(ClientRequestInfo info) {}

        @Override
        public void receive_exception(ClientRequestInfo info) {}

        @Override
        public void receive_other(ClientRequestInfo info) {}

        @Override
        public void destroy() {}
    }

    private static final class Server extends LocalObject implements ServerRequestInterceptor {
        @Override
        public String name() {
            return "priorities heard";
        }

        @Override
        public void receive_request_service_contexts(ServerRequestInfo info) {
            try {
                HEARING.set(priority(info.get_request_service_context(RTCorbaPriority.value)));
            } catch (BAD_PARAM none) {
                HEARING.set(NONE);
            }
        }

        @Override
        public void receive_request(ServerRequestInfo info) {}

        @Override
        public void send_reply(ServerRequestInfo info) {}

        @Override
        public void send_exception(ServerRequestInfo info) {}

        @Override
        public void send_other(ServerRequestInfo info) {}

        @Override
        public void destroy() {}
    }

    /** Has the references of this program's objects ask for priorities. */
    private static final class References extends LocalObject implements IORInterceptor {
        @Override
        public String name() {
            return "priorities asked for";
        }

        @Override
        public void establish_components(IORInfo info) {
            if (!isAskedFor) return;
            Any value = ORB.init().create_any();
            PriorityModelValueHelper.insert(value, new PriorityModelValue(CLIENT_PROPAGATED, (short) 0));
            Any policies = ORB.init().create_any();
            PolicyValueSeqHelper.insert(policies, new PolicyValue[] {new PolicyValue(PRIORITY_MODEL_POLICY, encoded(value))});
            info.add_ior_component(new TaggedComponent(TAG_POLICIES, encoded(policies)));
        }

        @Override
        public void destroy() {}
    }
}
