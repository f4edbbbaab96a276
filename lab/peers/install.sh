#!/bin/sh
# Installs what `campanile-bench` compares the service with, each at a pinned version, into target/peers. May be run again
# at any time: what is there is left alone. Root is never needed, and nothing is started.
#
# A peer that cannot be had is left out with the reason; the others are installed all the same, and the exit status is 0.
# What became of each stands in target/peers/<peer>/state: `ready VERSION`, or `missing REASON`.
set -u

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$here/../../target/peers"
out=$(cd "$here/../../target/peers" && pwd)

# The pinned versions. JacORB's stands in jacorb-notification/pom.xml.
jacorb=3.9
nats=v2.15.2
omnievents=1:2.6.2-6
cyclonedds=0.10.2-2
iceoryx=2.0.3+dfsg-1

say() {
    printf 'peers: %s\n' "$1"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# `peer NAME VERSION COMMAND`: runs the command, which says why on its last line when it fails, unless that version is there.
peer() {
    name=$1 version=$2 command=$3
    state=$out/$name/state
    mkdir -p "$out/$name"
    # Its settings, which lie beside it so that a run does not depend on where it is started.
    for file in "$here/$name"/*.conf "$here/$name"/*.cfg "$here/$name"/*.properties "$here/$name"/*.options "$here/$name/$name".xml; do
        if [ -e "$file" ]; then cp "$file" "$out/$name/"; fi
    done
    if [ "$(cat "$state" 2>/dev/null)" = "ready $version" ] && "${command}_stands"; then return; fi
    say "installing $name $version"
    if "$command" >"$log" 2>&1; then
        printf 'ready %s\n' "$version" >"$state"
    else
        reason=$(grep -v '^[[:space:]]*$' "$log" | tail -n 1)
        printf 'missing %s\n' "${reason:-without a reason}" >"$state"
        say "without $name: ${reason:-it gave no reason}"
        tail -n 20 "$log" | sed 's/^/peers:   /' >&2
    fi
}

need() {
    if ! command -v "$1" >/dev/null 2>&1; then
        echo "there is no $1"
        return 1
    fi
}

# `debian FOLDER PACKAGE=VERSION...`: the files of Debian packages, unpacked. They are not installed: the package of omniEvents
# starts a daemon at once and at every boot. apt checks what it fetches against the signed lists of the archive.
debian() {
    need apt-get && need dpkg-deb || return 1
    folder=$1
    shift
    rm -rf "$folder/packages" "$folder/root"
    mkdir -p "$folder/packages" "$folder/root"
    if ! (cd "$folder/packages" && apt-get download -q "$@"); then
        # The package lists of a fresh machine are empty or old; fetching them takes root.
        if [ "$(id -u)" = 0 ]; then apt-get update -qq; fi
        if ! (cd "$folder/packages" && apt-get download -q "$@"); then
            echo "this distribution's archive has not got $* (or is out of reach)"
            return 1
        fi
    fi
    for package in "$folder"/packages/*.deb; do
        dpkg-deb -x "$package" "$folder/root" || return 1
    done
    rm -rf "$folder/packages"
}

jacorb_notification() {
    need java && need mvn || return 1
    rm -rf "$out/jacorb-notification/lib"
    if ! mvn -q -B -Dstyle.color=never -f "$here/jacorb-notification/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$out/jacorb-notification/lib"; then
        echo "Maven could not fetch org.jacorb:jacorb-services $jacorb"
        return 1
    fi
}
jacorb_notification_stands() { [ -e "$out/jacorb-notification/lib/jacorb-services-$jacorb.jar" ]; }

omnievents() {
    if ! [ -e /usr/lib/x86_64-linux-gnu/libomniORB4.so.2 ] && ! ldconfig -p 2>/dev/null | grep -q libomniORB4.so.2; then
        echo "there is no libomniORB4.so.2: interop/install.sh brings it"
        return 1
    fi
    debian "$out/omnievents" "omnievents=$omnievents" "libomnievents2=$omnievents"
}
omnievents_stands() { [ -x "$out/omnievents/root/usr/sbin/omniEvents" ]; }

nats() {
    need go || return 1
    # Go's caches are its own here, and go when the program is built: 300 MB for a program of 20 MB.
    go=$out/nats/go
    if ! GOPATH=$go GOMODCACHE=$go/mod GOCACHE=$go/cache GOBIN=$out/nats GOFLAGS='-modcacherw -trimpath' \
        go install "github.com/nats-io/nats-server/v2@$nats"; then
        rm -rf "$go"
        echo "Go could not fetch or build nats-server $nats"
        return 1
    fi
    rm -rf "$go"
}
nats_stands() { [ -x "$out/nats/nats-server" ]; }

cyclonedds() {
    need cc && need make || return 1
    debian "$out/cyclonedds" "cyclonedds-dev=$cyclonedds" "cyclonedds-tools=$cyclonedds" "libddsc0debian=$cyclonedds" \
        "libcycloneddsidl0=$cyclonedds" "libiceoryx-binding-c-dev=$iceoryx" "libiceoryx-binding-c2=$iceoryx" \
        "libiceoryx-posh2=$iceoryx" "libiceoryx-hoofs2=$iceoryx" "libiceoryx-platform2=$iceoryx" || return 1
    cyclonedds_program
}
cyclonedds_program() {
    if ! make -s --no-print-directory -C "$here/cyclonedds" OUT="$out/cyclonedds"; then
        echo "the program for Cyclone DDS could not be built"
        return 1
    fi
}
# Its program is brought up to date with its source.
cyclonedds_stands() { [ -e "$out/cyclonedds/root/usr/include/dds/dds.h" ] && cyclonedds_program >"$log" 2>&1; }

omniorb() {
    need c++ && need make && need omniidl || return 1
    if ! make -s --no-print-directory -C "$here/omniorb" OUT="$out/omniorb"; then
        echo "the programs for omniORB could not be built; interop/install.sh brings the packages that it takes"
        return 1
    fi
}
omniorb_stands() { omniorb >"$log" 2>&1; }

peer jacorb-notification "$jacorb" jacorb_notification
peer omnievents "$omnievents" omnievents
peer nats "$nats" nats
peer cyclonedds "$cyclonedds" cyclonedds
# That of interop/install.sh.
peer omniorb "$(dpkg-query -W -f '${Version}' libomniorb4-dev 2>/dev/null || echo unknown)" omniorb

for state in "$out"/*/state; do
    say "$(basename "$(dirname "$state")"): $(cat "$state")"
done
