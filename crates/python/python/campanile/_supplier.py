"""Publishing."""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
import os
import sys
import typing
from types import TracebackType

from . import _exit, _native
from ._consumer import Trouble, _log_trouble
from ._errors import ClosedError
from ._options import ConnectionOptions

R = typing.TypeVar("R")

#: How long the end of the program waits for answers.
_PATIENCE_AT_EXIT = 2.0


class Tally(typing.NamedTuple):
    """How many of a publisher's events became what."""

    published: int
    #: Those that the service has.
    confirmed: int
    #: Those that it refused.
    refused: int
    #: Those of which it is not known, since the connection was lost meanwhile.
    unknown: int
    #: Those that it certainly does not have.
    not_sent: int

    @property
    def unconfirmed(self) -> int:
        """All that are not known to have arrived."""
        return self.published - self.confirmed


class Loss(typing.NamedTuple):
    """Events that did not arrive, or perhaps not."""

    #: Their numbers.
    events: range
    #: What became of them, and why.
    fate: str


class Supplier(_native.Supplier):
    """Publishes events into a channel, which is made if there is none.

    >>> supplier = Supplier("Weather")                        # doctest: +SKIP
    >>> supplier.publish(Wind(speed=11.5, direction=270.0))   # doctest: +SKIP

    ``publish`` returns when the service has taken the event. When the connection breaks or the service is restarted, it finds back by
    itself; while there is no service it waits for one, for ``wait_for_restart``, and then raises ``UnreachableError``. May be used by
    several threads at once. Ends with ``close()``, which also ends the waits of other threads, a ``with`` statement, or the program.

    Settings that are not given come from the environment (``CAMPANILE_SERVER``, ``CAMPANILE_TRANSPORT``, ``CAMPANILE_CONTEXT``), the saved
    context that is selected, or are the service on this machine. ``wait_for_service`` is how long to wait for a service that cannot be
    reached, as a number of seconds or a ``timedelta``; not at all by default. ``wait_for_restart``, 30 s by default, is how long
    ``publish`` waits for a service that cannot be reached any more: an event that certainly was not taken is tried again, one that may have
    been taken is not; with 0 the error comes at once. ``tls_ca``, a PEM file with the authorities to trust, has TLS spoken; ``tls_certificate`` and
    ``tls_key`` say who the program is, which consumers have to. ``dds`` has settings of DDS by their names.
    """

    def __new__(
        cls,
        channel: str,
        *,
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
        dds: dict[str, typing.Any] | None = None,
        wait_for_service: float | datetime.timedelta | None = None,
        wait_for_restart: float | datetime.timedelta | None = None,
    ) -> typing.Self:
        options = {key: value for key, value in locals().items() if key not in ("cls", "channel", "__class__")}
        supplier = super().__new__(cls, channel, options)
        supplier.on_trouble(_log_trouble)
        _exit.opened(supplier)
        return supplier

    def on_trouble(self, callback: typing.Callable[[Trouble], object]) -> None:
        """Has ``callback`` called with what ``publish`` does not raise: over DDS, readers that do not match. Default: it is logged
        (``logging.getLogger("campanile")``). It may be called on several threads."""
        self.report_to(lambda kind, text, types, supplier: callback(Trouble(kind, text, types, supplier)))

    def publisher(
        self,
        *,
        gather_events_max: int = 64,
        gather_time_max: float = 0.001,
        unanswered_max: int = 4096,
    ) -> Publisher:
        """Publishes without waiting for each event: for very many.

        >>> with supplier.publisher() as publisher:   # doctest: +SKIP
        ...     for wind in many:
        ...         publisher.publish(wind)

        Up to ``gather_events_max`` events are sent together, none of which waits for longer than ``gather_time_max`` seconds; when
        ``unanswered_max`` are on the way, publishing waits.
        """
        return Publisher(self, gather_events_max, gather_time_max, unanswered_max)

    def __enter__(self) -> Supplier:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class SupplierOptions(ConnectionOptions, total=False):
    """What a ``Supplier`` can be told."""

    wait_for_restart: float | datetime.timedelta | None


