#!/bin/sh
# Packs what is built for machines without a toolchain: dist.sh PROGRAM LIBRARY TARGET FOLDER [LICENCES...], where LIBRARY is what C and C++
# load. FOLDER/campanile-VERSION-TARGET.tar.gz is of the same bytes whenever and by whom it is made; its tree may be used where it was
# unpacked, or be copied into /usr/local, for which the units are.
set -eu

program=$1
library=$2
target=$3
folder=$4
shift 4
root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")
name=campanile-$version-$target
tree=$folder/$name
stage=$folder/stage

rm -rf "$tree" "$stage"
"$root/packaging/stage.sh" "$program" "$stage" /usr/local/bin
install -D -m 755 "$program" "$tree/bin/campanile"
DESTDIR=$tree "$root/crates/ffi/install.sh" "$library" ""
install -D -m 644 -t "$tree/lib/systemd/system" "$stage"/units/*
install -D -m 644 -t "$tree/share/man/man1" "$stage"/man/*
install -D -m 644 -t "$tree/share/bash-completion/completions" "$stage/completions/campanile"
install -D -m 644 -t "$tree/share/zsh/site-functions" "$stage/completions/_campanile"
install -D -m 644 -t "$tree/share/fish/vendor_completions.d" "$stage/completions/campanile.fish"
install -D -m 644 -t "$tree/config" "$root"/config/*.toml
install -D -m 644 -t "$tree" "$root"/*.md "$root/LICENSE-APACHE" "$root/LICENSE-MIT" "$@"
# Where the pages link to each other.
(cd "$root" && find docs packaging/grafana packaging/prometheus crates -path docs/notes -prune -o -path 'crates/*' ! -name '*.md' -o -type f -print) |
    while read -r page; do install -D -m 644 "$root/$page" "$tree/$page"; done
rm -rf "$stage"

at=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rw,go+rX,go-w --mtime="@$at" --format=gnu -C "$folder" \
    --file "$tree.tar" "$name"
gzip --force --no-name "$tree.tar"
rm -rf "$tree"
echo "$tree.tar.gz"
