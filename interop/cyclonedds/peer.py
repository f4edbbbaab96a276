"""The program of `fastdds/peer.cc` with Cyclone DDS for Python, and the same words; it can have XCDR2 alone.

peer.py DOMAIN PARTITION TOPIC writer|reader [best-effort] [transient-local] [xcdr2]
"""

import sys
import threading
from dataclasses import dataclass

from cyclonedds.core import Listener, Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float64
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic
from cyclonedds.util import duration


@dataclass
class Wind(IdlStruct, typename="demo.Wind"):
    station: str
    speed: float64


class Prints(Listener):
    def on_data_available(self, reader: DataReader) -> None:
        for wind in reader.take(64):
            if isinstance(wind, Wind):
                print("got", f"{wind.speed:g}", flush=True)


domain, partition, topic, role, *words = sys.argv[1:]
policies = [
    Policy.Reliability.BestEffort if "best-effort" in words else Policy.Reliability.Reliable(duration(seconds=1)),
    Policy.Durability.TransientLocal if "transient-local" in words else Policy.Durability.Volatile,
    Policy.History.KeepAll,
    Policy.DataRepresentation(use_cdrv0_representation="xcdr2" not in words, use_xcdrv2_representation="xcdr2" in words),
]
participant = DomainParticipant(int(domain))
within = Qos(Policy.Partition(partitions=[partition]))
winds = Topic(participant, topic, Wind)
if role == "writer":
    writer = DataWriter(Publisher(participant, within), winds, Qos(*policies))
    print("ready", flush=True)
    speed = 0.0
    for line in sys.stdin:
        for _ in range(int(line)):
            speed += 1
            writer.write(Wind("OSF", speed))
else:
    reader = DataReader(Subscriber(participant, within), winds, Qos(*policies), Prints())
    print("ready", flush=True)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    ended.wait()
