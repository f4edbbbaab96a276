"""How fast Python is: speed.py supplier|consumer CHANNEL. What it is told and answers, README.md says."""

import asyncio
import collections
import json
import os
import sys
import threading
import time
from dataclasses import dataclass

from campanile import Consumer, Supplier, f32, u64


@dataclass
class Wind:
    sent_ns: u64
    speed: float
    direction: f32
    station: str


class Arrivals:
    def __init__(self):
        self.changed = threading.Condition()
        self.count = 0
        self.wanted = sys.maxsize
        self.last = 0
        self.latencies = []

    def arrived(self, wind):
        at = time.monotonic_ns()
        if wind.sent_ns:
            self.latencies.append(at - wind.sent_ns)
        self.last = at
        # One thread alone counts.
        self.count += 1
        if self.count >= self.wanted:
            with self.changed:
                self.changed.notify()

    def take(self, events):
        with self.changed:
            self.wanted = events
            while self.count < events:
                self.changed.wait(0.01)
        answer = {"last": self.last, "latencies": self.latencies}
        self.count, self.wanted, self.latencies = 0, sys.maxsize, []
        return answer


async def take_all(events, arrivals):
    async for wind in events:
        arrivals.arrived(wind)


def subscribe(channel, arrivals):
    """By a callback, or by a thread that takes events with ``next()`` or ``async for``."""
    way = os.environ.get("SPEED_TAKES")
    if not way:
        return Consumer(channel).on(Wind, arrivals.arrived).ready()
    events = Consumer(channel, Wind).events()
    if way == "async":
        taking = threading.Thread(target=lambda: asyncio.run(take_all(events, arrivals)), daemon=True)
    else:
        taking = threading.Thread(target=lambda: collections.deque(map(arrivals.arrived, events), 0), daemon=True)
    taking.start()
    return events


def flood(publisher, events):
    began = time.monotonic_ns()
    for _ in range(events):
        publisher.publish(Wind(0, 11.5, 270.0, "north"))
    return {"began": began, "lost": publisher.sync().unconfirmed}


def pace(supplier, events, period):
    began = time.monotonic_ns()
    for number in range(1, events + 1):
        time.sleep(max(0, began + number * period - time.monotonic_ns()) / 1e9)
        supplier.publish(Wind(time.monotonic_ns(), 11.5, 270.0, "north"))
    return {"began": began, "lost": 0}


def main():
    what, channel = sys.argv[1:]
    arrivals = Arrivals()
    if what == "consumer":
        subscription = subscribe(channel, arrivals)
    else:
        supplier = Supplier(channel)
        publisher = supplier.publisher()
    print("answer: started", flush=True)
    for line in sys.stdin:
        order, events, number = json.loads(line).split()
        if order == "take":
            answer = arrivals.take(int(events))
        elif order == "flood":
            answer = flood(publisher, int(events))
        else:
            answer = pace(supplier, int(events), int(number))
        print("answer: " + json.dumps(answer), flush=True)
    if what == "consumer":
        subscription.close()
    else:
        publisher.close()
        supplier.close()


main()