class AsyncSupplier:
    """A ``Supplier`` for programs with ``asyncio``, with the same settings.

    >>> async with AsyncSupplier("Weather") as supplier:   # doctest: +SKIP
    ...     await supplier.publish(Wind(11.5, 270.0))

    A thread of its own publishes, in the order in which ``publish`` was called; the event loop goes on meanwhile. A task that is cancelled
    while it waits does not say whether its event is published.
    """

    def __init__(self, channel: str, /, **options: typing.Unpack[SupplierOptions]) -> None:
        self._connect = lambda: Supplier(channel, **options)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "campanile-supplier")
        self._supplier: Supplier | None = None

    async def __aenter__(self) -> AsyncSupplier:
        self._supplier = await self._on_thread(self._connect)
        return self

    async def publish(self, event: object, /) -> None:
        """Publishes an event, and returns when the service has taken it."""
        if self._supplier is None:
            raise ClosedError("this supplier is not connected: use `async with`")
        await self._on_thread(self._supplier.publish, event)

    async def close(self) -> None:
        """Ends it, and the waits of ``publish``. What is closed may be closed again."""
        supplier, self._supplier = self._supplier, None
        if supplier is not None:
            # Not on the thread, which may wait for a service.
            await asyncio.to_thread(supplier.close)
        self._thread.shutdown(wait=False)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _on_thread(self, what: typing.Callable[..., R], *arguments: object) -> asyncio.Future[R]:
        return asyncio.get_running_loop().run_in_executor(self._thread, what, *arguments)


class Publisher(_native.Publisher):
    """Publishes events without waiting for each: made by ``Supplier.publisher``.

    They are numbered from 0 on and arrive in order; none is sent twice. What became of them is reported by ``tally()``, ``sync()`` and
    ``losses()``, and by ``close()``, which waits for all answers. One that is left with events unconfirmed, by an exception or at the
    end of the program, says how many on standard error.
    """

    def __new__(cls, supplier: Supplier, gather_events_max: int, gather_time_max: float, unanswered_max: int) -> typing.Self:
        publisher = super().__new__(cls, supplier, gather_events_max, gather_time_max, unanswered_max)
        publisher._supplier = supplier
        _exit.opened(publisher)
        return publisher

    _supplier: Supplier

    def tally(self) -> Tally:
        """How many events became what, as far as is known."""
        return Tally(*super().tally())

    def sync(self) -> Tally:
        """Sends what was gathered and waits until the fate of all events is known."""
        return Tally(*super().sync())

    def losses(self) -> typing.Iterator[Loss]:
        """Events that did not arrive, or perhaps not, and that were not reported before."""
        while (loss := super().next_loss()) is not None:
            first, behind, fate = loss
            yield Loss(range(first, behind), fate)

    def close(self, patience: float | None = None) -> Tally | None:
        """Waits for all answers, for as long as they keep coming, and ends it. Nothing if it is closed already.

        ``patience`` is how long to wait without any answer, in seconds; a minute by default.
        """
        tally = super().close(patience)
        return None if tally is None else Tally(*tally)

    def _close_at_exit(self) -> None:
        self._report(self.close(_PATIENCE_AT_EXIT))

    def _report(self, tally: Tally | None) -> None:
        if tally is not None and tally.unconfirmed:
            print(
                f"campanile: {tally.unconfirmed} of {tally.published} events published into {self._supplier.channel} were not confirmed: "
                f"{tally.refused} refused, {tally.not_sent} not sent, {tally.unknown} unknown",
                file=sys.stderr,
            )

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # An exception is not to wait for a service that does not answer.
        self._report(self.close(None if kind is None else _PATIENCE_AT_EXIT))
