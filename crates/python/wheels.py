#!/usr/bin/env python3
"""Makes the wheel of what is built already: wheels.py PROGRAM LIBRARY FOLDER [LICENCES...].

PROGRAM is the service with its tools, which `pip install` puts beside the interpreter as `campanile`; LIBRARY is this crate's cdylib. The
platform that the wheel names is measured: the newest symbols of glibc that either file needs. With the same files every run writes the
same bytes. pip itself (`pip install ./crates/python`) comes by `build_wheel`, which runs `make wheel`.
"""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# What every machine with glibc has (PEP 600), so that it need not be in the wheel.
EVERYWHERE = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.\d|libgcc_s\.so\.1|ld-linux.*")
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}


def read_elf(file, *options):
    command = ["readelf", "--wide", *options, file]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}).stdout


def glibc(file):
    """The version of glibc that a program or library needs, as (major, minor)."""
    foreign = [name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", read_elf(file, "--dynamic")) if not EVERYWHERE.fullmatch(name)]
    if foreign:
        sys.exit(f"{file} needs {', '.join(foreign)}, which other machines may not have: no wheel can have it")
    versions = read_elf(file, "--version-info")
    needed = [(int(major), int(minor)) for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", versions)]
    # Relative relocations in their short form, which older loaders refuse.
    return max(needed + [(2, 36)] * ("GLIBC_ABI_DT_RELR" in versions), default=(2, 17))


def platform(program, library):
    """manylinux, by the file that needs the newer glibc."""
    machines = {re.search(r"Machine: +(.*)", read_elf(file, "--file-header"))[1] for file in (program, library)}
    if not machines <= MACHINES.keys() or len(machines) > 1:
        sys.exit(f"{program} and {library} are for {' and '.join(sorted(machines))}: no wheel can have them")
    major, minor = max(glibc(program), glibc(library))
    return f"manylinux_{major}_{minor}_{MACHINES[machines.pop()]}"


def metadata(project, version):
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"Keywords: {','.join(project['keywords'])}",
        f"License: {project['license']['text']}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (HERE / project["readme"]).read_text()


def write(program, library, folder, licences):
    """Writes the wheel, and gives its path."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    tag = f"cp{project['requires-python'].removeprefix('>=').replace('.', '')}-abi3-{platform(program, library)}"
    name = f"{project['name']}-{version}"
    wheel = f"Wheel-Version: 1.0\nGenerator: campanile\nRoot-Is-Purelib: false\nTag: {tag}\n"
    content = {f"campanile/{file.name}": file.read_bytes() for file in (HERE / "python/campanile").iterdir() if file.is_file()}
    content["campanile/_native.abi3.so"] = pathlib.Path(library).read_bytes()
    content[f"{name}.data/scripts/campanile"] = pathlib.Path(program).read_bytes()
    content[f"{name}.dist-info/METADATA"] = metadata(project, version).encode()
    content[f"{name}.dist-info/WHEEL"] = wheel.encode()
    for file in map(pathlib.Path, [ROOT / "LICENSE-APACHE", ROOT / "LICENSE-MIT", *licences]):
        content[f"{name}.dist-info/licenses/{file.name}"] = file.read_bytes()
    record = f"{name}.dist-info/RECORD"
    files = sorted(content.items())
    lines = [f"{path},sha256={digest(octets)},{len(octets)}\n" for path, octets in files]
    files.append((record, "".join([*lines, f"{record},,\n"]).encode()))
    path = pathlib.Path(folder) / f"{name}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, octets in files:
            entry = zipfile.ZipInfo(inside)
            is_program = "/scripts/" in inside or inside.endswith(".so")
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, octets)
    return path


def digest(octets):
    return base64.urlsafe_b64encode(hashlib.sha256(octets).digest()).decode().rstrip("=")


def build_wheel(directory, config_settings=None, metadata_directory=None):
    """Builds and packs for pip (PEP 517)."""
    subprocess.run(["make", "--directory", ROOT, "wheel", f"WHEELS={directory}"], check=True, stdout=sys.stderr)
    return next(pathlib.Path(directory).glob("*.whl")).name


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    print(write(*sys.argv[1:4], sys.argv[4:]))
