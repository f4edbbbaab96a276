"""Publishes and receives across a restart of the service; run by `tests/suite.rs`, which says when."""

import queue
import sys

import campanile


@campanile.event
class Number:
    number: campanile.i32


events: queue.Queue[Number] = queue.Queue()
troubles: queue.Queue[campanile.Trouble] = queue.Queue()
supplier = campanile.Supplier("Restarted")
consumer = campanile.Consumer("Restarted").on(Number, events.put).on_trouble(troubles.put).ready()

supplier.publish(Number(0))
print("received", events.get().number, flush=True)

sys.stdin.readline()
try:
    supplier.publish(Number(-1))
except campanile.Error as error:
    print(f"{type(error).__name__}, may be published again: {error.was_not_carried_out}", flush=True)

sys.stdin.readline()
# The subscription is made anew by itself; this asks for it now, so that nothing has to wait.
consumer.check()
supplier.publish(Number(1))
print("received", events.get().number, flush=True)
while troubles.get().kind != "gap":
    pass
print("told of a gap", flush=True)
