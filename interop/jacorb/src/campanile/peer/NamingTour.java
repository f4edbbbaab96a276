package campanile.peer;

import static campanile.peer.Answers.attempt;
import static campanile.peer.Answers.attemptVoid;
import static campanile.peer.Answers.nilOrThere;
import static campanile.peer.Answers.same;
import static campanile.peer.Answers.yesNo;

import java.util.Arrays;
import java.util.stream.Collectors;
import org.omg.CORBA.UserException;
import org.omg.CosNaming.Binding;
import org.omg.CosNaming.BindingHolder;
import org.omg.CosNaming.BindingIterator;
import org.omg.CosNaming.BindingIteratorHolder;
import org.omg.CosNaming.BindingListHolder;
import org.omg.CosNaming.BindingType;
import org.omg.CosNaming.NameComponent;
import org.omg.CosNaming.NamingContext;
import org.omg.CosNaming.NamingContextExt;
import org.omg.CosNaming.NamingContextExtHelper;
import org.omg.CosNotifyChannelAdmin.EventChannelFactoryHelper;

/** {@code naming}: the naming service as a client finds it through the initial reference NameService. */
final class NamingTour {
    private final NamingContextExt root;
    private final org.omg.CORBA.Object object;
    private final BindingListHolder list = new BindingListHolder();
    private final BindingIteratorHolder rest = new BindingIteratorHolder();
    private NamingContext inner;
    private NamingContext other;

    private NamingTour(Peer peer) throws UserException {
        root = NamingContextExtHelper.narrow(peer.orb.resolve_initial_references("NameService"));
        object = peer.resolve("corbaloc:iiop:1.2@127.0.0.1:9/thing");
    }

    static int run(Args args) throws UserException {
        NamingTour tour = new NamingTour(new Peer(args));
        attempt("root", () -> {
            tour.root.list(100, tour.list, tour.rest);
            return text(tour.list.value);
        });
        attempt("is_a NamingContext", () -> yesNo(tour.root._is_a("IDL:omg.org/CosNaming/NamingContext:1.0")));
        for (String path : args.all("resolve")) {
            attempt("find " + path, () -> {
                EventChannelFactoryHelper.narrow(tour.root.resolve_str(path));
                return "factory";
            });
        }
        tour.bindings();
        tour.contexts();
        tour.lists();
        Console.say("done");
        return 0;
    }

    static String text(NameComponent[] name) {
        return Arrays.stream(name).map(one -> one.id + (one.kind.isEmpty() ? "" : "." + one.kind)).collect(Collectors.joining("/"));
    }

    private static String text(Binding[] list) {
        return Arrays.stream(list)
            .map(one -> text(one.binding_name) + (one.binding_type == BindingType.ncontext ? "/" : ""))
            .sorted()
            .collect(Collectors.joining(" "));
    }

    private static NameComponent[] name(String id, String kind) {
        return new NameComponent[] {new NameComponent(id, kind)};
    }

    private static NameComponent[] path(String... ids) {
        return Arrays.stream(ids).map(id -> new NameComponent(id, "")).toArray(NameComponent[]::new);
    }

    private void bindings() {
        attemptVoid("bind", () -> root.bind(name("thing", "test"), object));
        attempt("resolve", () -> same(root.resolve(name("thing", "test")), object));
        attemptVoid("bind again", () -> root.bind(name("thing", "test"), object));
        attemptVoid("rebind", () -> root.rebind(name("thing", "test"), object));
        attempt("resolve other kind", () -> same(root.resolve(name("thing", "other")), object));
        attempt("resolve missing", () -> same(root.resolve(path("nowhere", "thing")), object));
        attempt("resolve empty", () -> same(root.resolve(path()), object));
        attempt("resolve_str", () -> same(root.resolve_str("thing.test"), object));
        attempt("to_name", () -> Arrays.stream(root.to_name("a.b/c\\/d/e\\.f.g"))
            .map(one -> one.id + "," + one.kind)
            .collect(Collectors.joining(" | ")));
        attempt("to_name bad", () -> text(root.to_name("a//b")));
        attempt("to_string", () -> root.to_string(name("a/b", "c.d")));
        attempt("to_url", () -> root.to_url(":localhost:2809", "a/b c"));
        attemptVoid("unbind", () -> root.unbind(name("thing", "test")));
        attemptVoid("unbind again", () -> root.unbind(name("thing", "test")));
    }

    private void contexts() {
        attempt("bind_new_context", () -> {
            inner = root.bind_new_context(path("folder"));
            return nilOrThere(inner);
        });
        attemptVoid("bind in folder", () -> root.bind(path("folder", "thing"), object));
        attempt("resolve in folder", () -> same(inner.resolve(path("thing")), object));
        attemptVoid("bind through an object", () -> root.bind(path("folder", "thing", "x"), object));
        attemptVoid("destroy full", () -> inner.destroy());
        attempt("new_context", () -> {
            other = inner.new_context();
            return nilOrThere(other);
        });
        attemptVoid("bind_context", () -> root.bind_context(path("shelf"), other));
        attemptVoid("bind_context again", () -> root.bind_context(path("shelf"), other));
        attemptVoid("rebind_context", () -> root.rebind_context(path("shelf"), inner));
        attempt("resolve by the other way", () -> same(root.resolve(path("shelf", "thing")), object));
        attemptVoid("unbind in folder", () -> inner.unbind(path("thing")));
        attemptVoid("unbind shelf", () -> root.unbind(path("shelf")));
        attemptVoid("unbind folder", () -> root.unbind(path("folder")));
        attemptVoid("destroy", () -> inner.destroy());
        attemptVoid("destroy other", () -> other.destroy());
        attempt("after destroy", () -> same(inner.resolve(path("thing")), object));
    }

    private void lists() throws UserException {
        NamingContext many = root.bind_new_context(path("many"));
        for (int i = 0; i < 7; ++i) many.bind(path("n" + i), object);
        attempt("list all", () -> {
            many.list(100, list, rest);
            return text(list.value) + (rest.value == null ? "" : " and an iterator");
        });
        attempt("list 2", () -> {
            many.list(2, list, rest);
            return list.value.length + (rest.value == null ? "" : " and an iterator");
        });
        if (rest.value != null) iterate(rest.value);
        attempt("list 0", () -> {
            many.list(0, list, rest);
            return list.value.length + (rest.value == null ? "" : " and an iterator");
        });
    }

    private void iterate(BindingIterator iterator) {
        BindingHolder one = new BindingHolder();
        attempt("next_one", () -> iterator.next_one(one) ? "one" : "none");
        for (String when : new String[] {"3", "3 again", "3 at the end", "0"}) {
            int count = when.equals("0") ? 0 : 3;
            attempt("next_n " + when, () -> {
                boolean more = iterator.next_n(count, list);
                return list.value.length + (more ? " more" : " end");
            });
        }
        attemptVoid("iterator destroy", () -> iterator.destroy());
        attempt("iterator after destroy", () -> iterator.next_one(one) ? "one" : "none");
    }
}
