#!/bin/sh
# The package in a fresh Debian 12 with systemd, as somebody would use it: installed, used, upgraded, removed, installed again, purged.
# try.sh [DEB]; without one the one that `make deb` made last. Wanted: root, debootstrap and systemd-container (apt-get install both), and
# control groups, for systemd has to run. That is why `make test` leaves it out. The first run takes a minute more, to fetch that Debian.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
place=$root/target/try-deb
base=$place/base
machine=$place/machine
# shellcheck disable=SC2012 # our own names
deb=${1:-$(ls -t "$root"/target/debian/campanile_*.deb 2>/dev/null | head -n 1)}

say() {
    printf 'try-deb: %s\n' "$1"
}
fail() {
    say "$1" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "this takes root"
for tool in debootstrap systemd-nspawn nsenter dpkg-deb; do
    command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install debootstrap systemd-container util-linux dpkg"
done
[ -f "$deb" ] || fail "there is no package; make deb makes one"

mkdir -p "$place"
if ! [ -e "$base.made" ]; then
    say "fetching a fresh Debian into target/try-deb/base"
    rm -rf "$base"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus bookworm "$base" http://deb.debian.org/debian \
        >"$place/debootstrap.log" || fail "that did not work; target/try-deb/debootstrap.log says why"
    touch "$base.made"
fi
rm -rf "$machine"
cp -a "$base" "$machine"
cp "$deb" "$machine/root/campanile.deb"

# The same program as if it were a newer one.
newer=$place/newer
rm -rf "$newer"
dpkg-deb -R "$deb" "$newer"
sed -i 's/^Version: .*/&+newer/' "$newer/DEBIAN/control"
dpkg-deb -b --root-owner-group -Znone "$newer" "$machine/root/newer.deb" >/dev/null
rm -rf "$newer"

say "starting it"
systemd-nspawn --quiet --register=no --keep-unit --private-network --boot --console=pipe --directory="$machine" \
    </dev/null >"$place/console.log" 2>&1 &
nspawn=$!
trap 'kill "$nspawn" 2>/dev/null || true; wait "$nspawn" 2>/dev/null || true' EXIT
# The first process of the machine.
leader=
within() {
    what=$1
    shift
    tries=600
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "waited for a minute: $what"
        kill -0 "$nspawn" 2>/dev/null || fail "the machine has ended; target/try-deb/console.log says how"
        sleep 0.1
    done
}
has_leader() {
    leader=$(cat "/proc/$nspawn/task/$nspawn/children" 2>/dev/null) && leader=${leader% } && [ -n "$leader" ]
}
in_machine() {
    # The environment of whoever logs in, not that of this shell.
    nsenter --target "$leader" --all --root --wd env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}
is_up() {
    in_machine systemctl is-system-running 2>/dev/null | grep -q -E 'running|degraded'
}
within "a first process" has_leader
within "systemd" is_up

in_machine sh -s <"$here/try-inside.sh" || fail "it failed; target/try-deb/machine is as it was then"
say "all is well"
