#!/bin/sh
# Installs what the tests with foreign ORBs need and builds their programs into target/interop. May be run again at any time:
# what is there is left alone, and when all is up to date it takes a fraction of a second.
#
# Wanted: a Debian 12 (or like it) with root for the packages; Maven reaches its repository for 7 MB of JacORB, 5 MB
# of its notification service and 2 MB of JNA, once.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=$here/../target/interop

say() {
    printf 'interop: %s\n' "$1"
}

# A file that only the package brings, so that nothing is asked of dpkg when all is there; and the package.
missing=
want() {
    [ -e "$1" ] || missing="$missing $2"
}
want /usr/bin/g++ g++
want /usr/bin/make make
want /usr/bin/cmake cmake
if ! python3 -c 'import ensurepip, venv' >/dev/null 2>&1; then missing="$missing python3-venv"; fi
want /usr/bin/pkg-config pkg-config
want /usr/bin/jq jq
want /usr/bin/curl curl
want /usr/bin/omniidl omniidl
want /usr/include/omniORB4/CORBA.h libomniorb4-dev
want /usr/include/COS/CosNotifyChannelAdmin.hh libcos4-dev
want /usr/share/idl/omniORB/COS/CosNotifyChannelAdmin.idl omniorb-idl
want /usr/include/fastdds/dds/domain/DomainParticipant.hpp libfastrtps-dev
want /usr/bin/chromium chromium
want /usr/bin/chromedriver chromium-driver
want /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf fonts-dejavu-core
if ! command -v javac >/dev/null 2>&1; then missing="$missing default-jdk-headless"; fi
if ! command -v mvn >/dev/null 2>&1; then missing="$missing maven"; fi

if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        say "these packages are missing, and installing them takes root:$missing" >&2
        say "run: sudo apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    say "installing$missing"
    install_missing() {
        # shellcheck disable=SC2086 # a list of packages
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >"$log" 2>&1
    }
    log=$(mktemp)
    # The package lists of a fresh machine are empty or old; they are fetched only if it does not work without.
    if ! install_missing && ! { apt-get update -qq >"$log" 2>&1 && install_missing; }; then
        cat "$log" >&2
        say "could not install:$missing (offline, or no such package in this distribution?)" >&2
        exit 1
    fi
    rm -f "$log"
fi

java_version=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
if [ "${java_version:-0}" -lt 17 ]; then
    say "javac 17 or newer is needed; there is ${java_version:-none}" >&2
    exit 1
fi

# Python's tests, in an environment of their own.
python_tools='pytest==8.4.2 mypy==1.18.2 pyright[nodejs]==1.1.414'
if ! [ "$(cat "$out/python/made" 2>/dev/null)" = "$python_tools" ]; then
    say "fetching $python_tools"
    rm -rf "$out/python"
    # shellcheck disable=SC2086 # a list of packages
    if ! { python3 -m venv "$out/python" && "$out/python/bin/python" -m pip install -q --disable-pip-version-check $python_tools; }; then
        say "could not install $python_tools; is the Python package index out of reach?" >&2
        exit 1
    fi
    echo "$python_tools" >"$out/python/made"
fi

mkdir -p "$out/omniorb" "$out/jacorb"
if ! [ -e "$out/jacorb/lib.made" ] || ! [ -e "$out/jacorb/notification.made" ]; then
    say "fetching JacORB 3.9 and its notification service through Maven"
fi
if ! make -s --no-print-directory -C "$here/jacorb" OUT="$out/jacorb"; then
    say "could not build the JacORB programs; when Maven says so above, its repository was out of reach" >&2
    exit 1
fi
# A program of a package that would start a service when it is installed.
unpack() {
    if [ -e "$out/$1" ]; then return; fi
    say "fetching $1 of Debian's $2"
    unpacked=$(mktemp -d)
    fetch() (cd "$unpacked" && apt-get download -qq "$1" >log 2>&1)
    if ! fetch "$2" && ! { apt-get update -qq >"$unpacked/log" 2>&1 && fetch "$2"; }; then
        cat "$unpacked/log" >&2
        say "could not fetch $2 (offline, or no such package in this distribution?)" >&2
        exit 1
    fi
    dpkg-deb -x "$unpacked/$2"_*.deb "$unpacked"
    mv "$unpacked/usr/bin/$1" "$out/$1"
    rm -rf "$unpacked"
}
# What looks at metrics and alert rules as Prometheus does, and what has the record of a standby.
unpack promtool prometheus
unpack etcd etcd-server
# The tools of Cyclone DDS, which look at what the service shows there.
dds=$out/dds
if ! [ -e "$dds/made" ]; then
    say "fetching the tools of Cyclone DDS through pip"
    if ! python3 -m venv "$dds" || ! "$dds/bin/python" -m pip install -q --disable-pip-version-check cyclonedds==11.0.1; then
        say "could not install them; when pip says so above, its index was out of reach" >&2
        exit 1
    fi
    touch "$dds/made"
fi
# A node of ROS 2, with Fast DDS: there are packages of it for some versions of Python only (3.11 among them), so its tests are left out where
# it cannot be had.
ros='ros-rclpy==9.1.2 ros-rmw-fastrtps-cpp==9.3.3 ros-std-msgs==5.5.1 ros-geometry-msgs==5.5.1 ros-sensor-msgs==5.5.1'
if ! [ "$(cat "$out/ros/made" 2>/dev/null)" = "$ros" ]; then
    say "fetching ROS 2 (Kilted) through pip"
    rm -rf "$out/ros"
    # shellcheck disable=SC2086 # a list of packages
    if python3 -m venv "$out/ros" && "$out/ros/bin/python" -m pip install -q --disable-pip-version-check $ros; then
        echo "$ros" >"$out/ros/made"
    else
        say "could not install it (see what pip says above): the tests with a node of ROS 2 are left out" >&2
    fi
fi
# What the programs in Java of crates/ffi are compiled and run with.
if ! [ -e "$out/jna/jna.jar" ]; then
    say "fetching JNA through Maven"
    if ! mvn -q -B -Dstyle.color=never -f "$here/../crates/ffi/java/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$(cd "$out" && pwd)/jna" -Dmdep.stripVersion=true; then
        say "could not fetch JNA: its repository was out of reach" >&2
        exit 1
    fi
fi
jobs=$(nproc 2>/dev/null || echo 1)
if ! make -s --no-print-directory -j "$jobs" -C "$here/omniorb" OUT="$out/omniorb"; then
    say "could not build the omniORB programs" >&2
    exit 1
fi
if ! make -s --no-print-directory -C "$here/fastdds" OUT="$out/fastdds"; then
    say "could not build the program of Fast DDS" >&2
    exit 1
fi
say "ready: target/interop/omniorb/peer, target/interop/jacorb/peer"
