#!/bin/sh
# Builds the programs of `campanile-bench languages`: build.sh LIBRARIES FOLDER, where LIBRARIES is where cargo has put libcampanile_ffi.so and
# lib_native.so (target/library). What a language needs and is not there is said, and its program not built. With `components` behind these
# words, of `campanile-bench deployment`: a component in C++, one in Python, and an interpreter for that.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
libraries=$1
to=$2
jna=$root/target/interop/jna/jna.jar

rm -rf "$to"
mkdir -p "$to/classes" "$to/modules/campanile"
to=$(cd "$to" && pwd)
said() { echo "$1: $2" >> "$to/missing"; }
: > "$to/missing"

# A program of its own for each language, so that all are started alike.
starter() {
    printf '#!/bin/sh\nexec %s "$@"\n' "$2" > "$to/$1"
    chmod +x "$to/$1"
}

python=$root/target/interop/python/bin/python
# Itself, and no script that looks for it each time.
[ -x "$python" ] || python=$(python3 -c 'import sys; print(sys.executable)' 2> /dev/null || true)

# The package as the wheel has it.
modules() {
    [ -e "$libraries/lib_native.so" ] && [ -n "$python" ] || return 1
    cp "$root"/crates/python/python/campanile/*.py "$to/modules/campanile"
    cp "$libraries/lib_native.so" "$to/modules/campanile/_native.abi3.so"
}
no_module="there is no $libraries/lib_native.so: cargo rustc --profile library -p campanile-python --lib --crate-type cdylib"

if [ "${3:-}" = components ]; then
    if command -v c++ > /dev/null; then
        c++ -std=c++17 -O2 -Wall -Wextra -Werror -shared -fPIC -pthread -I "$root/crates/component/include" -I "$root/crates/ffi/include" \
            -I "$root/crates/ffi/cpp/include" "$here/part.cpp" -o "$to/libpart.so"
    else
        said cpp "there is no c++"
    fi
    if modules; then
        cp "$here/part.py" "$to"
        starter interpreter "env PYTHONPATH=$to/modules $python"
    else
        said python "$no_module"
    fi
    exit
fi

if [ -e "$libraries/libcampanile_ffi.so" ]; then
    "$root/crates/ffi/install.sh" "$libraries/libcampanile_ffi.so" "$to/prefix"
    flags=$(PKG_CONFIG_PATH=$to/prefix/lib/pkgconfig pkg-config --cflags --libs campanile)
    rpath=-Wl,-rpath,$to/prefix/lib
    # shellcheck disable=SC2086 # several words
    cc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -pthread "$here/speed.c" -o "$to/c" $flags "$rpath"
    # shellcheck disable=SC2086
    c++ -std=c++17 -O2 -Wall -Wextra -Werror -pthread "$here/speed.cpp" -o "$to/cpp" $flags "$rpath"
    if [ -e "$jna" ] && command -v javac > /dev/null; then
        find "$root/crates/ffi/java/src/main/java" -name '*.java' > "$to/sources"
        javac -proc:none -encoding UTF-8 --release 17 -cp "$jna" -d "$to/classes" @"$to/sources" "$here/Speed.java"
        starter java "java -Xshare:auto -cp $jna:$to/classes -Dcampanile.library=$to/prefix/lib/libcampanile.so Speed"
    else
        said java "it needs javac, and JNA as interop/install.sh fetches it"
    fi
else
    for language in c cpp java; do said $language "there is no $libraries/libcampanile_ffi.so: make library"; done
fi

if modules; then
    starter python "env PYTHONPATH=$to/modules $python $here/speed.py"
    for way in next async; do starter python-$way "env SPEED_TAKES=$way PYTHONPATH=$to/modules $python $here/speed.py"; done
else
    for program in python python-next python-async; do said $program "$no_module"; done
fi
