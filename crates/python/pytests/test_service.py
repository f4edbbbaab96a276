"""Suppliers and consumers at a service, which `tests/suite.rs` has started, or over DDS."""

import asyncio
import dataclasses
import logging
import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid

import campanile
import pytest

WAIT = 60
IS_OVER_DDS = os.environ.get("CAMPANILE_TRANSPORT") == "dds"


@campanile.event
class Wind:
    speed: float
    station: str = "nord"


@pytest.fixture
def channel() -> str:
    return f"Test-{uuid.uuid4()}"


def receiving(channel, *classes, **options):
    events: queue.Queue = queue.Queue()
    troubles: queue.Queue = queue.Queue()
    consumer = campanile.Consumer(channel, **options).on_trouble(troubles.put)
    for cls in classes or (Wind,):
        consumer.on(cls, events.put)
    return consumer.ready(), events, troubles


def test_an_event_arrives_as_an_object(channel):
    with campanile.Consumer(channel, Wind).events() as events, campanile.Supplier(channel) as supplier:
        supplier.publish(Wind(11.5, "Überlingen 塔"))
        assert events.next(WAIT) == Wind(11.5, "Überlingen 塔")


def test_a_filter_is_applied_by_the_service(channel):
    subscription, events, _ = receiving(channel, filter="$speed > 10 and $station == 'nord'")
    with subscription, campanile.Supplier(channel) as supplier:
        for speed in (5.0, 10.0, 10.5):
            supplier.publish(Wind(speed))
        assert events.get(timeout=WAIT) == Wind(10.5)


def test_a_filter_that_is_none_is_refused_with_the_place(channel):
    with pytest.raises(campanile.FilterError, match="column 9") as caught:
        campanile.Consumer(channel, filter="$speed >").on(Wind, print).ready()
    assert isinstance(caught.value, campanile.RefusedError)
    assert caught.value.column == 9 and caught.value.reason in str(caught.value)
    assert not any(word in str(caught.value) for word in ("CORBA", "IDL", "raised", "Constraint"))


def test_a_name_in_a_filter_that_the_class_does_not_have_is_reported(channel):
    subscription, _, troubles = receiving(channel, filter="$sped > 10 and $station == 'nord'")
    with subscription:
        trouble = troubles.get(timeout=WAIT)
        assert trouble.kind == "unknown_name"
        assert trouble.text == "the filter asks for sped, which no declared type has: Wind has speed, station"


@pytest.mark.skipif(not IS_OVER_DDS, reason="a service has no such policies")
def test_a_writer_that_does_not_match_is_reported_and_reliability_is_a_setting(channel):
    subscription, events, troubles = receiving(channel, dds={"late_joiners": 0})
    with subscription, campanile.Supplier(channel, dds={"reliable": False, "late_joiners": 0}) as supplier:
        of_supplier: queue.Queue = queue.Queue()
        supplier.on_trouble(of_supplier.put)
        supplier.publish(Wind(1.0))
        trouble = of_supplier.get(timeout=WAIT)
        assert trouble.kind == "incompatible" and trouble.supplier.startswith("reader ")
        trouble = troubles.get(timeout=WAIT)
        assert trouble.kind == "incompatible" and trouble.supplier.startswith("writer ")
        assert "does not match by reliability (offered: best effort; requested here: reliable)" in trouble.text
        assert "set dds.reliable = false here" in trouble.text
        assert events.empty()
    with pytest.raises(campanile.SettingsError, match="dds.relaible"):
        campanile.Supplier(channel, dds={"relaible": True})


def test_a_default_is_used_where_the_supplier_has_no_such_member(channel):
    @dataclasses.dataclass
    class Place:
        x: float = 1.5
        y: float | None = 2.5

    @campanile.event(name="Wind", frozen=True)
    class Grown:
        speed: float
        count: campanile.u8 = 7
        names: list[str] = dataclasses.field(default_factory=lambda: ["a", "b"])
        place: Place = dataclasses.field(default_factory=lambda: Place(y=None))
        nothing: str = None  # type: ignore[assignment]

    with campanile.Consumer(channel, Grown).events() as events, campanile.Supplier(channel) as supplier:
        plain = dataclasses.make_dataclass("Wind", [("speed", float), ("nothing", str)])
        supplier.publish(plain(3.5, "x"))
        came = events.next(WAIT)
        assert (came.speed, came.count, came.names, came.place, came.nothing) == (3.5, 7, ["a", "b"], Place(1.5, None), "x")
        with pytest.raises(dataclasses.FrozenInstanceError):
            came.speed = 1.0


