"""Writes to a topic of DDS, with Cyclone's own Python, until its input ends; run by `tests/suite.rs`."""

import sys
import threading
from dataclasses import dataclass

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float64
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.topic import Topic


@dataclass
class Wind(IdlStruct, typename="demo.Wind"):
    station: str
    speed: float64


ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
participant = DomainParticipant(int(sys.argv[1]))
publisher = Publisher(participant, Qos(Policy.Partition(partitions=[sys.argv[2]])))
writer = DataWriter(publisher, Topic(participant, "Wind", Wind))
while not ended.wait(0.05):
    writer.write(Wind("OSF", 9.5))
