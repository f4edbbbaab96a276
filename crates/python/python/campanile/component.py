"""Components: classes with typed ports, which a plan connects.

    from campanile import event
    from campanile.component import Sink, Source, component

    @event
    class Frame:
        brightness: float

    @event
    class Offset:
        x: float

    @component
    class Guider:
        frame: Sink[Frame]
        offset: Source[Offset]
        gain: float = 0.3

        def on_frame(self, frame, ports):
            self.offset.send(Offset(self.gain * frame.brightness))

A plan names it as ``component = "guider.py#Guider"``, and `campanile deploy run` makes a process of the interpreter of it. All calls of an
instance are made on the thread of its lane, one at a time; those of several lanes share the interpreter, so that one of them runs at a time.

What a handler raises is logged once for each port, with its last line, and counted. `Broken` has the component made again, as has what is
no `Exception`.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from typing import Any, Callable, Generic, TypeVar

from ._types import event, plan_of

__all__ = [
    "Broken",
    "EventSet",
    "NeighbourChange",
    "Neighbours",
    "Ports",
    "SendError",
    "Sink",
    "Source",
    "Tick",
    "Timer",
    "component",
    "timer",
]

T = TypeVar("T")
E = TypeVar("E")


class Broken(Exception):
    """Raised by a component whose state cannot be trusted any more: it is dropped, and made again after a pause."""


class SendError(Exception):
    """An event was not sent, or not by all connections; ``status`` is that of C, ``CAMPANILE_COMPONENT_INACTIVE`` (3) and what follows."""

    _TEXTS = {
        3: "nothing was sent, since the instance is not active",
        4: "a sink did not get the event, since its instance is in a handler already",
        5: "a sink did not get the event, since its queue is full",
        6: "nothing was sent, since the event is no value of the source's type",
    }

    def __init__(self, status: int) -> None:
        super().__init__(self._TEXTS.get(status, "nothing was sent: sources are the instance's, on its thread"))
        self.status = status


@dataclasses.dataclass(frozen=True)
class EventSet:
    """The set that an event belongs to, at a port that has sets by ``when`` of the plan."""

    #: From 1 in steps of 1.
    number: int
    #: The event's place in the set, from 0, in the order in which its events came.
    index: int
    #: Number of events in the set.
    size: int


@dataclasses.dataclass(frozen=True)
class Ports:
    """Where an event came from."""

    instance: str
    port: str
    source: str
    priority: int
    #: Seconds since it was sent.
    age: float
    #: The set that it belongs to, if the port has sets.
    set: EventSet | None = None


@dataclasses.dataclass(frozen=True)
class Tick:
    """A tick of a timer."""

    #: Seconds since it was due.
    late: float
    #: Ticks before it that were left out, since the lane was busy for more than an interval.
    missed: int


@event
class NeighbourChange:
    """What happened to an instance that is connected with this one: it ``failed``, was ``restarted``, ``given up`` or ``removed``."""

    instance: str
    change: str
    reason: str


class Sink(Generic[E]):
    """A port that takes events: ``frame: Sink[Frame]`` has them handed to ``on_frame(self, frame, ports)``."""


class Source(Generic[E]):
    """A port that gives events: those of ``offset: Source[Offset]`` are sent by ``self.offset.send(Offset(…))``."""

    def __init__(self, send: Callable[[Any, int, float | None], int]) -> None:
        self._send = send

    def send(self, event: E, *, priority: int = 0, timeout: float | None = None) -> None:
        """Sends an event. When this returns, sinks of the same lane without a queue have handled it.

        ``priority`` and ``timeout``, in seconds, matter where a sink has a queue: an event waits without end there for `None`, and not at all
        for 0 or less. Raises `SendError`, and `campanile.EventValueError` for what is no value of its type.
        """
        if status := self._send(event, priority, timeout):
            raise SendError(status)


class Timer:
    """A port that takes ticks: ``tick: Timer = timer("100ms")`` has them handed to ``on_tick(self, tick, ports)``."""

    def __init__(self, interval_ns: int) -> None:
        if not 1 <= interval_ns <= _INTERVAL_NS_MAX:
            raise ValueError("the interval of a timer is more than 0, and an hour at most")
        self.interval_ns = interval_ns


class Neighbours:
    """A port that takes what happens to connected instances: ``on_peers(self, change, ports)`` for ``peers: Neighbours``."""


_INTERVAL_NS_MAX = 3_600_000_000_000
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def timer(interval: str) -> Timer:
    """A timer of an interval, such as ``"100ms"``; units: ``ns``, ``us``, ``ms``, ``s``; an hour at most."""
    found = re.fullmatch(r"([0-9]+) ?(ns|us|ms|s)", interval)
    if found is None:
        raise ValueError(f"{interval!r} is no interval: write timer(\"100ms\"), with ns, us, ms or s")
    return Timer(int(found[1]) * _UNITS[found[2]])


#: Kinds of ports, as in C.
SINK, SOURCE, TIMER, NEIGHBOURS = 1, 2, 3, 4


@dataclasses.dataclass(frozen=True)
class Port:
    """A port that a class declares."""

    name: str
    kind: int
    event: type | None = None
    interval_ns: int = 0


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What a class declares: its ports, and the types of its properties with their defaults."""

    ports: tuple[Port, ...]
    properties: dict[str, tuple[Any, tuple[Any, ...]]]