def test_async_with_await_and_async_for_carry_events_and_one_wake_up_brings_a_batch(channel):
    async def main():
        loop, waits = asyncio.get_running_loop(), []
        add_reader = loop.add_reader
        loop.add_reader = lambda *arguments: waits.append(add_reader(*arguments))
        async with campanile.Consumer(channel, Wind) as events, campanile.AsyncSupplier(channel) as supplier:
            await asyncio.gather(*(supplier.publish(Wind(number)) for number in range(1000)))
            while events.waiting < 1000:
                await asyncio.sleep(0.001)
            assert not waits
            got = [(await anext(events)).speed for _ in range(1000)]
            assert got == list(range(1000))
            assert (waits, events.waiting) == ([], 0)
            waiting = asyncio.create_task(anext(events))
            await asyncio.sleep(0)
            await supplier.publish(Wind(1.5))
            assert (await waiting) == Wind(1.5)
            assert len(waits) <= 1
            waiting = asyncio.create_task(anext(events))
            await asyncio.sleep(0)
            events.close()
            with pytest.raises(StopAsyncIteration):
                await waiting
        with pytest.raises(campanile.ClosedError):
            await supplier.publish(Wind(1))

    asyncio.run(asyncio.wait_for(main(), WAIT))


def test_for_goes_on_until_it_is_left(channel):
    got = []
    begun = threading.Event()

    def publish():
        begun.wait(WAIT)
        with campanile.Supplier(channel) as supplier:
            for number in range(3):
                supplier.publish(Wind(number))

    thread = threading.Thread(target=publish)
    thread.start()
    consumer = campanile.Consumer(channel, Wind)
    original = consumer.events

    def events(*arguments):
        made = original(*arguments)
        begun.set()
        return made

    consumer.events = events
    for wind in consumer:
        got.append(wind.speed)
        if len(got) == 3:
            break
    thread.join()
    assert got == [0.0, 1.0, 2.0]


def test_async_for_gets_events_in_order_and_ends_when_it_is_cancelled(channel):
    async def main():
        got = []

        async def receive():
            async for wind in campanile.Consumer(channel, Wind):
                got.append(wind.speed)
                if len(got) == 200:
                    return

        receiving = asyncio.create_task(receive())
        with campanile.Supplier(channel) as supplier:
            number = 0
            while not receiving.done():
                await asyncio.to_thread(supplier.publish, Wind(number))
                number += 1
        await receiving
        # It may have begun after the first.
        assert got == [got[0] + place for place in range(200)]

    asyncio.run(asyncio.wait_for(main(), WAIT))


def test_without_a_class_events_are_dictionaries(channel):
    @dataclasses.dataclass
    class Rain:
        millimetres: campanile.u32
        drops: list[float]

    with campanile.Consumer(channel).events() as events, campanile.Supplier(channel) as supplier:
        supplier.publish(Rain(3, [0.5, 1.5]))
        rain = events.next(WAIT)
        assert (rain, rain.name) == ({"millimetres": 3, "drops": [0.5, 1.5]}, "Rain")


def test_many_are_published_without_waiting_and_all_are_confirmed(channel):
    subscription, events, _ = receiving(channel)
    with subscription, campanile.Supplier(channel) as supplier:
        with supplier.publisher() as publisher:
            assert [publisher.publish(Wind(number)) for number in range(5000)] == list(range(5000))
            tally = publisher.sync()
        assert (tally.published, tally.confirmed, tally.unconfirmed) == (5000, 5000, 0)
        assert [events.get(timeout=WAIT).speed for _ in range(5000)] == list(range(5000))


def test_a_type_that_differs_is_reported_with_both(channel):
    mine = dataclasses.make_dataclass("Wind", [("speed", str)])
    subscription, events, troubles = receiving(channel, mine)
    with subscription, campanile.Supplier(channel) as supplier:
        supplier.publish(Wind(1.0))
        trouble = troubles.get(timeout=WAIT)
        assert trouble.kind == "mismatch"
        assert "speed" in trouble.text
        declared, came = trouble.types
        assert "string speed" in declared and "double speed" in came
        assert events.empty()


