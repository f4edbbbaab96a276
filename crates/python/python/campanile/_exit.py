"""What is open when the interpreter ends: it is closed, callbacks under way are waited for, and unconfirmed events are reported."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import Any

from . import _native

#: For how many seconds callbacks under way are waited for when the interpreter ends.
_CALLBACKS_AT_EXIT = 5.0

_OPEN: weakref.WeakSet[Any] = weakref.WeakSet()
_PROCESS = os.getpid()


def opened(it: Any) -> None:
    """Has something closed at the end."""
    _OPEN.add(it)


def _close_all() -> None:
    if os.getpid() != _PROCESS:
        return
    # Daemon threads stay where they are in the library from now on.
    _native.end_calls()
    # Publishers before the suppliers that they are of.
    for it in sorted(_OPEN, key=lambda it: not hasattr(it, "_close_at_exit")):
        try:
            getattr(it, "_close_at_exit", it.close)()
        except Exception:  # noqa: BLE001 (the others are to be closed, too)
            pass
    if not _native.wait_for_calls(_CALLBACKS_AT_EXIT):
        print(f"campanile: a callback still runs after {_CALLBACKS_AT_EXIT:g} s; the program ends without it", file=sys.stderr)


def _after_fork() -> None:
    global _PROCESS
    _PROCESS = os.getpid()
    _OPEN.clear()
    _native.forget_calls()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_after_fork)
