"""Components without a server; `tests/plans` has plans of them."""

import pathlib
import re

import pytest

from campanile import _components, component

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