def test_what_is_more_is_left_out_and_numbers_widen(channel):
    narrow = dataclasses.make_dataclass("Wind", [("speed", campanile.f32), ("more", int)])
    subscription, events, _ = receiving(channel)
    with subscription, campanile.Supplier(channel) as supplier:
        wide = dataclasses.make_dataclass("Wind", [("station", str), ("more", int), ("speed", campanile.f32)])
        supplier.publish(wide("süd", 3, 0.5))
        assert events.get(timeout=WAIT) == Wind(0.5, "süd")
        assert narrow


def test_a_callback_that_raises_is_reported_and_the_next_event_comes(channel):
    events: queue.Queue = queue.Queue()
    troubles: queue.Queue = queue.Queue()

    def callback(wind):
        if wind.speed == 0:
            raise ValueError("not this one")
        events.put(wind)

    with campanile.Consumer(channel).on(Wind, callback).on_trouble(troubles.put).ready():
        with campanile.Supplier(channel) as supplier:
            supplier.publish(Wind(0))
            supplier.publish(Wind(1))
        assert events.get(timeout=WAIT) == Wind(1)
        trouble = troubles.get(timeout=WAIT)
        assert trouble.kind == "callback"
        assert "not this one" in trouble.text and "in callback" in trouble.text


def test_a_callback_may_publish_and_may_have_enough(channel):
    supplier = campanile.Supplier(channel)
    done = threading.Event()

    def callback(wind):
        if wind.speed < 10:
            supplier.publish(Wind(wind.speed + 1))
        else:
            done.set()
            raise campanile.Enough

    subscription = campanile.Consumer(channel).on(Wind, callback).ready()
    supplier.publish(Wind(0))
    assert done.wait(WAIT)
    ends = time.monotonic() + WAIT
    while not subscription.has_ended and time.monotonic() < ends:
        time.sleep(0.01)
    assert subscription.has_ended


def test_callbacks_find_what_the_thread_kept_from_the_event_before(channel):
    # Python has a thread's state for as long as the thread: one for each event took most of its time.
    local, seen = threading.local(), queue.Queue()

    def callback(wind):
        local.all = [*getattr(local, "all", []), wind.speed]
        seen.put(local.all)

    with campanile.Supplier(channel) as supplier:
        for _ in range(2):
            with campanile.Consumer(channel).on(Wind, callback).ready():
                for number in range(3):
                    supplier.publish(Wind(number))
                # Another consumer has another thread.
                assert [len(seen.get(timeout=WAIT)) for _ in range(3)] == [1, 2, 3]


def test_a_slow_callback_harms_no_other_and_is_reported(channel):
    go_on, troubles = threading.Event(), queue.Queue()
    slow = campanile.Consumer(channel, slow_after=0.01).on(Wind, lambda _: go_on.wait(WAIT)).on_trouble(troubles.put).ready()
    subscription, events, _ = receiving(channel)
    with slow, subscription, campanile.Supplier(channel) as supplier:
        for number in range(100):
            supplier.publish(Wind(number))
        assert [events.get(timeout=WAIT).speed for _ in range(100)] == list(range(100))
        time.sleep(0.02)
        go_on.set()
        assert troubles.get(timeout=WAIT).kind == "slow"


def test_a_trouble_without_a_callback_is_logged(channel, caplog):
    heard = threading.Event()

    class Handler(logging.Handler):
        def emit(self, record):
            if "a mistake" in record.getMessage():
                heard.set()

    handler = Handler()
    logging.getLogger("campanile").addHandler(handler)

    def callback(_):
        raise RuntimeError("a mistake")

    with campanile.Consumer(channel).on(Wind, callback).ready(), campanile.Supplier(channel) as supplier:
        supplier.publish(Wind(1))
        assert heard.wait(WAIT)
    logging.getLogger("campanile").removeHandler(handler)


