"""Waits for a service that does not come back; run by `tests/suite.rs`, which ends the service."""

import os
import signal
import sys
import threading
import time

import campanile


@campanile.event
class Number:
    number: campanile.i32


supplier, other = campanile.Supplier("Away"), campanile.Supplier("Away", wait_for_restart=3600)
supplier.publish(Number(0))
print("published", flush=True)
sys.stdin.readline()


def until_waiting(supplier: campanile.Supplier, count: int) -> None:
    while supplier.waiting < count:
        time.sleep(0.001)


def publish_until_closed() -> None:
    try:
        other.publish(Number(1))
    except campanile.UnreachableError as error:
        print(f"ended by close, may be published again: {error.was_not_carried_out}", flush=True)


publishing = threading.Thread(target=publish_until_closed)
publishing.start()
until_waiting(other, 1)
other.close()
publishing.join()


def interrupt() -> None:
    until_waiting(supplier, 1)
    os.kill(os.getpid(), signal.SIGINT)


signal.signal(signal.SIGINT, signal.default_int_handler)
interrupting = threading.Thread(target=interrupt)
interrupting.start()
try:
    supplier.publish(Number(2))
except KeyboardInterrupt:
    print("interrupted", flush=True)
interrupting.join()

# The program ends while a thread of its own waits.
threading.Thread(target=supplier.publish, args=(Number(3),), daemon=True).start()
until_waiting(supplier, 1)
