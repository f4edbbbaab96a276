"""Components as a table in C, as a shared object has one: `campanile_component.h` says what is in it, and what each side promises.

A function of the table is called without the class that it is for, so that each class has its own: ctypes makes functions of C at run time.
"""

from __future__ import annotations

import copy
import ctypes
import importlib.util
import itertools
import os
import sys
import threading
import tomllib
import traceback
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from ._types import _SAID, plan_of
from .component import DECLARED, NEIGHBOURS, SOURCE, Broken, Declaration, EventSet, NeighbourChange, Port, Ports, Source, Tick, fits

_ABI = 1
_OK, _FAILED, _BROKEN, _ARGUMENT = 0, 1, 2, 7

#: Names of the steps of life, from 1 on.
_STEPS = ("", "configured", "connected", "activated", "passivated", "removed")

#: What tables and the server point to, for as long as the process.
_FOR_GOOD: list[Any] = []

_HERE = os.path.dirname(__file__)


class _Event(ctypes.Structure):
    _fields_ = [
        ("port", c_uint32),
        ("priority", c_int32),
        ("cdr", c_void_p),
        ("cdr_size", c_size_t),
        ("source", c_void_p),
        ("source_size", c_size_t),
        ("age_ns", c_uint64),
        ("late_ns", c_uint64),
        ("missed", c_uint64),
        ("native", c_void_p),
        ("set", c_uint64),
        ("set_index", c_uint32),
        ("set_size", c_uint32),
    ]


class _Options(ctypes.Structure):
    _fields_ = [("priority", c_int32), ("timeout_ns", c_uint64)]


_HANDLER = CFUNCTYPE(c_int32, c_void_p, POINTER(_Event))
_CREATE = CFUNCTYPE(c_int32, c_void_p, c_char_p, POINTER(c_void_p))
_DESTROY = CFUNCTYPE(None, c_void_p)
_STEP = CFUNCTYPE(c_int32, c_void_p, c_uint32)
_COMPONENTS = CFUNCTYPE(c_void_p, POINTER(c_size_t))


class _Port(ctypes.Structure):
    _fields_ = [
        ("kind", c_uint32),
        ("name", c_char_p),
        ("idl", c_char_p),
        ("domain", c_char_p),
        ("interval_ns", c_uint64),
        ("handler", _HANDLER),
    ]


class _Property(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("what", c_char_p), ("has_default", c_uint32)]


class _Host(ctypes.Structure):
    _fields_ = [
        ("abi", c_uint32),
        ("size", c_uint32),
        ("log_level", c_uint32),
        ("instance", c_char_p),
        ("send", CFUNCTYPE(c_int32, c_void_p, c_uint32, c_char_p, c_size_t, POINTER(_Options))),
        ("send_native", c_void_p),
        ("property_number", c_void_p),
        ("property_text", c_void_p),
        ("log", c_void_p),
        ("fail", CFUNCTYPE(c_int32, c_void_p, c_int32, c_char_p)),
    ]


class _Component(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("ports", POINTER(_Port)),
        ("port_count", c_size_t),
        ("properties", POINTER(_Property)),
        ("property_count", c_size_t),
        ("create", _CREATE),
        ("destroy", _DESTROY),
        ("step", _STEP),
    ]


class _Table(ctypes.Structure):
    _fields_ = [("abi", c_uint32), ("size", c_uint32), ("components", _COMPONENTS), ("write_native", c_void_p)]


def table_of(path: Path) -> int | str:
    """The address of the table of the components in a file; or why there is none, in one line."""
    try:
        classes = _load(path)
        entries = (_Component * len(classes))(*map(_entry, classes))
    except BaseException as raised:  # noqa: BLE001 (whatever the file does)
        return reason_of(raised)
    if not classes:
        return "it has no components: put @component, of campanile.component, before a class"

    def components(count: Any) -> int:
        count[0] = len(classes)
        return ctypes.addressof(entries)

    table = _Table(_ABI, ctypes.sizeof(_Table), _COMPONENTS(components), None)
    _FOR_GOOD.extend([entries, table])
    return ctypes.addressof(table)


def _load(path: Path) -> list[type]:
    """The components that a file has, in the order of their names."""
    name, folder = path.stem, str(path.parent)
    module = sys.modules.get(name)
    if module is None:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError("it is no file of Python")
        # What stands beside the file is imported as for a program.
        if folder not in sys.path:
            sys.path.insert(0, folder)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    elif not os.path.exists(there := getattr(module, "__file__", None) or "") or not os.path.samefile(there, path):
        raise ImportError(f"there is a module {name} already, {there or 'of Python itself'}: give the file another name")
    found = [it for it in vars(module).values() if isinstance(it, type) and it in DECLARED]
    return list(dict.fromkeys(found))


def reason_of(raised: BaseException) -> str:
    """What was raised, on one line, with the last line of the program that it went through; its type alone where it has no text."""
    try:
        return _text_of(raised).replace("\0", " ").encode(errors="replace").decode()
    except BaseException:  # noqa: BLE001 (its text is made by the program)
        return type(raised).__name__


def _text_of(raised: BaseException) -> str:
    if isinstance(raised, SyntaxError):
        # Its own words have the place.
        return f"SyntaxError: {raised}"
    said = str(raised) if isinstance(raised, Broken) else "".join(traceback.format_exception_only(raised))
    said = " ".join(said.split())
    lines = [frame for frame in traceback.extract_tb(raised.__traceback__) if not frame.filename.startswith((_HERE, "<frozen"))]
    return f"{said} ({os.path.basename(lines[-1].filename)}, line {lines[-1].lineno})" if lines else said


