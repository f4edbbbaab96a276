"""What can go wrong, as exceptions."""

from __future__ import annotations


class Error(Exception):
    """What can go wrong with events.

    ``was_not_carried_out`` tells whether an event that was not published can be published again without being there twice.
    """

    def __init__(self, text: str = "", *, was_not_carried_out: bool = True) -> None:
        super().__init__(text)
        self.was_not_carried_out = was_not_carried_out


class SettingsError(Error, ValueError):
    """The settings, the environment or the file of contexts say something impossible."""


class UnreachableError(Error, ConnectionError):
    """The service cannot be reached, or did not answer. It may be there later, and is then found again."""


class RefusedError(Error):
    """The service refuses: a constraint that is none (over DDS, too), a right that is missing, a limit that is reached."""


class FilterError(RefusedError):
    """A filter is none: ``reason`` says why, and ``column`` where, in characters from 1 on (``None``: it is too much altogether)."""

    def __init__(
        self, text: str = "", *, was_not_carried_out: bool = True, reason: str = "", column: int | None = None
    ) -> None:
        super().__init__(text, was_not_carried_out=was_not_carried_out)
        self.reason = reason
        self.column = column


class ChannelNameError(Error, ValueError):
    """The name cannot be a channel's."""


class EventTypeError(Error, TypeError):
    """A class cannot be an event, and why."""


class EventValueError(Error, ValueError):
    """An object is no value of its type; the text has the member's path, such as ``place.height: 70000 is out of the range of i16``."""


class ForkedError(Error, RuntimeError):
    """It was made before the process was forked; make a new one in the child."""


class NoTransportError(Error):
    """This build has no such transport."""


class ClosedError(Error, ValueError):
    """It was closed before."""


class Enough(Exception):
    """Raised by a callback that wants no more events: its consumer ends."""
