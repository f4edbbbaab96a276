"""Components that tests connect; `does` of the guider says what a test asks for."""

import atexit
import sys
import threading
import time

import campanile
from campanile.component import Broken, NeighbourChange, Neighbours, Ports, SendError, Sink, Source, Tick, Timer, component, timer

print("loaded")
# Of a server, its name: what follows behind a regular end only.
atexit.register(lambda: print(f"{sys.argv[-1]} ends", file=sys.stderr))


@campanile.event(module="observatory")
class Frame:
    number: campanile.u64
    brightness: float
    filters: list[str]


@campanile.event(module="observatory")
class Offset:
    number: campanile.u64
    x: float


@component
class Camera:
    shutter: Timer = timer("10ms")
    frame: Source[Frame]
    brightness: float = 0.5

    def __init__(self) -> None:
        self._taken = 0

    def on_shutter(self, tick: Tick, ports: Ports) -> None:
        assert tick.late >= 0 and tick.missed >= 0 and ports.port == "shutter"
        self._taken += 1
        self.frame.send(Frame(self._taken, self.brightness, ["red"]), priority=7, timeout=60)


@component
class Guider:
    frame: Sink[Frame]
    offset: Source[Offset]
    gain: float
    steps: list[int] = [1]
    does: str = "nothing"

    def on_activated(self) -> None:
        if self.does == "refuse":
            raise RuntimeError("not today")
        if self.does == "wait":
            threading.Thread(target=threading.Event().wait, daemon=False).start()

    def on_frame(self, frame: Frame, ports: Ports) -> None:
        if self.does == "fail":
            raise ValueError("no light")
        if self.does == "break" and frame.number == 3:
            raise Broken("the shutter is stuck")
        if self.does == "leave" and frame.number == 3:
            raise SystemExit
        if self.does == "hang" and frame.number == 3:
            while True:
                time.sleep(0.01)
        if self.does == "send elsewhere":
            thread = threading.Thread(target=self.send_elsewhere, args=[frame.number])
            thread.start()
            thread.join()
        if self.does == "sets":
            assert ports.set is not None
            self.steps = [100 * ports.set.number + 10 * ports.set.index + ports.set.size]
        assert frame.filters == ["red"] and ports.instance == "guider" and ports.age >= 0
        self.offset.send(Offset(frame.number, sum(self.steps) * self.gain * frame.brightness))

    def send_elsewhere(self, number: int) -> None:
        try:
            self.offset.send(Offset(number, 0.0))
        except SendError as error:
            self.gain = error.status


@component
class Recorder:
    offset: Sink[Offset]
    peers: Neighbours
    log: str

    def __del__(self) -> None:
        if hasattr(self, "log"):
            self.note("dropped")

    def note(self, line: str) -> None:
        with open(self.log, "a") as file:
            print(line, file=file)

    def on_offset(self, offset: Offset, ports: Ports) -> None:
        self.note(f"{ports.source} {offset.number} {offset.x:g}")

    def on_peers(self, change: NeighbourChange, ports: Ports) -> None:
        self.note(f"{change.instance} {change.change}: {change.reason}")

    def on_passivated(self) -> None:
        self.note("passivated")


def send_before_there_is_a_server() -> str:
    try:
        Source[Frame](lambda *_: 3).send(Frame(1, 1.0, []))
    except SendError as error:
        return str(error)
    return ""


assert send_before_there_is_a_server() == "nothing was sent, since the instance is not active"
