"""Publishes and receives across a restart of the service; run by `tests/suite.rs`, which says when."""

import queue
import sys
import threading
import time

import campanile


@campanile.event
class Number:
    number: campanile.i32


events: queue.Queue[Number] = queue.Queue()
troubles: queue.Queue[campanile.Trouble] = queue.Queue()
supplier = campanile.Supplier("Restarted")
hasty = campanile.Supplier("Restarted", wait_for_restart=0)
consumer = campanile.Consumer("Restarted").on(Number, events.put).on_trouble(troubles.put).ready()

for both in (supplier, hasty):
    both.publish(Number(0))
    print("received", events.get().number, flush=True)

sys.stdin.readline()
try:
    hasty.publish(Number(-1))
except campanile.Error as error:
    print(f"{type(error).__name__}, may be published again: {error.was_not_carried_out}", flush=True)


def publish() -> None:
    supplier.publish(Number(1))
    print("published", flush=True)


publishing = threading.Thread(target=publish)
publishing.start()
while supplier.waiting == 0:
    time.sleep(0.001)
print("waits", flush=True)

sys.stdin.readline()
publishing.join()
# The subscription is made anew by itself; this asks for it now, so that nothing has to wait.
consumer.check()
for both in (supplier, hasty):
    both.publish(Number(2))
    # The event that waited has come, too, if the subscription was there before it.
    while (number := events.get().number) == 1:
        pass
    print("received", number, flush=True)
while troubles.get().kind != "gap":
    pass
print("told of a gap", flush=True)
