"""Begins in a channel's history and goes on where it was; run by `tests/suite.rs`."""

import asyncio
import datetime
import queue

import campanile


@campanile.event
class Wind:
    station: str
    speed: float


supplier = campanile.Supplier("Weather")
before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=1)
for number in range(1, 6):
    supplier.publish(Wind("north" if number < 4 else "south", float(number)))


def speeds(start, count):
    with campanile.Consumer("Weather", Wind, start_from=start).events() as events:
        return [events.next(60).speed for _ in range(count)]


with campanile.Consumer("Weather", Wind, start_from="first").numbered().events() as events:
    all_of_them = [events.next(60) for _ in range(5)]
assert [wind.speed for wind, _ in all_of_them] == [1.0, 2.0, 3.0, 4.0, 5.0]
assert all(number.came > before for _, number in all_of_them)
third = all_of_them[2][1].number
assert speeds(f"number:{third}", 3) == [3.0, 4.0, 5.0]
assert speeds(f"after:{third}", 2) == [4.0, 5.0]
assert speeds("last:2", 2) == [4.0, 5.0]
assert speeds(datetime.timedelta(hours=1), 2) == [1.0, 2.0]
assert speeds(before, 2) == [1.0, 2.0]
assert speeds("last-of-each-type", 1) == [5.0]
assert speeds("last-of-each:station", 2) == [3.0, 5.0]

got = queue.Queue()
with campanile.Consumer("Weather", start_from="first").on_numbered(Wind, lambda *both: got.put(both)).ready():
    assert got.get(timeout=60) == all_of_them[0]


async def first():
    async for wind, number in campanile.Consumer("Weather", Wind, start_from="first").numbered():
        return wind, number


assert asyncio.run(first()) == all_of_them[0]
try:
    speeds("firts", 1)
except campanile.SettingsError as error:
    assert "after:N" in str(error)
    print("all is well")
