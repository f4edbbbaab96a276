#!/usr/bin/env python3
"""Records what real ORBs say to each other, as the golden bytes beside this file.

    interop/install.sh && interop/golden/capture.py [omniorb|jacorb ...]

For each ORB and GIOP version a server of that ORB is started behind a recording relay, then a client of the same ORB
calls it, or pushes events to it. The two byte streams are cut into GIOP messages, and each is kept in a file of its own:

    <ORB>-<version>-<conversation>-<number>-<kind>[-<operation>].hex

The first line is a comment that says what it is; the rest is hexadecimal. References are kept as <ORB>-<version>.ior.
"""

import pathlib
import socket
import struct
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE.parent.parent / "target" / "interop"
KINDS = ["Request", "Reply", "CancelRequest", "LocateRequest", "LocateReply", "CloseConnection", "MessageError", "Fragment"]
# Shapes an ORB cannot say in the version at hand are left out of that version.
NARROW = "primitives,nested,unions,sequences,latin,tree,arrays,money,coins,references,typecodes,colour,small"
WIDE = "wide,anys,word"


class Relay:
    """One end point in front of another; keeps the messages of both directions in the order in which they passed."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.target = None
        self.messages = []
        self.lock = threading.Lock()
        self.threads = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(self.target)
            for source, sink, who in ((client, server, "client"), (server, client, "server")):
                thread = threading.Thread(target=self.pump, args=(source, sink, who), daemon=True)
                self.threads.append(thread)
                thread.start()

    def pump(self, source, sink, who):
        pending = b""
        while True:
            try:
                received = source.recv(65536)
            except OSError:
                received = b""
            if not received:
                break
            pending += received
            # Recorded before it is passed on, so that an answer never stands before its question.
            while len(pending) >= 12:
                order = "<" if pending[6] & 1 else ">"
                length = 12 + struct.unpack(order + "I", pending[8:12])[0]
                if len(pending) < length:
                    break
                with self.lock:
                    self.messages.append((who, pending[:length]))
                pending = pending[length:]
            try:
                sink.sendall(received)
            except OSError:
                break
        for end, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
            try:
                end.shutdown(how)
            except OSError:
                pass

    def drained(self):
        for thread in list(self.threads):
            thread.join()
        return self.messages


def operation(message):
    """The operation's name in a Request, found by walking its header."""
    version, order = message[5], "<" if message[6] & 1 else ">"

    def ulong(at):
        at = (at + 3) & ~3
        return struct.unpack_from(order + "I", message, at)[0], at + 4

    def skip_contexts(at):
        count, at = ulong(at)
        for _ in range(count):
            _, at = ulong(at)
            length, at = ulong(at)
            at += length
        return at

    if version < 2:
        at = skip_contexts(12)
        _, at = ulong(at)
        at += 1 + (3 if version == 1 else 0)
        length, at = ulong(at)
        at += length
    else:
        at = 12 + 8 + 4  # request id, response flags and padding; addressing disposition and padding
        length, at = ulong(at)
        at += length
    length, at = ulong(at)
    return message[at : at + length - 1].decode("ascii")


def start(orb, *words):
    return subprocess.Popen([PEERS / orb / "peer", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def until_ready(process):
    reference = None
    for line in process.stdout:
        if line.startswith("ior "):
            reference = line.split()[1]
        if line.strip() == "ready":
            return reference
    raise SystemExit("a server did not start")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def conversation(orb, version, name, server_words, client_words, reference_option, extra=()):
    relay = Relay()
    port = free_port()
    relay.target = ("127.0.0.1", port)
    server = start(orb, *server_words, "--giop", version, "--endpoint", f"127.0.0.1:{port}",
                   "--publish", f"127.0.0.1:{relay.port}", *extra)
    reference = until_ready(server)
    client = start(orb, *client_words, "--giop", version, reference_option, reference, *extra)
    # The server goes first, so that it says CloseConnection to a client that is still there.
    for line in client.stdout:
        if line.startswith("done"):
            break
    server.stdin.close()
    server.stdout.read()
    client.stdin.close()
    client.stdout.read()
    ended = (server.wait(), client.wait())
    # omniORB refuses the fragments that omniORB sends in GIOP 1.1 when values in them need alignment; what was sent is kept.
    if ended != (0, 0) and (orb, version, name) != ("omniorb", "1.1", "points"):
        raise SystemExit(f"{orb} {version} {name} failed")
    keep(orb, version, name, relay.drained())
    return reference


def keep(orb, version, name, messages):
    for number, (who, message) in enumerate(messages):
        kind = KINDS[message[7]]
        order = "little-endian" if message[6] & 1 else "big-endian"
        more = ", more fragments follow" if message[6] & 2 else ""
        what = kind
        if kind == "Request":
            what += f" {operation(message)}"
        said = f"# {orb} {who}, GIOP 1.{message[5]}, {order}, {what}{more} ({name}, message {number})"
        label = what.lower().replace(" ", "-").lstrip("_")
        path = HERE / f"{orb}-{version}-{name}-{number:03}-{label}.hex"
        text = message.hex()
        lines = [text[i : i + 96] for i in range(0, len(text), 96)]
        path.write_text("\n".join([said, *lines]) + "\n")


def message_error(orb):
    """What the ORB answers to something that is no GIOP message at all, and to a version that does not exist."""
    port = free_port()
    server = start(orb, "witness", "--endpoint", f"127.0.0.1:{port}")
    until_ready(server)
    for name, said in (("magic", b"POIG\x01\x02\x00\x00\x00\x00\x00\x00"), ("version", b"GIOP\x01\x09\x00\x00\x00\x00\x00\x00")):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while received := connection.recv(4096):
                answer += received
        if len(answer) >= 12:
            keep(orb, "1.2", f"bad-{name}", [("server", answer[:12])])
    server.stdin.close()
    server.wait()


def capture(orb):
    for old in [*HERE.glob(f"{orb}-*.hex"), *HERE.glob(f"{orb}-*.ior")]:
        old.unlink()
    for version in ("1.0", "1.1", "1.2"):
        reference = conversation(orb, version, "calls", ["witness"], ["call", "--stay", "--block", "300"], "--witness")
        (HERE / f"{orb}-{version}.ior").write_text(reference + "\n")
        if version != "1.0":
            conversation(orb, version, "fragments", ["witness"], ["call", "--stay", "--only", "echo_block", "--block", "20000"], "--witness")
            words = ["--form", "any", "--scenario", "points", "--count", "1"]
            conversation(orb, version, "points", ["consumer", "--direct", *words], ["supplier", "--stay", *words], "--consumer")
        shapes = NARROW if version != "1.2" else f"{NARROW},{WIDE}"
        count = str(len(shapes.split(",")))
        for form in ("structured", "any"):
            words = ["--form", form, "--scenario", shapes, "--count", count]
            conversation(orb, version, form, ["consumer", "--direct", *words], ["supplier", "--stay", *words], "--consumer")
    conversation(orb, "1.2", "utf8", ["consumer", "--direct", "--form", "any", "--scenario", "unicode", "--count", "2", "--chars", "utf-8"],
                 ["supplier", "--stay", "--form", "any", "--scenario", "unicode", "--count", "2", "--chars", "utf-8"], "--consumer")
    message_error(orb)


for chosen in sys.argv[1:] or ["omniorb", "jacorb"]:
    capture(chosen)
