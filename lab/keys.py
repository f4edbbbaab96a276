#!/usr/bin/env python3
"""Keys of reports: what a scenario's JSON object has had, it has (lab/keys/NAME.txt; tests/command compares them, too).

    lab/keys.py record PROGRAM NAME...    # runs scenarios quickly, and writes down the keys of their reports
    lab/keys.py check PROGRAM NAME...     # runs them, and says which keys are missing; exit 1 if any is
"""

import json
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "keys"

# How each is run, where `--quick` is not all.
OPTIONS = {
    "crash": "--rounds 2 --seed 1", "order": "--events 500", "saturate": "--seconds 0.3", "endurance": "--minutes 0.05",
    "hostile": "--quick --only pulls,flood --rounds 2 --seconds 0.5", "pipeline": "--duration 1", "alma": "--quick --seconds 0.2 --loads 1",
    "tempo-churn": "--quick --seconds 3", "performance": "--quick --only campanile,relay,writev", "soak": "--quick --seconds 5",
    "overflow": "--quick --awake 1", "floor": "--quick --rounds 1 --paced-seconds 0.3",
    **{name: "--quick --seconds 0.2" for name in "paths-load paths-latency paths-jitter paths-number overhead isolation".split()},
}

# Members that are called by what a machine has: threads, system calls, causes.
BY_MACHINE = re.compile(r"^(observed|other_threads_calls|strace|runs\[\]\.causes)\.")


def keys(value, path=""):
    """The paths of all keys: `a.b`, and `a[].b` of what is in a list."""
    if isinstance(value, dict):
        for name, member in value.items():
            below = f"{path}.{name}".lstrip(".")
            if not BY_MACHINE.match(below):
                yield below
                yield from keys(member, below)
    elif isinstance(value, list):
        for member in value:
            yield from keys(member, path + "[]")


def is_there(value, path):
    """Whether a key is there, or what would have it is null or an empty list. A key may have dots of its own."""
    if isinstance(value, list):
        return not value or any(is_there(member, path) for member in value)
    if not isinstance(value, dict):
        return value is None
    for end in [*(dot.start() for dot in re.finditer(r"\.", path)), len(path)]:
        key, rest = path[:end].rstrip("[]"), path[end + 1:]
        if key in value and (not rest or is_there(value[key], rest)):
            return True
    return False


def run(program, name):
    words = [program, name, *OPTIONS.get(name, "--quick").split(), "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    what, program, *names = sys.argv[1:]
    lost = []
    for name in names:
        report, file = run(program, name), FOLDER / f"{name}.txt"
        if what == "record":
            file.write_text("\n".join(sorted(set(keys(report)))) + "\n")
        else:
            lost.extend(f"{name}: {key}" for key in file.read_text().split() if not is_there(report, key))
    print("\n".join(lost) or f"{what}: {', '.join(names)}")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
