"""Events as dataclasses, published and received in one line.

    import campanile

    @campanile.event
    class Wind:
        speed: float
        direction: float

    campanile.Supplier("Weather").publish(Wind(11.5, 270.0))

and elsewhere

    for wind in campanile.Consumer("Weather", Wind, filter="$speed > 10"):
        print(wind)

`campanile serve` is the service between them; with ``CAMPANILE_TRANSPORT=dds`` none is needed. Programs in other languages publish and receive
the same events.

    Supplier, Publisher     publishing: one event with an answer each, or very many; AsyncSupplier: `await publish()`
    Consumer                receiving: for, async for, or callbacks
    event, i8 … u64, f32    classes as events, and how wide their numbers are
    idl                     a class's type as other languages have it
    component               classes with typed ports, which a plan connects: a module of its own
    Error                   what can go wrong; its subclasses say what
"""

from __future__ import annotations

from ._consumer import Consumer, Dictionary, EventNumber, Events, Subscription, Trouble
from ._errors import (
    ChannelNameError,
    ClosedError,
    Enough,
    Error,
    EventTypeError,
    EventValueError,
    FilterError,
    ForkedError,
    NoTransportError,
    RefusedError,
    SettingsError,
    UnreachableError,
)
from ._native import version as _version
from ._supplier import AsyncSupplier, Loss, Publisher, Supplier, Tally
from ._types import event, f32, f64, i8, i16, i32, i64, idl, length, u8, u16, u32, u64

__version__ = _version()

__all__ = [
    "AsyncSupplier",
    "ChannelNameError",
    "ClosedError",
    "Consumer",
    "Dictionary",
    "Enough",
    "Error",
    "EventNumber",
    "EventTypeError",
    "EventValueError",
    "Events",
    "FilterError",
    "ForkedError",
    "Loss",
    "NoTransportError",
    "Publisher",
    "RefusedError",
    "SettingsError",
    "Subscription",
    "Supplier",
    "Tally",
    "Trouble",
    "UnreachableError",
    "event",
    "f32",
    "f64",
    "i16",
    "i32",
    "i64",
    "i8",
    "idl",
    "length",
    "u16",
    "u32",
    "u64",
    "u8",
]
