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
from ._errors import Enough
from ._types import plan_of

_LOG = logging.getLogger("campanile")

#: For how many seconds ``Subscription.close()`` waits for a callback under way.
_CALLBACK_AT_CLOSE = 10.0

T = TypeVar("T")

#: What is logged of troubles without a callback for them.
_LEVELS = {"reachable": logging.INFO, "callback": logging.ERROR}


class Trouble(typing.NamedTuple):
    """A report to a consumer that is no event."""

    #: ``unreachable``, ``reachable``, ``gap``, ``mismatch``, ``unreadable``, ``callback`` or ``slow``.
    kind: str
    #: What happened, for people.
    text: str
    #: Of a mismatch, the declared type and the one that came, in IDL.
    types: tuple[str, str] | None

    def __str__(self) -> str:
        return self.text


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


class Events(Generic[T]):
    """Events one after the other: what ``for`` over a consumer, and ``events()``, give. Ends with ``close()``, or a ``with`` statement."""

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

    def close(self) -> None:
        """Ends it, for waiting threads, too."""
        self._native.close()

    def __enter__(self) -> Events[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Consumer(Generic[T]):
    """Receives a channel's events.

    One after the other, until the loop is left:

    >>> for wind in Consumer("Weather", Wind, filter="$speed > 10"):   # doctest: +SKIP
    ...     print(wind)

    the same with ``async for``; or by callbacks, on a thread of the library's:

    >>> consumer = Consumer("Weather").on(Wind, print).ready()         # doctest: +SKIP

    Without a class all events come, as dictionaries. What the class does not name is left out; what is missing goes to ``on_trouble``, with
    both types. ``filter`` is a constraint that the service applies: other events do not travel. Settings are as for ``Supplier``; and with
    ``shared_thread=True`` consumers of the process with the same settings share a connection and a thread, for processes with many: their
    callbacks run one after the other, so that one that takes long delays the others'.
    """

    def __init__(
        self,
        channel: str,
        /,
        *classes: type[T],
        filter: str | None = None,
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
        wait_for_service: float | datetime.timedelta | None = None,
        shared_thread: bool | None = None,
        slow_after: float = 1.0,
    ) -> None:
        self._channel = channel
        self._filter = filter
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
            "wait_for_service": wait_for_service,
            "shared_thread": shared_thread,
        }
        self._classes = classes
        self._plans = [plan_of(cls) for cls in classes]
        self._callbacks: list[tuple[_native.Plan, Callable[[Any], object]]] = []
        self._others: Callable[[Dictionary], object] | None = None
        self._trouble: Callable[[Trouble], object] = _log_trouble
        self._slow_after = slow_after

    def on(self, cls: type[Any], callback: Callable[[Any], object]) -> Consumer[T]:
        """Has ``callback`` called with each event of a class. What it raises is reported, and the next event comes; ``Enough`` ends all."""
        self._callbacks.append((plan_of(cls), callback))
        return self

    def on_any(self, callback: Callable[[Dictionary], object]) -> Consumer[T]:
        """Has ``callback`` called with all other events, as dictionaries."""
        self._others = callback
        return self

    def on_trouble(self, callback: Callable[[Trouble], object]) -> Consumer[T]:
        """Has ``callback`` called with all that is no event: gaps, types that do not fit, callbacks that raise or are slow. Default: it is
        logged (``logging.getLogger("campanile")``). It may be called on several threads."""
        self._trouble = callback
        return self

    def _tell(self, kind: str, text: str, types: tuple[str, str] | None) -> None:
        self._trouble(Trouble(kind, text, types))

    def ready(self) -> Subscription:
        """Begins to call the callbacks. Without any there is nothing to begin: ask for ``events()``, or use ``for``."""
        if not self._callbacks and self._others is None:
            raise TypeError("there is nothing to call: give callbacks with on(Class, function), or use `for event in consumer`")
        return Subscription(
            _native.subscribe(
                self._channel, self._options, self._filter, self._callbacks, self._others, self._tell, self._slow_after
            )
        )

    def events(self, waiting_max: int = 1024) -> Events[T]:
        """Subscribes, and keeps events until they are asked for, ``waiting_max`` at most; beyond that they wait at the service."""
        return Events(
            _native.wait_for(
                self._channel, self._options, self._filter, self._plans, not self._plans, self._tell, waiting_max
            )
        )

    def __iter__(self) -> Iterator[T]:
        with self.events() as events:
            yield from events

    async def __aiter__(self) -> AsyncIterator[T]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[T] = asyncio.Queue(maxsize=64)
        is_over = False

        def put(event: T) -> None:
            # On the library's thread, which waits for room, so that events wait at the service.
            if is_over or _exit.is_ending:
                raise Enough
            try:
                putting = asyncio.run_coroutine_threadsafe(queue.put(event), loop)
            except RuntimeError:
                raise Enough from None
            while not is_over and not _exit.is_ending:
                try:
                    putting.result(0.1)
                    return
                except TimeoutError:
                    if loop.is_closed():
                        break
            putting.cancel()
            raise Enough

        def subscribe() -> Subscription:
            classes: list[tuple[_native.Plan, Callable[[Any], object]]] = [(plan, put) for plan in self._plans]
            others = None if classes else put
            native = _native.subscribe(
                self._channel, self._options, self._filter, classes, others, self._tell, float("inf")
            )
            return Subscription(native)

        subscription = await asyncio.to_thread(subscribe)
        try:
            while True:
                yield await queue.get()
        finally:
            is_over = True
            subscription.close()
