"""Everything that a program in Python says of events, for mypy and pyright, both strictly; run by `tests/suite.rs`, too."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime

import campanile


@campanile.event
class Place:
    x: float
    y: float = 0.0


@campanile.event(domain="Telescope", frozen=True)
class Wind:
    speed: float
    station: str
    place: Place = dataclasses.field(default_factory=lambda: Place(1.0))
    gusts: list[campanile.f32] = dataclasses.field(default_factory=list[float])


@campanile.event(kw_only=True)
class Rain:
    millimetres: campanile.u16 = 3


def speed_of(wind: Wind) -> float:
    return wind.speed


def handle(wind: Wind, number: campanile.EventNumber | None) -> None:
    print(wind.station, number.number if number else None)


def told(trouble: campanile.Trouble) -> None:
    print(trouble.kind, trouble.supplier)


def synchronous() -> None:
    with (
        campanile.Consumer("Typed", Wind, filter="$speed > 10").on_trouble(told).events() as winds,
        campanile.Consumer("Typed", name="all").events() as all_events,
        campanile.Consumer("Typed", wait_for_service=datetime.timedelta(seconds=1)).on_numbered(Wind, handle).on(Rain, print).ready(),
        campanile.Supplier("Typed", name="north", wait_for_restart=1.5) as supplier,
    ):
        supplier.publish(Wind(11.5, "north"))
        supplier.publish(Rain(millimetres=7))
        wind = winds.next(60)
        assert wind is not None and speed_of(wind) == 11.5 and wind.place == Place(1.0)
        event = all_events.next(60)
        assert event is not None and event.name == "Wind" and event["speed"] == 11.5
        with supplier.publisher() as publisher:
            number: int = publisher.publish(wind)
            assert publisher.sync().confirmed == number + 1
    for _ in supplier_names():
        pass


def supplier_names() -> list[str]:
    try:
        campanile.Consumer("Typed", Wind, filter="$speed >").events()
    except campanile.FilterError as error:
        return [f"{error.column}: {error.reason}"]
    raise AssertionError("it is no filter")


async def asynchronous() -> None:
    async with campanile.Consumer("Typed", Wind) as winds, campanile.AsyncSupplier("Typed") as supplier:
        await supplier.publish(Wind(12.5, "south"))
        async for wind in winds:
            assert speed_of(wind) == 12.5
            break

    async def numbered() -> float:
        async for wind, number in campanile.Consumer("Typed", Wind, start_from="new").numbered():
            return wind.speed + (number.number if number else 0)
        return 0.0

    receiving = asyncio.create_task(numbered())
    async with campanile.AsyncSupplier("Typed") as supplier:
        while not receiving.done():
            await supplier.publish(Wind(13.5, "south"))
    print(await receiving)


synchronous()
asyncio.run(asynchronous())
