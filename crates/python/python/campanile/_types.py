"""Dataclasses as types of events: their annotations, put into what the native part understands."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import keyword
import types
import typing
from typing import Annotated, Any, TypeVar

from . import _native
from ._errors import EventTypeError

T = TypeVar("T")


class _Width:
    """How an int or a float travels."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"campanile.{self.name}"


class length:
    """So many elements: ``Annotated[list[float], length(3)]`` is an array of three."""

    def __init__(self, count: int) -> None:
        if not isinstance(count, int) or not 1 <= count < 2**31:
            raise EventTypeError(f"{count!r} is no number of elements")
        self.count = count

    def __repr__(self) -> str:
        return f"campanile.length({self.count})"


i8 = Annotated[int, _Width("i8")]
u8 = Annotated[int, _Width("u8")]
i16 = Annotated[int, _Width("i16")]
u16 = Annotated[int, _Width("u16")]
i32 = Annotated[int, _Width("i32")]
u32 = Annotated[int, _Width("u32")]
i64 = Annotated[int, _Width("i64")]
u64 = Annotated[int, _Width("u64")]
f32 = Annotated[float, _Width("f32")]
f64 = Annotated[float, _Width("f64")]

_SIMPLE = {
    bool: "bool",
    int: "i64",
    float: "f64",
    str: "str",
    bytes: "bytes",
    bytearray: "bytes",
    datetime.datetime: "datetime",
    datetime.timedelta: "timedelta",
}

_KNOWN = (
    "bool, int (64 bits), campanile.i8 to u64, float, campanile.f32, str, bytes, datetime.datetime, datetime.timedelta, list[T], "
    "T | None, classes of enum, dataclasses"
)

#: What is said of classes by `event`, and what they are, once that is known.
_SAID: dict[type, dict[str, str | None]] = {}
_PLANS: dict[type, _native.Plan] = {}


@typing.overload
@typing.dataclass_transform(field_specifiers=(dataclasses.field,))
def event(cls: type[T], /) -> type[T]: ...
@typing.overload
@typing.dataclass_transform(field_specifiers=(dataclasses.field,))
def event(
    *,
    domain: str | None = None,
    name: str | None = None,
    module: str | None = None,
    prefix: str | None = None,
    frozen: bool = False,
    kw_only: bool = False,
) -> typing.Callable[[type[T]], type[T]]: ...
def event(
    cls: Any = None,
    /,
    *,
    domain: str | None = None,
    name: str | None = None,
    module: str | None = None,
    prefix: str | None = None,
    frozen: bool = False,
    kw_only: bool = False,
) -> Any:
    """Makes a class with annotations an event: a dataclass, whose type is looked at now, so that mistakes are reported here.

    ``domain`` is that of its events' type (default: what the settings say), ``name`` its name elsewhere (default: the class's), ``module``
    the IDL module in which it stands for others, such as ``"obs.weather"``, ``prefix`` what stands in front of that, as ``#pragma prefix``
    says there. A class of enum that is a part of events can be told the last three, too. ``frozen`` and ``kw_only`` are those of
    ``dataclasses.dataclass``. A member with a default may be missing from a supplier's type, and has that value then; what a
    ``default_factory`` makes, it makes once for that.

    >>> @event
    ... class Wind:
    ...     speed: float
    ...     station: str = ""
    >>> Wind(11.5)
    Wind(speed=11.5, station='')

    A plain dataclass is an event, too; this is for those who want to say more, or to know sooner.
    """

    def make(cls: Any) -> Any:
        said = {"domain": domain, "name": name, "module": module, "prefix": prefix}
        if issubclass(cls, enum.Enum):
            _SAID[cls] = said
            return cls
        if "__dataclass_fields__" in cls.__dict__:
            made: type = cls
        else:
            made = dataclasses.dataclass(frozen=frozen, kw_only=kw_only)(cls)
        _SAID[made] = said
        try:
            plan_of(made)
        except NameError:
            # An annotation names what is defined further down; it is looked at when the first event is published.
            pass
        return made

    return make if cls is None else make(cls)


