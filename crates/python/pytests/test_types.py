"""Dataclasses as types, and objects as octets."""

import dataclasses
import datetime
import doctest
import enum
import math
import random
from typing import Annotated, Optional

import campanile
import pytest
from campanile import f32, i8, i16, u8, u16, u32, u64
from campanile._types import plan_of


class State(enum.Enum):
    OK = "fine"
    BROKEN = 7


@dataclasses.dataclass(frozen=True)
class Place:
    x: float
    y: float = 0.0
    note: str | None = None


@dataclasses.dataclass
class Everything:
    flag: bool
    small: i8
    octet: u8
    short: i16
    word: u16
    long: u32
    integer: int
    huge: u64
    single: f32
    double: float
    text: str
    data: bytes
    at: datetime.datetime
    lasted: datetime.timedelta
    state: State
    place: Place
    places: list[Place]
    matrix: list[list[f32]]
    axes: Annotated[list[i16], campanile.length(3)]
    maybe: Optional[int] = None
    named: str = dataclasses.field(default="", kw_only=True)


def everything() -> Everything:
    return Everything(
        flag=True,
        small=-128,
        octet=255,
        short=-32768,
        word=65535,
        long=2**32 - 1,
        integer=-(2**63),
        huge=2**64 - 1,
        single=0.5,
        double=math.pi,
        text="Überlingen 塔 🗼",
        data=bytes(range(256)),
        at=datetime.datetime(2026, 11, 25, 3, 4, 5, 678_901, datetime.timezone.utc),
        lasted=datetime.timedelta(microseconds=1_500_001),
        state=State.BROKEN,
        place=Place(1.0, note="Dach"),
        places=[Place(2.0), Place(3.0, 4.0, "屋根")],
        matrix=[[1.0, 2.0], [], [3.0]],
        axes=[-1, 0, 1],
        maybe=5,
        named="by keyword",
    )


def test_an_object_comes_back_as_it_was():
    plan = plan_of(Everything)
    assert plan.decode(plan.encode(everything())) == everything()
    without = dataclasses.replace(everything(), maybe=None, places=[])
    assert plan.decode(plan.encode(without)) == without


def test_octets_are_those_of_cdr():
    @campanile.event
    class Small:
        flag: bool
        number: i16
        double: float
        text: str

    octets = plan_of(Small).encode(Small(True, 2, 1.0, "hi"))
    assert octets == b"\x01\x00\x02\x00\x00\x00\x00\x00" + b"\x00" * 6 + b"\xf0\x3f" + b"\x03\x00\x00\x00hi\x00"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"short": 70000}, "short: 70000 is out of the range of i16"),
        ({"octet": -1}, "octet: -1 is out of the range of u8"),
        ({"small": 128}, "small: 128 is out of the range of i8"),
        ({"huge": 2**64}, "huge: 18446744073709551616 is out of the range of u64"),
        ({"integer": 2**63}, "integer: 9223372036854775808 is out of the range of i64"),
        ({"single": 1e300}, "single: 1e300 is out of the range of f32"),
        ({"double": "1"}, "double: '1' is a str and no float"),
        ({"text": "half \ud83d"}, "text: 'half \\ud83d' has half a character (a lone surrogate), which cannot travel"),
        ({"text": b"octets"}, "text: b'octets' is a bytes and no str"),
        ({"text": None}, "text: None is a NoneType and no str"),
        ({"data": "text"}, "data: 'text' is a str and no bytes"),
        ({"at": datetime.datetime(2026, 1, 1)}, "at: datetime.datetime(2026, 1, 1, 0, 0) is no datetime with a time zone"),
        ({"lasted": datetime.timedelta(-1)}, "lasted: datetime.timedelta(days=-1) is no timedelta of zero or more"),
        ({"state": "OK"}, "state: 'OK' is a str and no State"),
        ({"place": 3}, "place: 3 is a int and no Place"),
        ({"places": [Place(1.0), Place("x")]}, "places[1].x: 'x' is a str and no float"),
        ({"places": "text"}, "places: 'text' is a str and no list"),
        ({"matrix": [[0.0], ["a"]]}, "matrix[1][0]: 'a' is a str and no float"),
        ({"axes": [1, 2]}, "axes: it has 2 elements, not 3"),
    ],
)
def test_what_is_no_value_is_reported_with_its_path(change, text):
    with pytest.raises(campanile.EventValueError) as caught:
        plan_of(Everything).encode(dataclasses.replace(everything(), **change))
    assert str(caught.value) == f"this is no Everything: {text}"
    assert isinstance(caught.value, ValueError)


