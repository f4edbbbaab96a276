package io.campanile.scenarios;

import io.campanile.CampanileException;
import io.campanile.CampanileException.Code;
import io.campanile.Dynamic;
import io.campanile.EventConsumer;
import io.campanile.EventNumber;
import io.campanile.EventSupplier;
import io.campanile.EventType;
import io.campanile.Length;
import io.campanile.Settings;
import io.campanile.StartFrom;
import io.campanile.Trouble;
import io.campanile.Unsigned;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import javax.tools.ToolProvider;

/**
 * The shared scenarios in Java: {@code Scenarios NAME}. Exit status 0 is passed. What the driver has to do for a scenario is asked for in
 * a line that begins with {@code > }, and answered with a line.
 */
final class Scenarios {
    private Scenarios() {}

    enum State {
        ok,
        broken
    }

    record Place(double x, double y, Optional<String> note) {}

    record Past(List<Place> history) {}

    record Sample(
            double speed,
            float direction,
            String station,
            State state,
            Place place,
            float[] gusts,
            List<Place> history,
            byte[] raw,
            @Length(3) short[] axes,
            char sign,
            short small,
            boolean calm,
            Instant at,
            Duration lasted,
            boolean[] bits,
            long far,
            @Unsigned long farther,
            int @Length(3) [] @Length(2) [] grid,
            List<@Unsigned Short @Length(2) []> pairs) {}

    /** As the tests with orbs have them in IDL. */
    @EventType(module = "CampanileTest", prefix = "campanile.org")
    enum Colour {
        red,
        green,
        blue,
        violet
    }

    @EventType(module = "CampanileTest", prefix = "campanile.org")
    record Point(int x, short y, double z) {}

    @EventType(module = "CampanileTest", prefix = "campanile.org")
    record Line(Point from, byte weight, Point to) {}

    @EventType(module = "CampanileTest", prefix = "campanile.org")
    record Nested(String name, Line outline, Colour tint, Point origin) {}

    @EventType(module = "CampanileTest", prefix = "campanile.org")
    record Block(byte before, byte[] data, @Unsigned int after) {}

    record Wind(double speed, double direction) {}

    @EventType(name = "Wind")
    record OtherWind(String speed) {}

    record Rain(@Unsigned int mm) {}

    /** The same name with less, wider, and something that does not come. */
    @EventType(name = "Sample")
    record Narrow(String station, double direction, Optional<@Unsigned Integer> unknown) {}

    /** The same name with something that has to come. */
    @EventType(name = "Sample")
    record Further(double speed, int humidity) {}

    /** Words that IDL keeps for itself. */
    record Words(String string, String module, int in) {}

    /** A record that has more of itself. */
    record Node(int number, List<Node> children) {}

    record Letter(char letter) {}

    record Lasting(Duration duration) {}

    record Fixed(@Length(2) List<Integer> two) {}

    record Wrong(Object what) {}

    record Throws(int number) {
        Throws {
            if (number == 13) {
                throw new IllegalArgumentException("thirteen");
            }
        }
    }

    private static void must(boolean holds) {
        if (!holds) {
            throw new AssertionError("not so");
        }
    }

    private static void same(Object a, Object b) {
        if (!a.equals(b)) {
            throw new AssertionError(a + " is not " + b);
        }
    }

    /** What it says when it is refused. */
    private static String refused(Code code, Runnable what) {
        try {
            what.run();
        } catch (CampanileException error) {
            same(error.code(), code);
            return error.getMessage();
        }
        throw new AssertionError("no error, where " + code + " was expected");
    }