def idl(cls: type) -> str:
    """A class's type in IDL: what programs in other languages see.

    >>> @dataclasses.dataclass
    ... class Rain:
    ...     millimetres: f32
    >>> print(idl(Rain))
    struct Rain { float millimetres; }
    """
    return plan_of(cls).idl()


def plan_of(cls: type) -> _native.Plan:
    """What the native part knows of a class."""
    plan = _PLANS.get(cls)
    if plan is None:
        if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
            raise EventTypeError(
                f"{_named(cls)} is no dataclass: events are dataclasses, such as\n\n"
                "    @campanile.event\n    class Wind:\n        speed: float\n"
            )
        description = _structure(cls, ())
        plan = _native.Plan(description, _SAID.get(cls, {}).get("domain"))
        _PLANS[cls] = plan
    return plan


def _named(cls: Any) -> str:
    return getattr(cls, "__qualname__", None) or repr(cls)


def _id(cls: type) -> tuple[str, str]:
    said = _SAID.get(cls, {})
    name = said.get("name") or cls.__name__
    module, prefix = said.get("module"), said.get("prefix")
    around = ([prefix] if prefix else []) + (module.split(".") if module else [])
    return ("IDL:" + "/".join([*around, name]) + ":1.0", name)


def _in_idl(name: str) -> str:
    """The name of a member or a label elsewhere: words that Python keeps for itself have an underscore in front of them here."""
    return name[1:] if name[:1] == "_" and keyword.iskeyword(name[1:]) else name


def _structure(cls: type, within: tuple[type, ...]) -> tuple[Any, ...]:
    if cls in within:
        raise EventTypeError(f"{_named(cls)} is within itself, which cannot travel")
    hints = typing.get_type_hints(cls, include_extras=True)
    by_position: list[tuple[Any, ...]] = []
    by_keyword: list[tuple[Any, ...]] = []
    for field in dataclasses.fields(cls):
        if not field.init:
            raise EventTypeError(
                f"{_named(cls)}.{field.name} is no argument of the constructor (init=False), so that no event could be made from what comes"
            )
        described = _described(hints[field.name], f"{_named(cls)}.{field.name}", (*within, cls))
        member = (field.name, _in_idl(field.name), described, bool(field.kw_only), _defaults(field))
        (by_keyword if field.kw_only else by_position).append(member)
    return ("struct", cls, *_id(cls), (*by_position, *by_keyword))


def _defaults(field: dataclasses.Field[Any]) -> tuple[Any, ...]:
    """What a member is where nothing is said, if it is something."""
    if field.default is not dataclasses.MISSING:
        return (field.default,)
    if field.default_factory is not dataclasses.MISSING:
        return (field.default_factory(),)
    return ()


def _described(hint: Any, where: str, within: tuple[type, ...]) -> tuple[Any, ...]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        of, *said = arguments
        for one in said:
            if isinstance(one, _Width):
                return (one.name,)
            if isinstance(one, length):
                kind = _described(of, where, within)
                if kind[0] != "list":
                    raise EventTypeError(f"{where}: {one!r} is for a list")
                return ("array", kind[1], one.count)
        return _described(of, where, within)
    if origin is typing.Union or origin is types.UnionType:
        others = [argument for argument in arguments if argument is not type(None)]
        if len(others) == 1 and len(others) < len(arguments):
            return ("optional", _described(others[0], where, within))
        raise EventTypeError(f"{where}: {hint} is one of several types, which cannot travel; only T | None can")
    if origin in (list, typing.get_origin(typing.Sequence[int])) and len(arguments) == 1:
        return ("list", _described(arguments[0], where, within))
    if hint in (list, typing.List):
        raise EventTypeError(f"{where}: a list of what? Write list[float], say")
    if hint in _SIMPLE:
        return (_SIMPLE[hint],)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        members = list(hint)
        if not members:
            raise EventTypeError(f"{where}: {_named(hint)} has no members")
        return ("enum", *_id(hint), tuple(_in_idl(member.name) for member in members), tuple(members))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _structure(hint, within)
    raise EventTypeError(f"{where}: {_named(hint)} cannot travel. What can: {_KNOWN}")