def test_numbers_that_are_none_travel():
    plan = plan_of(Place)
    assert math.isnan(plan.decode(plan.encode(Place(math.nan))).x)
    assert plan.decode(plan.encode(Place(-math.inf))).x == -math.inf
    assert math.copysign(1, plan.decode(plan.encode(Place(-0.0))).x) == -1


def test_what_a_property_raises_is_raised():
    @dataclasses.dataclass
    class Odd:
        number: int

        def __getattribute__(self, name):
            if name == "number":
                raise KeyboardInterrupt
            return super().__getattribute__(name)

    plan = plan_of(Odd)
    with pytest.raises(KeyboardInterrupt):
        plan.encode(Odd(1))


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (complex, "complex cannot travel"),
        (list, "a list of what?"),
        (int | str, "one of several types"),
        (dict[str, int], "cannot travel"),
        (Annotated[int, campanile.length(3)], "is for a list"),
    ],
)
def test_a_class_that_cannot_travel_is_refused_with_the_members_name(hint, text):
    made = dataclasses.make_dataclass("Wrong", [("member", hint)])
    with pytest.raises(campanile.EventTypeError, match="Wrong.member: .*" + text.replace("?", r"\?")):
        plan_of(made)


def test_other_mistakes_in_classes_are_reported():
    with pytest.raises(campanile.EventTypeError, match="is no dataclass"):
        plan_of(int)
    with pytest.raises(campanile.EventTypeError, match="init=False"):
        plan_of(dataclasses.make_dataclass("Wrong", [("member", int, dataclasses.field(init=False))]))
    with pytest.raises(campanile.EventTypeError):
        campanile.length(0)


@campanile.event
class Tree:
    number: int
    children: list["Tree"]


def test_a_class_within_itself_is_refused():
    with pytest.raises(campanile.EventTypeError, match="within itself"):
        plan_of(Tree)


def test_random_values_come_back():
    seeded = random.Random(7)

    def text() -> str:
        return "".join(chr(seeded.choice([65, 0xE9, 0x5854, 0x1F5FC])) for _ in range(seeded.randrange(9)))

    plan = plan_of(Everything)
    for _ in range(500):
        event = dataclasses.replace(
            everything(),
            integer=seeded.randrange(-(2**63), 2**63),
            huge=seeded.randrange(2**64),
            double=seeded.uniform(-1e9, 1e9),
            text=text(),
            data=seeded.randbytes(seeded.randrange(20)),
            places=[Place(seeded.random(), note=text() if seeded.random() < 0.5 else None) for _ in range(seeded.randrange(4))],
            state=seeded.choice(list(State)),
            maybe=seeded.choice([None, 3]),
        )
        assert plan.decode(plan.encode(event)) == event


def test_octets_that_are_no_value_are_refused():
    seeded = random.Random(11)
    plan = plan_of(Everything)
    octets = plan.encode(everything())
    for _ in range(2000):
        broken = bytearray(octets[: seeded.randrange(len(octets) + 1)])
        for _ in range(seeded.randrange(3)):
            if broken:
                broken[seeded.randrange(len(broken))] = seeded.randrange(256)
        try:
            plan.decode(bytes(broken))
        except campanile.EventValueError:
            pass


def test_examples_in_the_documentation_are_true():
    from campanile import _types

    names = {"dataclasses": dataclasses, "event": campanile.event, "f32": f32, "idl": campanile.idl}
    assert doctest.testmod(_types, extraglobs=names).failed == 0


def test_a_type_is_called_as_its_idl_calls_it_also_by_words_that_python_keeps_for_itself() -> None:
    @campanile.event(module="obs.site", prefix="alma")
    class Mode(enum.Enum):
        idle = 1
        _global = 2

    @campanile.event(module="obs.site", prefix="alma")
    class Move:
        _from: float
        mode: Mode
        _hidden: bool

    said = campanile.idl(Move)
    assert "double from;" in said and "boolean _hidden;" in said and "{ idle, global }" in said, said
    move = Move(1.5, Mode._global, True)
    plan = campanile._types.plan_of(Move)
    assert plan.decode(plan.encode(move)) == move
