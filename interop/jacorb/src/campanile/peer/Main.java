package campanile.peer;

import org.omg.CORBA.SystemException;
import org.omg.CORBA.UserException;

/** One program with sub-commands; the C++ one beside it takes the same command line and prints the same lines. */
public final class Main {
    private Main() {}

    /**
     * Runs the sub-command and ends with its status.
     *
     * @param words the command line
     */
    public static void main(String[] words) {
        Runtime.getRuntime().halt(status(words));
    }

    /** JacORB's own naming service, kept in {@code --dir}; says {@code SERVER IOR: IOR:…}, and ends only with the process. */
    private static int nameServer(Args args) {
        org.jacorb.naming.NameServer.main(new String[] {
            "-Djacorb.log.default.verbosity=1", "-Djacorb.naming.print_ior=on", "-DOAIAddr=127.0.0.1",
            "-Djacorb.naming.db_dir=" + args.text("dir", "."),
        });
        return 0;
    }

    /** Destroys the channel {@code --channel ID}. */
    private static int destroy(Args args) throws UserException {
        new Peer(args).channel(args).destroy();
        Console.say("done");
        return 0;
    }

    private static int status(String[] words) {
        try {
            Args args = new Args(words);
            return switch (args.command()) {
                case "supplier" -> Supplier.run(args);
                case "consumer" -> Consumer.run(args);
                case "witness" -> Witness.serve(args);
                case "call" -> Witness.call(args);
                case "walk" -> ServiceTour.run(args);
                case "filters" -> Filters.run(args);
                case "destroy" -> destroy(args);
                case "naming" -> NamingTour.run(args);
                case "alma" -> Alma.run(args);
                case "name-server" -> nameServer(args);
                default -> throw new Args.Usage("no such sub-command: " + args.command());
            };
        } catch (Args.Usage usage) {
            System.err.println("peer: " + usage.getMessage());
            return 2;
        } catch (SystemException | UserException raised) {
            Console.say("error " + Peer.describe(raised));
            raised.printStackTrace();
            return 1;
        }
    }
}