#: The declarations of components.
DECLARED: dict[type, Declaration] = {}

_STEPS = ("configured", "connected", "activated", "passivated", "removed")


def component(cls: type[T]) -> type[T]:
    """Makes a class a component.

    Its annotations are ports, and properties, which a plan gives: of bool, int, float, str, lists of these, or dict; with a default, where the
    class has one. Names that begin with ``_`` are neither, and `typing.ClassVar` is not. The class is called without arguments; properties and
    sources are there from ``on_configured`` on. ``on_configured(self)``, ``on_connected``, ``on_activated``, ``on_passivated`` and
    ``on_removed`` are steps of its life, for those that have something to do there; what they raise refuses the step.
    """
    ports: list[Port] = []
    properties: dict[str, tuple[Any, tuple[Any, ...]]] = {}
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        if name.startswith("_") or typing.get_origin(hint) is typing.ClassVar:
            continue
        where = f"{cls.__name__}.{name}"
        default = (getattr(cls, name),) if hasattr(cls, name) else ()
        port = _port(name, hint, default, where)
        if port is None:
            if not _is_property(hint):
                raise TypeError(f"{where}: {hint} is no port, and no type of a property: bool, int, float, str, lists of these, or dict")
            properties[name] = (hint, default)
            continue
        ports.append(port)
        if port.kind == SOURCE:
            continue
        if name in _STEPS:
            raise TypeError(f"{where}: on_{name} is a step of life: give the port another name")
        if not callable(getattr(cls, f"on_{name}", None)):
            raise TypeError(f"{where} has no handler: add def on_{name}(self, {'tick' if port.kind == TIMER else 'event'}, ports)")
    DECLARED[cls] = Declaration(tuple(ports), properties)
    return cls


def _port(name: str, hint: Any, default: tuple[Any, ...], where: str) -> Port | None:
    of, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Sink, Source):
        raise TypeError(f"{where}: of which events? Write {hint.__name__}[Frame], say")
    if of in (Sink, Source):
        plan_of(arguments[0])
        return Port(name, SINK if of is Sink else SOURCE, arguments[0])
    if hint is Timer:
        if not default or not isinstance(default[0], Timer):
            raise TypeError(f"{where} has no interval: write {name}: Timer = timer(\"100ms\"), say")
        return Port(name, TIMER, interval_ns=default[0].interval_ns)
    return Port(name, NEIGHBOURS) if hint is Neighbours else None


def _is_property(hint: Any) -> bool:
    if typing.get_origin(hint) is list:
        return all(_is_property(argument) for argument in typing.get_args(hint))
    return hint in (bool, int, float, str, dict, list)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value of TOML is one of a property's type."""
    if typing.get_origin(hint) is list:
        return isinstance(value, list) and all(fits(one, typing.get_args(hint)[0]) for one in value)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)
