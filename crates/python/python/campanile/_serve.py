"""The server of a plan whose components are in Python: `campanile deploy` runs it as ``python3 -P -m campanile._serve``."""

from __future__ import annotations

import atexit
import io
import logging
import os
import signal
import sys
import time
import traceback

from . import _exit, _native
from ._components import table_of

_USAGE = "usage: --describe FILE, or --plan FILE --server NAME"


def _end(status: int) -> None:
    """Ends the process, whatever its threads do: a handler that hangs would otherwise be unwound, through frames that cannot be."""
    _exit._close_all()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(status)


def _log_as_the_command_does() -> None:
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)-5s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.addLevelName(logging.WARNING, "WARN")
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def main(arguments: list[str]) -> int:
    """Does what the launcher asks for, and gives the status of the process."""
    for stream in (sys.stdout, sys.stderr):
        # What is printed goes to the standard error, line by line.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    _log_as_the_command_does()
    match arguments:
        case ["--describe", path]:
            _native.describe_components(path, table_of)
            return 0
        case ["--plan", plan, "--server", server]:
            # A signal to all processes of a plan is the command's, which has the components passivated.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                signal.signal(number, lambda *_: None)
            refused = _native.serve_components(plan, server, table_of)
        case _:
            refused = _USAGE
    if refused is not None:
        print(refused, file=sys.stderr)
    return 0 if refused is None else 1


if __name__ == "__main__":
    _status = 1
    # Before what components register, so that it is called behind that.
    atexit.register(lambda: _end(_status))
    try:
        _status = main(sys.argv[1:])
    except BaseException:  # noqa: BLE001 (said, whatever it is)
        traceback.print_exc()
    # The interpreter itself would first wait for the threads of components.
    atexit._run_exitfuncs()
