package campanile.peer;

import CampanileTest.Colour;
import CampanileTest.OctetSeqHolder;
import CampanileTest.WitnessHelper;
import CampanileTest.WitnessPOA;
import CampanileTest.WitnessPackage.Refused;
import java.util.Arrays;
import org.omg.CORBA.CompletionStatus;
import org.omg.CORBA.StringHolder;
import org.omg.CORBA.SystemException;
import org.omg.CORBA.UserException;

/**
 * {@code witness} and {@code call}: an object of our own and a client that makes one of every kind of call to it. Golden
 * bytes are recorded between the two.
 */
final class Witness {
    private static final class WitnessServant extends WitnessPOA {
        private int level = 7;

        @Override
        public int twice(int value) throws Refused {
            if (value < 0) throw new Refused("negative", value, Colour.violet);
            if (value > 1000) throw new org.omg.CORBA.BAD_PARAM(42, CompletionStatus.COMPLETED_NO);
            return 2 * value;
        }

        @Override
        public void note(String text) {
            Console.say("note " + text);
        }

        @Override
        public void echo_block(byte[] data, OctetSeqHolder same) {
            same.value = data;
        }

        @Override
        public String echo_text(String narrow, String wide, StringHolder same) {
            same.value = wide;
            return narrow;
        }

        @Override
        public int level() {
            return level;
        }

        @Override
        public void level(int value) {
            level = value;
        }
    }

    private interface Call {
        String call() throws UserException;
    }

    private Witness() {}

    static int serve(Args args) throws UserException {
        Peer peer = new Peer(args);
        Console.say("ior " + peer.orb.object_to_string(peer.serve(new WitnessServant(), "witness")));
        Console.say("ready");
        Console.untilQuit();
        // Says CloseConnection to whoever is still connected.
        peer.orb.shutdown(true);
        return 0;
    }

    static int call(Args args) throws UserException {
        Peer peer = new Peer(args);
        CampanileTest.Witness to = WitnessHelper.unchecked_narrow(peer.resolve(args.text("witness", "")));
        attempt(args, "non_existent", () -> String.valueOf(to._non_existent()));
        attempt(args, "is_a", () -> String.valueOf(to._is_a("IDL:campanile.org/CampanileTest/Other:1.0")));
        attempt(args, "twice", () -> String.valueOf(to.twice(21)));
        attempt(args, "refused", () -> String.valueOf(to.twice(-5)));
        attempt(args, "bad_param", () -> String.valueOf(to.twice(2000)));
        attempt(args, "forwarded", () -> String.valueOf(to.twice(77)));
        attempt(args, "set_level", () -> {
            to.level(11);
            return "ok";
        });
        attempt(args, "get_level", () -> String.valueOf(to.level()));
        attempt(args, "note", () -> {
            to.note("one way");
            return "ok";
        });
        if (!args.text("giop", "1.2").equals("1.0")) {
            // GIOP 1.0 has no wide strings.
            attempt(args, "echo_text", () -> {
                StringHolder same = new StringHolder();
                String wide = "a\u00e9\u20ac\ud834\udd1e";
                String narrow = to.echo_text("caf\u00e9", wide, same);
                return narrow.equals("caf\u00e9") && same.value.equals(wide) ? "same" : "different";
            });
        }
        attempt(args, "echo_block", () -> {
            byte[] data = new byte[(int) args.number("block", 20000)];
            for (int i = 0; i < data.length; ++i) data[i] = (byte) i;
            OctetSeqHolder same = new OctetSeqHolder();
            to.echo_block(data, same);
            return Arrays.equals(data, same.value) ? "same" : "different";
        });
        Console.say("done");
        if (args.has("stay")) Console.untilQuit();
        return 0;
    }

    /** Says what a call ended in; a call that is meant to be refused is one like any other. {@code --only} picks one. */
    private static void attempt(Args args, String name, Call call) {
        if (!args.text("only", name).equals(name)) return;
        try {
            Console.say(name + " " + call.call());
        } catch (Refused refused) {
            Console.say(name + " refused " + refused.why + " " + refused.code + " " + refused.shade.value());
        } catch (SystemException | UserException raised) {
            Console.say(name + " " + Peer.describe(raised));
        }
    }
}
