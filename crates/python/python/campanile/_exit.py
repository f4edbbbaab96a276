"""What is open when the interpreter ends: it is closed, and what was not confirmed is told."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any

_OPEN: weakref.WeakSet[Any] = weakref.WeakSet()
_PROCESS = os.getpid()


def opened(it: Any) -> None:
    """Has something closed at the end."""
    _OPEN.add(it)


def _close_all() -> None:
    if os.getpid() != _PROCESS:
        return
    # Publishers before the suppliers that they are of.
    for it in sorted(_OPEN, key=lambda it: not hasattr(it, "_close_at_exit")):
        try:
            getattr(it, "_close_at_exit", it.close)()
        except Exception:  # noqa: BLE001 (the others are to be closed, too)
            pass


def _after_fork() -> None:
    global _PROCESS
    _PROCESS = os.getpid()
    _OPEN.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_after_fork)
