"""A component of `campanile-bench deployment`: when it is activated, it writes of which version of the plan it is into a file of its process."""

import os

import campanile
from campanile.component import Ports, Sink, Source, component


@campanile.event(module="bench")
class Beat:
    number: campanile.u64


@component
class Part:
    input: Sink[Beat]
    output: Source[Beat]
    folder: str
    version: int

    def on_activated(self) -> None:
        with open(os.path.join(self.folder, str(os.getpid())), "a") as file:
            print(self.version, file=file)

    def on_input(self, beat: Beat, ports: Ports) -> None:
        self.output.send(beat)
