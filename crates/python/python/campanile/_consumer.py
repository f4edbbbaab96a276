"""Receiving."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from . import _exit, _native
from ._errors import SettingsError
from ._options import ConnectionOptions
from ._types import plan_of

_LOG = logging.getLogger("campanile")

#: For how many seconds ``Subscription.close()`` waits for a callback under way.
_CALLBACK_AT_CLOSE = 10.0

T = TypeVar("T")
E = TypeVar("E")

#: What is logged of troubles without a callback for them.
_LEVELS = {"reachable": logging.INFO, "callback": logging.ERROR}


class Trouble(typing.NamedTuple):
    """A report to a consumer, or to a supplier, that is no event."""

    #: ``unreachable``, ``reachable``, ``gap``, ``mismatch``, ``unreadable``, ``callback``, ``slow``, ``lost``, ``unknown_name`` or
    #: ``incompatible`` (over DDS: a writer or reader does not match).
    kind: str
    #: What happened, for people.
    text: str
    #: Of a mismatch, the declared type and the one that came, in IDL.
    types: tuple[str, str] | None
    #: Of a mismatch, the supplier, where its events say so (those in ALMA's form). Of what is incompatible, the writer or reader.
    supplier: str | None = None

    def __str__(self) -> str:
        return self.text


class EventNumber(typing.NamedTuple):
    """Which event of its channel one is."""

    #: Numbers rise, and some may be missing.
    number: int
    #: When it came to the service, by its clock.
    came: datetime.datetime | None


class Dictionary(dict[str, Any]):
    """An event of which no class is known: its members by name, and what it is called."""

    def __init__(self, members: Any, domain: str, name: str) -> None:
        super().__init__(members if isinstance(members, dict) else {"value": members})
        #: The domain of its type.
        self.domain = domain
        #: The name of its type.
        self.name = name

    def __repr__(self) -> str:
        return f"{self.name}({super().__repr__()})"


def _log_trouble(trouble: Trouble) -> None:
    _LOG.log(_LEVELS.get(trouble.kind, logging.WARNING), "%s", trouble.text)


class Subscription:
    """A consumer whose callbacks are called. Ends with ``close()``, a ``with`` statement, or the program."""

    def __init__(self, native: _native.Subscription) -> None:
        self._native = native
        _exit.opened(self)

    @property
    def has_ended(self) -> bool:
        """Whether it is over: it was closed, or a callback raised ``Enough``."""
        return self._native.has_ended

    @property
    def reconnections(self) -> int:
        """How often it has found back to a service, since that was restarted or had disconnected it."""
        return self._native.reconnections

    def check(self) -> None:
        """Asks the service now whether the subscription is there, and makes it anew if not, as is done every few seconds without."""
        self._native.check()

    def close(self) -> None:
        """Ends it. Waits for a callback that runs, for 10 s at most; called from a callback of this subscription, it does not wait."""
        self._native.close(_CALLBACK_AT_CLOSE)

    def _close_at_exit(self) -> None:
        # All callbacks are waited for together.
        self._native.close(0.0)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.close)


class Events(Generic[T]):
    """Events one after the other: what ``for`` over a consumer, and ``events()``, give. Ends with ``close()``, or a ``with`` statement.

    ``async for`` waits for them in the event loop, without a thread; one task at a time.
    """

    def __init__(self, native: _native.Waiting) -> None:
        self._native = native
        _exit.opened(self)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        event = self._native.next(None)
        return typing.cast(T, event)

    def next(self, timeout: float | None = None) -> T | None:
        """The next event; ``None`` if none comes within so many seconds. Raises ``StopIteration`` when there will be none any more."""
        return typing.cast("T | None", self._native.next(timeout))

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        while (here := self._native.next_here()) == ():
            await self._readable()
        if here is None:
            raise StopAsyncIteration
        return typing.cast(T, here[0])

    async def _readable(self) -> None:
        loop, descriptor = asyncio.get_running_loop(), self.fileno()
        readable: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not readable.done():
                readable.set_result(None)

        loop.add_reader(descriptor, wake)
        try:
            await readable
        finally:
            loop.remove_reader(descriptor)

    def fileno(self) -> int:
        """A file descriptor that can be read from while there are events, or there will be none any more: for ``select`` and its like."""
        return self._native.fileno()

    @property
    def waiting(self) -> int:
        """How many events wait here to be asked for."""
        return self._native.waiting

    @property
    def reconnections(self) -> int:
        """How often the subscription has found back to a service, since that was restarted or had disconnected it."""
        return self._native.reconnections

    def close(self) -> None:
        """Ends it, for waiting threads and tasks, too."""
        self._native.close()

    def __enter__(self) -> Events[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Events[T]:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class ConsumerOptions(ConnectionOptions, total=False):
    """What a ``Consumer`` can be told."""

    filter: str | None
    start_from: str | datetime.datetime | datetime.timedelta | None
    shared_thread: bool | None
    slow_after: float


def _start(start: str | datetime.datetime | datetime.timedelta | None) -> str | None:
    if isinstance(start, datetime.timedelta):
        return f"since:{start // datetime.timedelta(microseconds=1)}us"
    if isinstance(start, datetime.datetime):
        if start.tzinfo is None:
            raise SettingsError(f"start_from is {start!r}, which has no time zone")
        return f"unix:{start.timestamp():.6f}"
    return start


class Consumer(Generic[T]):
    """Receives a channel's events.

    One after the other, until the loop is left:

    >>> for wind in Consumer("Weather", Wind, filter="$speed > 10"):   # doctest: +SKIP
    ...     print(wind)

    the same with ``async for``, or ``async with consumer as events``; or by callbacks, on a thread of the library's:

    >>> consumer = Consumer("Weather").on(Wind, print).ready()         # doctest: +SKIP

    Without a class all events come, as dictionaries. What the class does not name is left out; what is missing goes to ``on_trouble``, with
    both types. ``filter`` is a constraint that the service applies: other events do not travel. Settings are as for ``Supplier``; and with
    ``shared_thread=True`` consumers of the process with the same settings share a connection and a thread, for processes with many: their
    callbacks run one after the other, so that one that takes long delays the others'.

    ``start_from`` begins in the channel's history, where that stores one: ``"first"``, ``"number:5"``, ``"after:5"``, ``"last:100"``,
    ``"last-of-each-type"``, ``"last-of-each:station"``, a ``timedelta`` for what came since, or a ``datetime`` with a time zone.
    ``numbered()`` then gives each event with its number, with which a program goes on where it was (``f"after:{number}"``).
    """

    @typing.overload
    def __init__(self: Consumer[Dictionary], channel: str, /, **options: typing.Unpack[ConsumerOptions]) -> None: ...
    @typing.overload
    def __init__(self, channel: str, /, *classes: type[T], **options: typing.Unpack[ConsumerOptions]) -> None: ...

    def __init__(
        self,
        channel: str,
        /,
        *classes: type[Any],
        filter: str | None = None,
        start_from: str | datetime.datetime | datetime.timedelta | None = None,
        name: str | None = None,
        server: str | None = None,
        transport: str | None = None,
        event_form: str | None = None,
        event_domain: str | None = None,
        naming: str | None = None,
        naming_domain: str | None = None,
        context: str | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        tls_certificate: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        dds: dict[str, Any] | None = None,
        wait_for_service: float | datetime.timedelta | None = None,
        shared_thread: bool | None = None,
        slow_after: float = 1.0,
    ) -> None:
        self._channel = channel
        self._filter = filter
        self._start = _start(start_from)
        self._numbered = False
        self._options = {
            "name": name,
            "server": server,
            "transport": transport,
            "event_form": event_form,
            "event_domain": event_domain,
            "naming": naming,
            "naming_domain": naming_domain,
            "context": context,
            "tls_ca": tls_ca,
            "tls_certificate": tls_certificate,
            "tls_key": tls_key,
            "dds": dds,
            "wait_for_service": wait_for_service,
            "shared_thread": shared_thread,
        }
        self._classes = classes
        self._plans = [plan_of(cls) for cls in classes]
        self._callbacks: list[tuple[_native.Plan, Callable[..., object], bool]] = []
        self._others: Callable[[Dictionary], object] | None = None
        self._trouble: Callable[[Trouble], object] = _log_trouble
        self._slow_after = slow_after

    def on(self, cls: type[E], callback: Callable[[E], object]) -> Consumer[T]:
        """Has ``callback`` called with each event of a class. What it raises is reported, and the next event comes; ``Enough`` ends all."""
        self._callbacks.append((plan_of(cls), callback, False))
        return self

    def on_numbered(self, cls: type[E], callback: Callable[[E, EventNumber | None], object]) -> Consumer[T]:
        """As ``on``, with the event's number and time, where ``start_from`` is given and the channel stores a history."""
        self._callbacks.append((plan_of(cls), callback, True))
        return self

    def numbered(self) -> Consumer[tuple[T, EventNumber | None]]:
        """Has ``for``, ``async for`` and ``events()`` give each event with its number and time."""
        self._numbered = True
        return typing.cast("Consumer[tuple[T, EventNumber | None]]", self)

    def on_any(self, callback: Callable[[Dictionary], object]) -> Consumer[T]:
        """Has ``callback`` called with all other events, as dictionaries."""
        self._others = callback
        return self

    def on_trouble(self, callback: Callable[[Trouble], object]) -> Consumer[T]:
        """Has ``callback`` called with all that is no event: gaps, types that do not fit, callbacks that raise or are slow. Default: it is
        logged (``logging.getLogger("campanile")``). It may be called on several threads."""
        self._trouble = callback
        return self

    def _tell(self, kind: str, text: str, types: tuple[str, str] | None, supplier: str | None) -> None:
        self._trouble(Trouble(kind, text, types, supplier))

    def ready(self) -> Subscription:
        """Begins to call the callbacks. Without any there is nothing to begin: ask for ``events()``, or use ``for``."""
        if not self._callbacks and self._others is None:
            raise TypeError("there is nothing to call: give callbacks with on(Class, function), or use `for event in consumer`")
        return Subscription(
            _native.subscribe(
                self._channel,
                self._options,
                self._filter,
                self._start,
                self._callbacks,
                self._others,
                self._tell,
                self._slow_after,
            )
        )

    def events(self, waiting_max: int = 1024) -> Events[T]:
        """Subscribes, and keeps events until they are asked for, ``waiting_max`` at most; beyond that they wait at the service."""
        return Events(
            _native.wait_for(
                self._channel,
                self._options,
                self._filter,
                self._start,
                self._plans,
                not self._plans,
                self._tell,
                waiting_max,
                self._numbered,
            )
        )

    def __iter__(self) -> Iterator[T]:
        with self.events() as events:
            yield from events

    async def __aiter__(self) -> AsyncIterator[T]:
        async with await asyncio.to_thread(self.events) as events:
            async for event in events:
                yield event

    async def __aenter__(self) -> Events[T]:
        self._entered = await asyncio.to_thread(self.events)
        return self._entered

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._entered.close()
