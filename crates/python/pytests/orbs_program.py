"""Publishes into one channel what orbs send into another; run by `tests/suite.rs`, which says when it ends."""

import enum
import sys

import campanile


def in_idl(cls: type) -> type:
    """As the tests with orbs have it in IDL."""
    return campanile.event(module="CampanileTest", prefix="campanile.org")(cls)


@in_idl
class Colour(enum.Enum):
    red = 0
    green = 1
    blue = 2
    violet = 3


@in_idl
class Point:
    x: campanile.i32
    y: campanile.i16
    z: float


@in_idl
class Line:
    _from: Point
    weight: campanile.u8
    to: Point


@in_idl
class Nested:
    name: str
    outline: Line
    tint: Colour
    origin: Point


@in_idl
class Block:
    before: campanile.u8
    data: bytes
    after: campanile.u32


options = {"event_form": sys.argv[1], "event_domain": "ALMA" if sys.argv[1] == "alma" else ""}
supplier = campanile.Supplier("Again", **options)
consumer = campanile.Consumer("Simple", **options).on(Nested, supplier.publish).on(Block, supplier.publish).ready()
print("ready", flush=True)
sys.stdin.readline()
