"""Functions and files of this tree that one plain GIOP event runs through, counted by callgrind.

An unoptimised build is counted, in which every call is one, with line tables for the files:

    CARGO_PROFILE_DEV_DEBUG=line-tables-only cargo build -p campanile-cli
    lab/house.py --json --path target/debug/campanile

`campanile serve` runs under callgrind with one `campanile sub`, once with FEW and once with MANY events of `campanile pub`. The difference of
the two runs is what the additional events cost. A function counts if it is called for every second event at least, and if its file is below
crates/. Needs valgrind.
"""

import collections
import pathlib
import re
import signal
import subprocess
import tempfile
import time

FEW, MANY = 100, 500


def calls_in(profile):
    """The number of calls of each (file, function) in callgrind's output, written without compressed names."""
    calls, file = collections.Counter(), None
    callee = None
    for line in profile.splitlines():
        key, _, value = line.partition("=")
        if key in ("fl", "fi", "fe"):
            file = value
        elif key in ("cfi", "cfl"):
            callee = value
        elif key == "cfn":
            function = value
        elif key == "calls":
            calls[callee or file, function] += int(value.split()[0])
            callee = None
    return calls


def path_of(few, many, events, root):
    """The (file, function) pairs below `root`/crates that are called for every second of `events` at least, with calls an event."""
    difference = collections.Counter()
    for calls, sign in ((many, 1), (few, -1)):
        for (file, function), count in calls.items():
            file = file.removeprefix(f"{root}/")
            if file.startswith("crates/"):
                # Instances of a generic function are one function.
                difference[file, re.sub(r"(::)?<[^<>]*>|'\d+$", "", function)] += sign * count
    return {place: calls / events for place, calls in difference.items() if calls >= events / 2}


def profile(program, events, folder):
    """What callgrind says of a service that hands on so many events."""
    out = pathlib.Path(folder, f"callgrind.{events}")
    reference = pathlib.Path(folder, f"{events}.ior")
    grind = ["valgrind", "-q", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no", f"--callgrind-out-file={out}"]
    serve = [program, "serve", "--listen", "127.0.0.1:0", "--data", "none", "--ior-file", reference]
    service = subprocess.Popen([*grind, *serve], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in service.stdout:
        if "ready" in line:
            break
    server = ["--server", f"file:{reference}"]
    consumer = subprocess.Popen([program, "sub", "--quiet", "-n", str(events), *server], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    listed = [program, "ls", "--json", *server]
    while '"connected":true' not in subprocess.run(listed, check=True, capture_output=True, text=True).stdout:
        time.sleep(0.5)
    subprocess.run([program, "pub", "--type", "A/B", "-n", str(events), "--rate", "100", *server], check=True, stdout=subprocess.DEVNULL)
    consumer.wait()
    service.send_signal(signal.SIGTERM)
    service.wait()
    return out.read_text(errors="replace")


def measure(program, root):
    """`path_files`, `path_functions`, `path_calls` of one event."""
    with tempfile.TemporaryDirectory() as folder:
        few, many = (calls_in(profile(str(program), events, folder)) for events in (FEW, MANY))
    path = path_of(few, many, MANY - FEW, root)
    figures = {
        "path_files": len({file for file, _ in path}),
        "path_functions": len(path),
        "path_calls": round(sum(path.values())),
    }
    return figures, path
