#!/usr/bin/env python3
"""Prints what others have written of what is in the program, with their licences: third-party.py CRATE [CARGO'S OPTIONS...]."""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What a crate has its licences in, and where those lie that crates bring of others.
NAMES = re.compile(r"(LICEN[CS]E|UNLICENSE|COPYING|COPYRIGHT|NOTICE)", re.IGNORECASE)
BESIDE = {"cyclonedds-src": ["src/cyclonedds"], "ring": ["third_party/fiat"]}


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def texts(folder):
    """What licences say that lie in a folder."""
    files = (file for file in sorted(folder.iterdir()) if file.is_file() and NAMES.match(file.name))
    return [file.read_text(encoding="utf-8", errors="replace").strip() for file in files]


def main():
    crate, *options = sys.argv[1:]
    lines = cargo("tree", "--locked", "-p", crate, *options, "-e", "normal,no-proc-macro", "--prefix", "none", "-f", "{p}")
    used = {tuple(line.split()[:2]) for line in lines.splitlines() if "(/" not in line and line}
    # Its sources are built by what depends on them for building only.
    all_lines = cargo("tree", "--locked", "-p", crate, *options, "-e", "all", "--prefix", "none").splitlines()
    used |= {tuple(line.split()[:2]) for line in all_lines if line.startswith("cyclonedds-src ")}
    packages = json.loads(cargo("metadata", "--locked", "--format-version", "1"))["packages"]
    holders = {}
    print("Campanile contains these, whose licences follow.\n")
    for package in sorted(packages, key=lambda package: (package["name"], package["version"])):
        if (package["name"], "v" + package["version"]) not in used:
            continue
        origin = package["repository"] or f"https://crates.io/crates/{package['name']}"
        print(f"{package['name']} {package['version']}: {package['license']}; {origin}")
        if package["name"] == "cyclonedds-src":
            print("Eclipse Cyclone DDS, in cyclonedds-src: EPL-2.0 OR BSD-3-Clause; https://github.com/eclipse-cyclonedds/cyclonedds")
        folder = pathlib.Path(package["manifest_path"]).parent
        for place in [folder, *(folder / beside for beside in BESIDE.get(package["name"], []))]:
            for text in texts(place) if place.is_dir() else []:
                holders.setdefault(text, []).append(package["name"])
    uplot = ROOT / "crates/console/src/pages/uplot"
    print("uPlot: MIT; https://github.com/leeoniya/uPlot")
    for text in texts(uplot):
        holders.setdefault(text, []).append("uPlot")
    for text, names in holders.items():
        print(f"\n{'-' * 80}\n{', '.join(dict.fromkeys(names))}:\n\n{text}")


main()