class _Instance:
    """A component with its server."""

    def __init__(self, cls: type, host: int, properties: dict[str, Any]) -> None:
        self.address = host
        self.host = _Host.from_address(host)
        #: Whether the server has ended it, with its host.
        self.is_gone = False
        self.name = self.host.instance.decode()
        self.component: Any = cls()
        try:
            self._set_up(DECLARED[cls], properties)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Drops the component. What it has left elsewhere sends nothing from now on."""
        self.is_gone, self.component = True, None

    def _set_up(self, declaration: Declaration, properties: dict[str, Any]) -> None:
        for name, (hint, default) in declaration.properties.items():
            if name in properties:
                value = properties[name]
                if not fits(value, hint):
                    raise TypeError(f"the property {name} is {value!r}: give it, a {_type_name(hint)}")
                setattr(self.component, name, float(value) if hint is float else value)
            elif default:
                setattr(self.component, name, copy.deepcopy(default[0]))
            else:
                raise TypeError(f"the property {name} is missing: give it, a {_type_name(hint)}")
        for place, port in enumerate(declaration.ports):
            if port.kind == SOURCE:
                setattr(self.component, port.name, Source(self._sender(place, port)))

    def _sender(self, place: int, port: Port) -> Callable[[Any, int, float | None], int]:
        assert port.event is not None
        encode, host, address, thread = plan_of(port.event).encode, self.host, self.address, threading.get_ident()

        def send(event: Any, priority: int, timeout: float | None) -> int:
            # The host ends on this thread.
            if self.is_gone or threading.get_ident() != thread:
                return _ARGUMENT
            octets = encode(event)
            options = _Options(max(-32767, min(32767, priority)), 0 if timeout is None else round(max(1.0, min(timeout * 1e9, 2.0**63))))
            status: int = host.send(address, place, octets, len(octets), byref(options))
            return status

        return send

    def ports(self, port: str, event: _Event) -> Ports:
        source = ctypes.string_at(event.source, event.source_size).decode()
        belongs = EventSet(event.set, event.set_index, event.set_size) if event.set else None
        return Ports(self.name, port, source, event.priority, event.age_ns / 1e9, belongs)


_NUMBERS = itertools.count(1)
_INSTANCES: dict[int, _Instance] = {}


def _guarded(host: _Host, address: int, call: Callable[[], object]) -> int:
    """Calls, and has nothing raised leave it."""
    try:
        call()
        return _OK
    except BaseException as raised:  # noqa: BLE001 (nothing goes through C)
        is_failure = isinstance(raised, Exception) and not isinstance(raised, Broken)
        status: int = host.fail(address, _FAILED if is_failure else _BROKEN, reason_of(raised).encode())
        return status


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not getattr(hint, "__args__", None) else str(hint)


def _entry(cls: type) -> _Component:
    """A class in the table."""
    declaration = DECLARED[cls]

    def create(host: int, properties: bytes, component: Any) -> int:
        def make() -> None:
            number = next(_NUMBERS)
            _INSTANCES[number] = _Instance(cls, host, tomllib.loads(properties.decode()))
            component[0] = number

        return _guarded(_Host.from_address(host), host, make)

    def destroy(component: int) -> None:
        # The component is dropped here, although its sources know what it was in.
        _INSTANCES.pop(component).end()

    def step(component: int, step: int) -> int:
        instance = _INSTANCES[component]
        return _guarded(instance.host, instance.address, lambda: getattr(instance.component, f"on_{_STEPS[step]}", lambda: None)())

    ports = (_Port * len(declaration.ports))(*(_port(port) for port in declaration.ports))
    properties = (_Property * len(declaration.properties))(
        *(
            _Property(name.encode(), _type_name(hint)[:64].encode(), bool(default))
            for name, (hint, default) in declaration.properties.items()
        )
    )
    functions = _CREATE(create), _DESTROY(destroy), _STEP(step)
    _FOR_GOOD.extend([ports, properties, functions])
    return _Component(cls.__name__.encode(), ports, len(ports), properties, len(properties), *functions)


def _port(port: Port) -> _Port:
    """A port in the table."""
    event = NeighbourChange if port.kind == NEIGHBOURS else port.event
    plan = None if event is None else plan_of(event)
    handler_name = f"on_{port.name}"

    def handle(component: int, of: Any) -> int:
        instance = _INSTANCES[component]

        def call() -> None:
            given = of.contents
            if plan is None:
                taken: Any = Tick(given.late_ns / 1e9, given.missed)
            else:
                taken = plan.decode(ctypes.string_at(given.cdr, given.cdr_size))
            getattr(instance.component, handler_name)(taken, instance.ports(port.name, given))

        return _guarded(instance.host, instance.address, call)

    handler = _HANDLER() if port.kind == SOURCE else _HANDLER(handle)
    _FOR_GOOD.append(handler)
    if port.event is None or plan is None:
        return _Port(port.kind, port.name.encode(), None, None, port.interval_ns, handler)
    domain = _SAID.get(port.event, {}).get("domain")
    return _Port(port.kind, port.name.encode(), plan.definitions().encode(), domain.encode() if domain else None, 0, handler)