def test_a_thousand_types_share_a_channel(channel):
    # Over DDS each has a writer and a reader.
    count = 100 if IS_OVER_DDS else 1000
    classes = [dataclasses.make_dataclass(f"Type{number}", [(f"member{number}", campanile.i32)]) for number in range(count)]
    events: queue.Queue = queue.Queue()
    with campanile.Consumer(channel).on_any(events.put).ready(), campanile.Supplier(channel) as supplier:
        with supplier.publisher() as publisher:
            for number, cls in enumerate(classes):
                publisher.publish(cls(number))
        came = [events.get(timeout=WAIT) for _ in range(count)]
        wanted = [{f"member{number}": number} for number in range(count)]
        # Writers of different types have no order among them.
        assert (sorted(came, key=str) == sorted(wanted, key=str)) if IS_OVER_DDS else (came == wanted)


def test_text_and_octets_of_sixteen_megabytes_are_refused_or_arrive_whole(channel):
    @campanile.event
    class Large:
        text: str
        data: bytes

    subscription, events, _ = receiving(channel, Large)
    # A connection that is closed for what is too large looks like a service that restarts.
    with subscription, campanile.Supplier(channel, wait_for_restart=0) as supplier:
        fits = Large("塔" * 1_000_000, bytes(4_000_000))
        supplier.publish(fits)
        assert events.get(timeout=WAIT) == fits
        larger = Large("x" * 17_000_000, b"")
        if IS_OVER_DDS:
            supplier.publish(larger)
            assert events.get(timeout=WAIT) == larger
        else:
            with pytest.raises(campanile.Error):
                supplier.publish(larger)
        # Whoever was refused goes on.
        supplier.publish(Large("y", b""))
        assert events.get(timeout=WAIT) == Large("y", b"")
        with pytest.raises(campanile.EventValueError, match="text"):
            supplier.publish(Large("a\0b", b""))


def test_a_forked_child_is_notified_and_the_parent_goes_on(channel):
    supplier = campanile.Supplier(channel)
    events = campanile.Consumer(channel, Wind).events()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            supplier.publish(Wind(1))
        except campanile.ForkedError:
            try:
                events.next(1)
            except campanile.ForkedError:
                status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    supplier.publish(Wind(2))
    assert events.next(WAIT) == Wind(2)
    events.close()


def test_a_closed_object_says_so(channel):
    supplier = campanile.Supplier(channel)
    publisher = supplier.publisher()
    publisher.publish(Wind(1))
    assert publisher.close().confirmed == 1
    assert publisher.close() is None
    supplier.close()
    for closed in (supplier, publisher):
        with pytest.raises(campanile.ClosedError):
            closed.publish(Wind(1))
    events = campanile.Consumer(channel, Wind).events()
    events.close()
    with pytest.raises(StopIteration):
        events.next(WAIT)


def test_settings_that_are_none_are_reported():
    for options in ({"transport": "pigeon"}, {"event_form": "x"}, {"context": "nowhere"}):
        with pytest.raises(campanile.SettingsError):
            campanile.Supplier("Weather", **options)
    with pytest.raises(campanile.UnreachableError, match="no service"):
        campanile.Supplier("Weather", server="127.0.0.1:1", transport="notification")
    with pytest.raises(campanile.ChannelNameError):
        campanile.Supplier("")
    with pytest.raises(TypeError, match="there is nothing to call"):
        campanile.Consumer("Weather").ready()


def run(program, **options):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=WAIT, check=False, **options
    )


def test_a_program_that_just_ends_has_published_all_and_says_nothing(channel):
    number = dataclasses.make_dataclass("Number", [("number", int)])
    with campanile.Consumer(channel, number).events() as events:
        # It is to find this process before it publishes.
        options = {"env": {**os.environ, "CAMPANILE_CONTEXT": "apart"}} if IS_OVER_DDS else {}
        program = f"""
            import campanile
            @campanile.event
            class Number:
                number: int
            publisher = campanile.Supplier({channel!r}).publisher()
            consumer = campanile.Consumer({channel!r}).on(Number, lambda number: None).ready()
            for number in range(1000):
                publisher.publish(Number(number))
        """
        ended = run(program, **options)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
        assert [events.next(WAIT).number for _ in range(1000)] == list(range(1000))


