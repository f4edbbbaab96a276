"""Components without a server; `tests/plans` has plans of them."""

import ctypes
import pathlib
import re
from typing import Any

import pytest

from campanile import _components, component, event

HEADER = pathlib.Path(__file__).parents[2] / "component/include/campanile_component.h"


def test_structs_are_laid_out_as_the_header_says() -> None:
    layouts = re.findall(r"^CAMPANILE_COMPONENT_LAYOUT\(campanile_component_?(\w*), (\d+), (\w+), (\d+)\);$", HEADER.read_text(), re.MULTILINE)
    assert len(layouts) == 7
    for name, size, last, offset in layouts:
        struct = getattr(_components, f"_{(name or 'component').capitalize()}")
        assert (struct._fields_[-1][0], getattr(struct, last).offset) == (last, int(offset))
        assert _components.ctypes.sizeof(struct) == int(size)


def test_intervals_have_a_unit() -> None:
    assert [component.timer(text).interval_ns for text in ("7ns", "3us", "100 ms", "2s")] == [7, 3_000, 100_000_000, 2_000_000_000]
    for text in ("", "10", "ms", "-1s", "1.5s", "1m"):
        with pytest.raises(ValueError, match="is no interval"):
            component.timer(text)
    assert component.timer("3600s").interval_ns == 3_600_000_000_000
    # The last would be 1 ns in 64 bits.
    for text in ("0s", "3601s", "18446744073709551617ns"):
        with pytest.raises(ValueError, match="the interval of a timer is more than 0, and an hour at most"):
            component.timer(text)


def test_a_port_is_not_called_as_a_step_of_life() -> None:
    class Wrong:
        activated: component.Neighbours

        def on_activated(self) -> None: ...

    with pytest.raises(TypeError, match="Wrong.activated: on_activated is a step of life: give the port another name"):
        component.component(Wrong)


@pytest.mark.parametrize(
    ("value", "hint", "fits"),
    [
        (1, int, True),
        (True, int, False),
        (1, float, True),
        ("1", float, False),
        (1.0, int, False),
        (True, bool, True),
        (1, bool, False),
        ([1, 2], list[int], True),
        ([1, True], list[int], False),
        ([[1.5]], list[list[float]], True),
        ({"a": 1}, dict, True),
    ],
)
def test_properties_have_the_type_of_their_annotation(value: object, hint: object, fits: bool) -> None:
    assert component.fits(value, hint) is fits


class Mute(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class MuteAndBroken(component.Broken):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_a_failure_without_a_text_is_called_by_its_type() -> None:
    assert _components.reason_of(MuteAndBroken()) == "MuteAndBroken"
    assert "Mute" in _components.reason_of(Mute())
    assert _components.reason_of(component.Broken("a\0b \ud800")) == "a b ?"


@event
class Offset:
    x: float


class Server:
    """A server that counts what is sent to it, and keeps reasons."""

    def __init__(self) -> None:
        self.timeouts_ns: list[int] = []
        self.reasons: list[str] = []
        types: dict[str, Any] = dict(_components._Host._fields_)
        self.host = _components._Host(abi=1, instance=b"guider", send=types["send"](self._send), fail=types["fail"](self._fail))

    def _send(self, host: int, port: int, cdr: bytes, size: int, options: Any) -> int:
        self.timeouts_ns.append(options.contents.timeout_ns)
        return 0

    def _fail(self, host: int, status: int, text: bytes) -> int:
        self.reasons.append(text.decode())
        return status

    def create(self, cls: type, properties: bytes) -> int:
        number = ctypes.c_void_p()
        status: int = _components._entry(cls).create(ctypes.addressof(self.host), properties, ctypes.byref(number))
        return status


@component.component
class Guider:
    gain: int
    offset: component.Source[Offset]
    spare: component.Source[Offset]

    def __init__(self) -> None:
        MADE.append(self)

    def __setattr__(self, name: str, value: object) -> None:
        if name == "spare" and self.gain < 0:
            raise ValueError("a gain is not negative")
        super().__setattr__(name, value)


MADE: list[Guider] = []


def test_a_component_that_could_not_be_made_sends_nothing() -> None:
    server = Server()
    assert server.create(Guider, b"gain = -1") == 1
    assert "ValueError: a gain is not negative (test_component.py, line " in server.reasons[0]
    with pytest.raises(component.SendError) as raised:
        MADE[-1].offset.send(Offset(1.0))
    assert (raised.value.status, server.timeouts_ns) == (7, [])
    assert server.create(Guider, b"gain = 'much'") == 1
    assert not hasattr(MADE[-1], "offset")


def test_an_event_waits_without_end_or_not_at_all() -> None:
    server = Server()
    assert server.create(Guider, b"gain = 1") == 0
    for timeout in (None, 1.5, 0, -1, float("-inf"), float("nan"), float("inf")):
        MADE[-1].offset.send(Offset(1.0), timeout=timeout)
    assert server.timeouts_ns == [0, 1_500_000_000, 1, 1, 1, 1, 2**63]