    private static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in));

    /** Has the driver do something. */
    private static void ask(String what) throws IOException {
        System.out.println("> " + what);
        must(IN.readLine() != null);
    }

    /** Events go from program to program, with no service between. */
    private static final boolean IS_OVER_DDS = "dds".equals(System.getenv("CAMPANILE_TRANSPORT"));

    private static Words words(String module) {
        return new Words("é", module, -1);
    }

    private static Node node(int number, Node... children) {
        return new Node(number, List.of(children));
    }

    private static void publish() throws Exception {
        BlockingQueue<Wind> events = new LinkedBlockingQueue<>();
        try (var consumer = EventConsumer.of("Weather").on(Wind.class, events::add).ready();
                var supplier = EventSupplier.of("Weather")) {
            for (double speed : new double[] {1, Double.MIN_VALUE, -0.0, Double.NaN}) {
                supplier.publish(new Wind(speed, 270));
                same(events.take(), new Wind(speed, 270));
            }
            var publisher = supplier.publisher();
            for (int number = 0; number < 10000; number++) {
                same(publisher.publish(new Wind(number, 0)), (long) number);
            }
            for (int number = 0; number < 10000; number++) {
                same(events.take().speed(), (double) number);
            }
            publisher.flush();
            same(publisher.sync().confirmed(), 10000L);
            must(publisher.nextLoss().isEmpty());
            same(publisher.tally().published(), 10000L);
            same(publisher.close(Duration.ofMinutes(1)).confirmed(), 10000L);
            refused(Code.CLOSED, () -> publisher.publish(new Wind(1, 2)));
            must(!consumer.hasEnded());
        }
    }

    private static void filter() throws Exception {
        try (var consumer = EventConsumer.of("Filtered").filter("$speed > 10");
                var supplier = EventSupplier.of("Filtered")) {
            var events = consumer.events(Wind.class);
            for (double speed : new double[] {9, 11, 10, 12}) {
                supplier.publish(new Wind(speed, 0));
            }
            var iterator = events.iterator();
            same(iterator.next().speed(), 11.0);
            same(iterator.next().speed(), 12.0);
            must(events.next(Duration.ZERO).isEmpty());
        }
        var wrong = EventConsumer.of("Filtered").on(Wind.class, wind -> {}).filter("$speed >");
        String said = refused(Code.FILTER, wrong::ready);
        must(said.contains("$speed >") && said.contains("column 9") && !said.contains("CORBA"));
    }

    /** Takes one event after the other, and cancels after so many. */
    private static final class Some implements Flow.Subscriber<Wind> {
        private final BlockingQueue<Object> taken = new LinkedBlockingQueue<>();
        private final int most;
        private Flow.Subscription subscription;
        private int count;

        Some(int most) {
            this.most = most;
        }

        @Override
        public void onSubscribe(Flow.Subscription to) {
            subscription = to;
            subscription.request(1);
        }

        @Override
        public void onNext(Wind wind) {
            taken.add(wind.speed());
            if (++count == most) {
                subscription.cancel();
            } else {
                subscription.request(1);
            }
        }

        @Override
        public void onError(Throwable thrown) {
            taken.add(thrown);
        }

        @Override
        public void onComplete() {
            taken.add("complete");
        }
    }

    private static void history() throws Exception {
        BlockingQueue<EventNumber> numbers = new LinkedBlockingQueue<>();
        var before = Instant.now().minusSeconds(60);
        try (var supplier = EventSupplier.of("Weather");
                var all = EventConsumer.of("Weather").startFrom(StartFrom.first());
                var flowing = EventConsumer.of("Weather").startFrom(StartFrom.first())) {
            CompletableFuture<?> published = CompletableFuture.completedFuture(null);
            for (int speed = 1; speed <= 5; speed++) {
                published = supplier.publishAsync(new Wind(speed, 0));
            }
            published.get();
            all.onNumbered(Wind.class, (wind, number) -> numbers.add(number.orElseThrow())).ready();
            var third = List.of(numbers.take(), numbers.take(), numbers.take()).get(2);
            must(third.came().orElseThrow().isAfter(before) && numbers.take().number() > third.number());
            same(numbers.take().number(), third.number() + 2);
            same(begins(StartFrom.number(third.number())), 3.0);
            same(begins(StartFrom.after(third.number())), 4.0);
            same(begins(StartFrom.last(2)), 4.0);
            same(begins(StartFrom.since(Duration.ofHours(1))), 1.0);
            same(begins(StartFrom.time(before)), 1.0);
            same(begins(StartFrom.lastOfEachType()), 5.0);
            same(begins(StartFrom.lastOfEach("speed")), 1.0);
            var some = new Some(2);
            var events = flowing.events(Wind.class);
            events.subscribe(some);
            same(some.taken.take(), 1.0);
            same(some.taken.take(), 2.0);
            ask("restart");
            supplier.publish(new Wind(6, 0));
            numbers.take();
            untilDone(all::check);
            same(all.reconnections(), 1L);
            same(supplier.reconnections(), 1L);
            must(some.taken.isEmpty());
        }
        var rest = new Some(Integer.MAX_VALUE);
        try (var late = EventConsumer.of("Weather").startFrom(StartFrom.last(1))) {
            late.events(Wind.class).subscribe(rest);
            same(rest.taken.take(), 6.0);
        }
        same(rest.taken.take(), "complete");
        BlockingQueue<Trouble> troubles = new LinkedBlockingQueue<>();
        try (var unknown = EventConsumer.of("Weather").filter("$sped > 10").onTrouble(troubles::add).on(Wind.class, wind -> {}).ready()) {
            same(troubles.take().kind(), Trouble.Kind.UNKNOWN_NAME);
            must(!unknown.hasEnded());
        }
        var supplier = EventSupplier.of("Weather");
        supplier.close();
        must(supplier.publishAsync(new Wind(1, 2)).handle((done, thrown) -> thrown != null).get());
    }

    private static double begins(StartFrom start) {
        try (var consumer = EventConsumer.of("Weather").startFrom(start)) {
            var events = consumer.events(Wind.class);
            double speed = events.iterator().next().speed();
            must(events.number().isPresent());
            return speed;
        }
    }

    private static void untilDone(Runnable what) {
        for (;;) {
            try {
                what.run();
                return;
            } catch (CampanileException error) {
                Thread.onSpinWait();
            }
        }
    }

    private static void restart() throws Exception {
        BlockingQueue<Double> events = new LinkedBlockingQueue<>();
        BlockingQueue<Trouble> troubles = new LinkedBlockingQueue<>();
        try (var consumer = EventConsumer.of("Weather").on(Wind.class, wind -> events.add(wind.speed())).onTrouble(troubles::add).ready();
                var supplier = EventSupplier.of("Weather");
                var hasty = EventSupplier.of("Weather", Settings.load().set("wait_for_restart_ms", "0"))) {
            for (var by : List.of(supplier, hasty)) {
                by.publish(new Wind(1, 2));
                same(events.take(), 1.0);
            }
            ask("stop");
            must(refused(Code.UNREACHABLE, () -> hasty.publish(new Wind(4, 2))).length() > 0);
            var meanwhile = new FutureTask<>(() -> supplier.publish(new Wind(2, 2)), true);
            new Thread(meanwhile).start();
            untilWaiting(supplier);
            ask("start");
            must(meanwhile.get());
            untilDone(consumer::check);
            while (troubles.take().kind() != Trouble.Kind.GAP) {
                Thread.onSpinWait();
            }
            for (var by : List.of(supplier, hasty)) {
                by.publish(new Wind(3, 2));
                // What was published meanwhile has come, too, if the consumer was there before the supplier.
                double speed = 2;
                while (speed == 2) {
                    speed = events.take();
                }
                same(speed, 3.0);
            }
            must(supplier.reconnections() > 0);
            var leaving = EventSupplier.of("Weather");
            ask("stop");
            var closed = new FutureTask<>(() -> refused(Code.UNREACHABLE, () -> leaving.publish(new Wind(5, 2))));
            new Thread(closed).start();
            untilWaiting(leaving);
            leaving.close();
            must(closed.get().length() > 0);
        }
    }

    private static void untilWaiting(EventSupplier supplier) {
        while (supplier.waiting() == 0) {
            Thread.onSpinWait();
        }
    }

    private static void slow() throws Exception {
        var open = new CountDownLatch(1);
        BlockingQueue<Double> late = new LinkedBlockingQueue<>();
        BlockingQueue<Double> early = new LinkedBlockingQueue<>();
        BlockingQueue<Trouble> troubles = new LinkedBlockingQueue<>();
        try (var slow = EventConsumer.of("Weather").slowAfter(Duration.ZERO).onTrouble(troubles::add).on(Wind.class, wind -> {
                            try {
                                open.await();
                            } catch (InterruptedException error) {
                                throw new IllegalStateException(error);
                            }
                            late.add(wind.speed());
                        })
                        .ready();
                var quick = EventConsumer.of("Weather").on(Wind.class, wind -> early.add(wind.speed())).ready();
                var supplier = EventSupplier.of("Weather");
                var publisher = supplier.publisher()) {
            for (int number = 0; number < 1000; number++) {
                publisher.publish(new Wind(number, 0));
            }
            for (int number = 0; number < 1000; number++) {
                same(early.take(), (double) number);
            }
            same(publisher.sync().confirmed(), 1000L);
            must(late.isEmpty());
            open.countDown();
            for (int number = 0; number < 1000; number++) {
                same(late.take(), (double) number);
            }
            same(troubles.take().kind(), Trouble.Kind.SLOW);
            must(!slow.hasEnded() && !quick.hasEnded());
        }
    }

    private static void mismatch() throws Exception {
        BlockingQueue<Trouble> troubles = new LinkedBlockingQueue<>();
        BlockingQueue<Wind> events = new LinkedBlockingQueue<>();
        try (var wrong = EventConsumer.of("Weather").on(OtherWind.class, wind -> {}).onTrouble(troubles::add).ready();
                var right = EventConsumer.of("Weather").on(Wind.class, events::add).ready();
                var supplier = EventSupplier.of("Weather")) {
            for (int number = 0; number < 3; number++) {
                supplier.publish(new Wind(number, 0));
                same(events.take(), new Wind(number, 0));
            }
            var told = troubles.take();
            same(told.kind(), Trouble.Kind.MISMATCH);
            same(told.path(), "speed");
            same(told.reason(), "a double cannot be taken for a string");
            must(told.declared().contains("string speed") && told.came().contains("double speed"));
            must(troubles.isEmpty() && !wrong.hasEnded() && !right.hasEnded());
        }
    }

    /** Over DDS: a supplier that is not reliable, for a consumer that is. */
    private static void incompatible() throws Exception {
        BlockingQueue<Trouble> troubles = new LinkedBlockingQueue<>();
        BlockingQueue<Trouble> ofSupplier = new LinkedBlockingQueue<>();
        try (var consumer = EventConsumer.of("Weather").on(Wind.class, wind -> {}).onTrouble(troubles::add).ready();
                var supplier = EventSupplier.of("Weather", Settings.load().set("dds.reliable", "false"))) {
            supplier.onTrouble(ofSupplier::add);
            supplier.publish(new Wind(1, 0));
            must(ofSupplier.take().supplier().startsWith("reader "));
            var told = troubles.take();
            same(told.kind(), Trouble.Kind.INCOMPATIBLE);
            same(told.name(), "Wind");
            same(told.path(), "reliability");
            must(told.supplier().startsWith("writer ") && told.reason().startsWith("set dds.reliable = false"));
            must(!consumer.hasEnded());
        }
    }

    private static void unicode() throws Exception {
        BlockingQueue<Words> events = new LinkedBlockingQueue<>();
        BlockingQueue<Letter> letters = new LinkedBlockingQueue<>();
        try (var consumer = EventConsumer.of("Weather").on(Words.class, events::add).on(Letter.class, letters::add).ready();
                var supplier = EventSupplier.of("Weather")) {
            for (String text : List.of("", "é", "屋根 塔", "🦀 крыша", "\u0001\u007F")) {
                supplier.publish(words(text));
                same(events.take(), words(text));
            }
            supplier.publish(new Letter('風'));
            same(letters.take(), new Letter('風'));
            for (String text : List.of("\uD800", "a\uDC00", "a\0b")) {
                must(refused(Code.VALUE, () -> supplier.publish(words(text))).contains("module"));
            }
            must(refused(Code.VALUE, () -> supplier.publish(new Letter('\uD800'))).contains("letter"));
            supplier.publish(words("last"));
            same(events.take(), words("last"));
            must(!consumer.hasEnded());
        }
    }

    private static void nested() throws Exception {
        var history = new ArrayList<Place>();
        for (int number = 0; number < 1000; number++) {
            history.add(new Place(number, 0, number % 2 == 0 ? Optional.of("note") : Optional.empty()));
        }
        try (var consumer = EventConsumer.of("Weather");
                var supplier = EventSupplier.of("Weather")) {
            var events = consumer.events(Past.class);
            supplier.publish(new Past(history));
            same(events.iterator().next(), new Past(history));
        }
        if (IS_OVER_DDS) {
            try (var supplier = EventSupplier.of("Weather")) {
                must(refused(Code.TYPE, () -> supplier.publish(node(1))).contains("Node.children[]"));
                must(refused(Code.TYPE, EventConsumer.of("Weather").on(Node.class, none -> {})::ready).contains("contains itself"));
            }
            return;
        }
        BlockingQueue<Node> events = new LinkedBlockingQueue<>();
        try (var consumer = EventConsumer.of("Weather").on(Node.class, events::add).ready();
                var supplier = EventSupplier.of("Weather")) {
            var tree = node(1, node(2, node(3), node(4)), node(5));
            supplier.publish(tree);
            same(events.take(), tree);
            must(!consumer.hasEnded());
        }
    }

    private static Sample sample() {
        var place = new Place(1, -2.5, Optional.of("крыша"));
        return new Sample(
                1,
                270,
                "Überlingen 塔",
                State.broken,
                place,
                new float[] {1.5F},
                List.of(place, new Place(0, 0, Optional.empty())),
                new byte[] {1, -1},
                new short[] {-1, 0, 1},
                '風',
                (short) -5,
                true,
                Instant.EPOCH,
                Duration.ofSeconds(1),
                new boolean[] {true, false},
                Long.MIN_VALUE,
                -1,
                new int[][] {{1, 2}, {3, 4}, {5, 6}},
                List.<Short[]>of(new Short[] {7, -1}));
    }

    private static void types() throws Exception {
        BlockingQueue<Wind> winds = new LinkedBlockingQueue<>();
        BlockingQueue<Rain> rains = new LinkedBlockingQueue<>();
        BlockingQueue<Dynamic> others = new LinkedBlockingQueue<>();
        try (var consumer = EventConsumer.of("Weather")
                        .on(Wind.class, winds::add)
                        .on(Rain.class, rains::add)
                        .onAny(others::add)
                        .ready();
                var supplier = EventSupplier.of("Weather")) {
            supplier.publish(new Wind(1, 2));
            supplier.publish(new Rain(7));
            supplier.publish(words("b"));
            same(winds.take(), new Wind(1, 2));
            same(rains.take(), new Rain(7));
            same(others.take(), new Dynamic("", "Words", "{\"string\":\"é\",\"module\":\"b\",\"in\":-1}"));
            must(winds.isEmpty() && rains.isEmpty() && others.isEmpty() && !consumer.hasEnded());
        }
    }

    private static void evolution() {
        try (var consumer = EventConsumer.of("Weather");
                var supplier = EventSupplier.of("Weather")) {
            var events = consumer.events(Narrow.class);
            supplier.publish(sample());
            same(events.iterator().next(), new Narrow("Überlingen 塔", 270, Optional.empty()));
        }
    }

    private static void missing() throws Exception {
        BlockingQueue<Trouble> troubles = new LinkedBlockingQueue<>();
        try (var consumer = EventConsumer.of("Weather").on(Further.class, none -> {}).onTrouble(troubles::add).ready();
                var supplier = EventSupplier.of("Weather")) {
            supplier.publish(sample());
            var told = troubles.take();
            same(told.kind(), Trouble.Kind.MISMATCH);
            same(told.path(), "humidity");
            must(!consumer.hasEnded());
        }
    }

    private static void waits() throws Exception {
        ask("stop");
        must(refused(Code.UNREACHABLE, () -> EventSupplier.of("Weather")).contains("campanile serve"));
        var patient = new Thread(() -> {
            try (var supplier = EventSupplier.of("Weather", Settings.load().set("wait_for_service_ms", "60000"))) {
                supplier.publish(new Wind(1, 2));
            }
        });
        patient.start();
        ask("start");
        patient.join();
    }

    /** A thousand records, or a hundred over DDS, which are compiled here. */
    private static void thousandTypes() throws Exception {
        int count = IS_OVER_DDS ? 100 : 1000;
        var folder = Files.createTempDirectory("campanile-types");
        var source = new StringBuilder();
        for (int number = 0; number < count; number++) {
            source.append("record T%d(int a%d) {}\n".formatted(number, number));
        }
        var file = Files.writeString(folder.resolve("T.java"), source);
        same(ToolProvider.getSystemJavaCompiler().run(null, null, null, "-proc:none", "-d", folder.toString(), file.toString()), 0);
        BlockingQueue<Dynamic> events = new LinkedBlockingQueue<>();
        try (var loader = new URLClassLoader(new URL[] {folder.toUri().toURL()});
                var consumer = EventConsumer.of("Types").onAny(events::add).ready();
                var supplier = EventSupplier.of("Types")) {
            for (int round = 0; round < 2; round++) {
                for (int number = 0; number < count; number++) {
                    var constructor = loader.loadClass("T" + number).getDeclaredConstructor(int.class);
                    constructor.setAccessible(true);
                    supplier.publish((Record) constructor.newInstance(number));
                    same(events.take(), new Dynamic("", "T" + number, "{\"a%d\":%d}".formatted(number, number)));
                }
            }
            must(!consumer.hasEnded());
        } finally {
            try (var files = Files.walk(folder)) {
                files.sorted(Comparator.reverseOrder()).forEach(each -> each.toFile().delete());
            }
        }
    }

    /** Leaves with events under way: the driver stops the service, so that nothing is answered. */
    private static void leave() throws Exception {
        var supplier = EventSupplier.of("Weather");
        var publisher = supplier.publisher();
        publisher.publish(new Wind(0, 2));
        same(publisher.sync().confirmed(), 1L);
        ask("freeze");
        for (int number = 0; number < 10; number++) {
            publisher.publish(new Wind(1, 2));
        }
    }

    private static void misuse() throws Exception {
        BlockingQueue<Double> events = new LinkedBlockingQueue<>();
        BlockingQueue<Trouble> troubles = new LinkedBlockingQueue<>();
        var itself = new ArrayList<EventConsumer>();
        try (var supplier = EventSupplier.of("Weather");
                var consumer = EventConsumer.of("Weather")
                        .on(Wind.class, wind -> {
                            if (wind.speed() == 13) {
                                throw new IllegalStateException("thirteen");
                            }
                            if (wind.speed() == 15) { // again, from within
                                supplier.publish(new Wind(16, 0));
                            }
                            if (wind.speed() == 17) { // it would wait for itself
                                refused(Code.FROM_CALLBACK, itself.get(0)::close);
                            }
                            events.add(wind.speed());
                        })
                        .on(Throws.class, none -> {})
                        .onTrouble(troubles::add)) {
            itself.add(consumer);
            consumer.ready();
            for (double speed : new double[] {13, 15, 17}) {
                supplier.publish(new Wind(speed, 0));
            }
            same(events.take(), 15.0);
            same(Set.of(events.take(), events.take()), Set.of(16.0, 17.0));
            must(troubles.take().reason().contains("thirteen"));
            // What no value is, told with the component's name.
            must(refused(Code.VALUE, () -> supplier.publish(words(null))).contains("module: it is null"));
            must(refused(Code.VALUE, () -> supplier.publish(new Lasting(Duration.ofNanos(-1)))).contains("negative"));
            must(refused(Code.VALUE, () -> supplier.publish(new Fixed(List.of(1)))).contains("have to be 2"));
            must(refused(Code.TYPE, () -> supplier.publish(new Wrong("x"))).contains("java.lang.Object"));
            refused(Code.CHANNEL_NAME, () -> EventSupplier.of(""));
            refused(Code.ARGUMENT, () -> EventSupplier.of("a\0b"));
            refused(Code.SETTINGS, () -> Settings.load().set("transport", "pigeon"));
            refused(Code.ARGUMENT, consumer::ready);
            large(supplier);
            supplier.publish(new Wind(1, 0));
            same(events.take(), 1.0);
        }
        once();
    }

    private static void large(EventSupplier supplier) throws Exception {
        BlockingQueue<Integer> sizes = new LinkedBlockingQueue<>();
        try (var large = EventConsumer.of("Weather").on(Words.class, words -> sizes.add(words.string().length())).ready()) {
            supplier.publish(new Words("x".repeat(1 << 20), "", 0));
            same(sizes.take(), 1 << 20);
            try {
                supplier.publish(new Words("x".repeat(16 << 20), "", 0));
                same(sizes.take(), 16 << 20);
            } catch (CampanileException error) {
                must(error.code() == Code.REFUSED || error.code() == Code.UNREACHABLE);
            }
            must(!large.hasEnded());
        }
    }

    /** A callback that has had enough, and a consumer that is closed. */
    private static void once() throws Exception {
        BlockingQueue<Double> events = new LinkedBlockingQueue<>();
        try (var supplier = EventSupplier.of("Weather")) {
            var once = EventConsumer.of("Weather").onWhile(Wind.class, wind -> {
                events.add(wind.speed());
                return false;
            });
            once.ready();
            supplier.publish(new Wind(1, 0));
            same(events.take(), 1.0);
            while (!once.hasEnded()) {
                Thread.onSpinWait();
            }
            once.close();
            once.close();
            refused(Code.CLOSED, once::check);
        }
    }

    /** Publishes into a channel what comes from another, as records. */
    private static void pass(String from, String to) throws Exception {
        try (var supplier = EventSupplier.of(to);
                var consumer = EventConsumer.of(from).on(Sample.class, supplier::publish).ready()) {
            ask("ready");
            must(!consumer.hasEnded());
        }
    }

    /** The same for what orbs send, to orbs. */
    private static void passForOrbs(String from, String to) throws Exception {
        try (var supplier = EventSupplier.of(to);
                var consumer = EventConsumer.of(from)
                        .on(Nested.class, supplier::publish)
                        .on(Block.class, supplier::publish)
                        .ready()) {
            ask("ready");
            must(!consumer.hasEnded());
        }
    }

    /** One-way trips within a process, as lines of nanoseconds. */
    private static void trips(int count) throws Exception {
        BlockingQueue<Long> taken = new LinkedBlockingQueue<>();
        record Trip(long sent) {}
        try (var consumer = EventConsumer.of("Trips").on(Trip.class, trip -> taken.add(System.nanoTime() - trip.sent())).ready();
                var supplier = EventSupplier.of("Trips")) {
            for (int number = 0; number < count; number++) {
                supplier.publish(new Trip(System.nanoTime()));
                System.out.println(taken.take());
            }
            must(!consumer.hasEnded());
        }
    }

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "publish" -> publish();
            case "filter" -> filter();
            case "restart" -> restart();
            case "history" -> history();
            case "slow_consumer" -> slow();
            case "type_mismatch" -> mismatch();
            case "incompatible" -> incompatible();
            case "unicode" -> unicode();
            case "nested" -> nested();
            case "thousand_types" -> thousandTypes();
            case "types" -> types();
            case "evolution" -> evolution();
            case "missing" -> missing();
            case "wait" -> waits();
            case "exit" -> leave();
            case "misuse" -> misuse();
            case "pass" -> pass(args[1], args[2]);
            case "pass_for_orbs" -> passForOrbs(args[1], args[2]);
            case "trips" -> trips(Integer.parseInt(args[1]));
            default -> throw new IllegalArgumentException("there is no scenario " + Arrays.toString(args));
        }
    }
}