def test_a_program_that_is_interrupted_while_it_waits_ends_at_once(channel):
    program = f"""
        import campanile
        print("waiting", flush=True)
        for event in campanile.Consumer({channel!r}):
            pass
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Shells have what runs in the background ignore it, and so do those whom that starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert child.stdout.readline() == "waiting\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=WAIT)
    assert "KeyboardInterrupt" in errors
    assert child.returncode in (130, -signal.SIGINT, 1)


#: Programs that end while callbacks run: what each does after events are under way. A thread that has a callback of the program's was
#: unwound by the interpreter's end, through the library's frames, and the process aborted (exit status 134), in seven of ten runs.
ENDINGS = {
    "plain": "subscription.close()",
    "with": "with subscription: pass",
    "without_close": "",
    "a_callback_that_raises": "failing.append(1)",
    "sys_exit": "sys.exit(0)",
    "several_consumers": "others = [campanile.Consumer(CHANNEL).on(W, slow).ready() for _ in range(3)]; publish(50)",
    "a_callback_that_closes": "closing.append(1)",
    "interrupted": """
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            pass
    """,
    "async_for_in_a_daemon_thread": """
        threading.Thread(target=lambda: asyncio.run(forever()), daemon=True).start()
        publish_until_one_is_taken()
    """,
    "asyncio": """
        async def one():
            publishing = asyncio.create_task(asyncio.to_thread(publish_until_one_is_taken))
            async for w in campanile.Consumer(CHANNEL, W):
                taken.release()
                break
            await publishing
        asyncio.run(one())
    """,
    "async_with_and_await": """
        async def one():
            async with campanile.AsyncSupplier(CHANNEL) as publishing, campanile.Consumer(CHANNEL, W) as events:
                await publishing.publish(W(1))
                async for w in events:
                    break
        asyncio.run(one())
    """,
    "interrupted_in_asyncio": """
        async def forever_and_more():
            async with campanile.AsyncSupplier(CHANNEL) as publishing, campanile.Consumer(CHANNEL, W) as events:
                await publishing.publish(W(1))
                signal.raise_signal(signal.SIGINT)
                async for w in events:
                    pass
        try:
            asyncio.run(forever_and_more())
        except KeyboardInterrupt:
            pass
    """,
    "for_in_a_daemon_thread": """
        threading.Thread(target=lambda: [taken.release() for _ in campanile.Consumer(CHANNEL, W)], daemon=True).start()
        publish_until_one_is_taken()
    """,
    # Each is unwound where it takes the lock back after an event was published.
    "publishing_in_daemon_threads": """
        def publish_forever():
            while True:
                publish(1)
                taken.release()
        for _ in range(3):
            threading.Thread(target=publish_forever, daemon=True).start()
        assert taken.acquire(timeout=60)
    """,
}

RUNS = int(os.environ.get("CAMPANILE_ENDINGS", "3"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_whose_callbacks_run_when_it_ends_ends_well(channel, ending):
    program = f"""
        import asyncio, signal, sys, threading, time
        import campanile
        # What a shell has started in the background ignores it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        CHANNEL = {channel!r}
        @campanile.event
        class W:
            n: int
        failing, closing, taken, begun = [], [], threading.Semaphore(0), threading.Event()
        def slow(w):
            begun.set()
            time.sleep(0.01)
            if failing:
                raise ValueError("as it does")
            if closing:
                subscription.close()
        async def forever():
            async for w in campanile.Consumer(CHANNEL, W):
                taken.release()
        supplier = campanile.Supplier(CHANNEL)
        def publish(count):
            for n in range(count):
                supplier.publish(W(n))
        def publish_until_one_is_taken():
            while not taken.acquire(timeout=0.02):
                publish(1)
        subscription = campanile.Consumer(CHANNEL).on_trouble(lambda trouble: None).on(W, slow).ready()
        publish(50)
        assert begun.wait(60)
    """
    program = textwrap.dedent(program) + textwrap.dedent(ENDINGS[ending]).strip() + "\n"
    for _ in range(RUNS):
        ended = run(program)
        assert (ended.returncode, ended.stderr) == (0, ""), ended


def test_close_waits_for_the_callback_that_runs(channel):
    begun, may_end, ended = threading.Event(), threading.Event(), []

    def callback(wind):
        begun.set()
        may_end.wait(WAIT)
        ended.append(wind)

    subscription = campanile.Consumer(channel).on(Wind, callback).ready()
    with campanile.Supplier(channel) as supplier:
        supplier.publish(Wind(1.0))
        assert begun.wait(WAIT)
        closer = threading.Thread(target=subscription.close)
        closer.start()
        may_end.set()
        closer.join(WAIT)
        assert not closer.is_alive()
        assert ended == [Wind(1.0)]
