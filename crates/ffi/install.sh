#!/bin/sh
# Installs the library with what C and C++ need of it: install.sh LIBRARY PREFIX, where LIBRARY is what Cargo has built
# (target/library/libcampanile_ffi.so) and PREFIX such as /usr/local. DESTDIR is put in front of all that is written.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$1
prefix=$2
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
major=${version%%.*}
to=${DESTDIR:-}$prefix

mkdir -p "$to/include" "$to/lib/pkgconfig" "$to/lib/cmake/campanile"
install -m 644 "$here/include/campanile.h" "$here"/../component/include/*.h* "$here"/cpp/include/*.hpp "$to/include"
# To another name first: a program that runs keeps the library that it has.
install -m 755 "$library" "$to/lib/libcampanile.so.$version.new"
mv "$to/lib/libcampanile.so.$version.new" "$to/lib/libcampanile.so.$version"
ln -sf "libcampanile.so.$version" "$to/lib/libcampanile.so.$major"
ln -sf "libcampanile.so.$major" "$to/lib/libcampanile.so"
for file in pkgconfig/campanile.pc cmake/campanile/campanile-config.cmake cmake/campanile/campanile-config-version.cmake; do
    sed "s,@VERSION@,$version,g; s,@MAJOR@,$major,g" "$here/cpp/packaging/$(basename "$file").in" > "$to/lib/$file"
done
