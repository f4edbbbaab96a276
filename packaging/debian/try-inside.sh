# What try.sh does in the fresh machine. It ends at the first thing that is not as it should be.
# shellcheck shell=sh
set -eu

say() {
    printf 'try-deb: %s\n' "$1"
}
fail() {
    say "$1" >&2
    journalctl --no-pager -n 30 -u campanile.service -u campanile.socket >&2 || true
    exit 1
}
within() {
    what=$1
    shift
    tries=600
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "waited for a minute: $what"
        sleep 0.1
    done
}
install() {
    # From this file only: there is no network.
    apt-get install -y -q "$1" >/root/apt.log 2>&1 || { cat /root/apt.log >&2; fail "apt-get install $1"; }
}
# All files, but for what belongs to the kernel and to this script, and what dpkg, apt and systemd write down for themselves.
everything() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /root -o -path /var/log -o -path /var/tmp \
        -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/systemd -o -path /var/lib/dpkg \) -prune -o -print | sort
    find /var/lib/dpkg/info /var/lib/systemd/deb-systemd-helper-* 2>/dev/null | sort
}
# The numbers of the last events that the default channel keeps, on one line.
kept() {
    campanile sub --first -n "$1" --wait 60 --field i 2>/dev/null | tr '\n' ' '
}

# The copies that adduser makes of what it changes.
users='^/etc/(passwd|group|shadow|gshadow|subuid|subgid)-$'

everything >/root/before

install /root/campanile.deb
systemctl is-active -q campanile.socket campanile.service || fail "it was not started"
systemctl is-enabled -q campanile.socket campanile.service || fail "it does not start with the system"
! systemctl is-active -q campanile-json.socket || fail "lines of JSON are open though not requested"
pid=$(systemctl show -P MainPID campanile)
[ "$(stat -c %U "/proc/$pid")" = campanile ] || fail "it runs as $(stat -c %U "/proc/$pid")"
[ "$(stat -c %U:%a /var/lib/campanile)" = campanile:700 ] || fail "/var/lib/campanile: $(stat -c %U:%a /var/lib/campanile)"
campanile serve --config /etc/campanile/campanile.toml --check >/dev/null || fail "the configuration is not one"
campanile check >/dev/null || fail "campanile check: $(campanile check)"
[ -z "$(journalctl -q --no-pager -p warning -u campanile.service)" ] || fail "it complains"
say "installed, and running as user campanile"

campanile channel set 0 HistoryEvents=100000 >/dev/null
campanile sub -n 3 --field i >/root/got 2>/root/sub.log &
sub=$!
within "a subscriber" grep -q subscribed /root/sub.log
campanile pub --count 3 'i={n}' >/dev/null 2>&1 || fail "an event was not taken"
wait "$sub" || fail "the subscriber failed"
[ "$(tr '\n' ' ' </root/got)" = "1 2 3 " ] || fail "published 1 2 3, got $(cat /root/got)"
say "published and received"

echo '# mine' >>/etc/campanile/campanile.toml
sed -i 's/^level = "info"/level = "debug"/' /etc/campanile/campanile.toml
systemctl reload campanile || fail "reload"
within "the log at debug" sh -c 'campanile ls >/dev/null; journalctl -q --no-pager -u campanile.service -o cat | grep -q -i debug'
say "reloaded its configuration"

echo 'CAMPANILE_OPTIONS=--ior-file /run/campanile/factory.ior' >>/etc/default/campanile
systemctl restart campanile
runuser -u nobody -- grep -q '^IOR:' /run/campanile/factory.ior || fail "others cannot read the factory's reference"
pid=$(systemctl show -P MainPID campanile)
say "written a reference that everybody can read"

# What is published meanwhile waits, and is neither refused nor lost.
campanile pub --count 1000 --rate 200 'i={n}' >/root/pub.log 2>&1 &
publisher=$!
install /root/newer.deb
[ "$(systemctl show -P MainPID campanile)" != "$pid" ] || fail "the old program still runs"
systemctl is-active -q campanile.socket campanile.service || fail "it was not started again"
wait "$publisher" || fail "a publisher was not served during the upgrade: $(cat /root/pub.log)"
[ "$(kept 1003)" = "1 2 3 $(seq 1000 | tr '\n' ' ')" ] || fail "events are missing after the upgrade"
grep -q '^# mine' /etc/campanile/campanile.toml || fail "the upgrade has taken the configuration away"
[ -s /run/campanile/factory.ior ] || fail "the upgrade has taken options away"
say "upgraded while a program published"

systemctl disable -q --now campanile.service campanile.socket
apt-get install -y -q --allow-downgrades /root/campanile.deb >/root/apt.log 2>&1 || fail "downgrade: $(cat /root/apt.log)"
! systemctl is-active -q campanile.service || fail "it was started though it is disabled"
! systemctl is-enabled -q campanile.socket || fail "an upgrade has enabled it"
systemctl enable -q --now campanile.socket
campanile ls >/dev/null || fail "the first client does not start it"
say "stays disabled, and starts with the first client"

pid=$(systemctl show -P MainPID campanile)
apt-get remove -y -q campanile >/root/apt.log 2>&1 || fail "remove: $(cat /root/apt.log)"
! [ -e "/proc/$pid" ] || fail "it still runs"
[ "$(journalctl -q --no-pager -u campanile.service -o cat | grep -c -i -E 'code=(dumped|killed)|Failed with')" = 0 ] ||
    fail "it did not end well"
# Port 2809, in the state LISTEN.
! grep -q -E ':0AF9 [0-9A-F]+:[0-9A-F]+ 0A ' /proc/net/tcp || fail "a program still listens on 2809"
# As of every service: what it was enabled by, and the mask that goes with the next installation.
enabled='^/var/lib/systemd/deb-systemd-helper|^/etc/systemd/system/(campanile|[a-z.-]*\.target\.wants(/campanile|$))'
meant='^/(etc/campanile|etc/default/campanile|var/lib/campanile)(/|$)|^/var/lib/dpkg/info/campanile\.'
everything | grep -vxF -f /root/before | grep -v -E "$meant|$enabled|$users" >/root/left || true
[ ! -s /root/left ] || fail "removed, but there is still: $(cat /root/left)"
[ -n "$(find /var/lib/campanile/history -type f -size +0)" ] || fail "the events are gone"
say "removed; the configuration and what it has stored are still there"

install /root/campanile.deb
[ "$(kept 1003)" = "1 2 3 $(seq 1000 | tr '\n' ' ')" ] || fail "after remove and install the stored events are not there"
say "installed again; the stored events are there"

apt-get purge -y -q campanile >/root/apt.log 2>&1 || fail "purge: $(cat /root/apt.log)"
everything | grep -vxF -f /root/before | grep -v -E "$users" >/root/left || true
[ ! -s /root/left ] || fail "purged, but there is still: $(cat /root/left)"
units=$(systemctl list-units --all --plain --no-legend 'campanile*')
[ -z "$units" ] || fail "systemd still has: $units"
say "purged; nothing is left but the user"
