#!/bin/sh
# What debuggers and backtraces need of a program, moved into PROGRAM.debug beside it, where they look for it. Nothing to do the second time,
# nor where there are no binutils.
set -eu
program=$1
command -v objcopy readelf > /dev/null || exit 0
readelf --sections --wide "$program" | grep --quiet ' \.debug_line ' || exit 0
objcopy --only-keep-debug "$program" "$program.debug"
objcopy --strip-all --add-gnu-debuglink="$program.debug" "$program" "$program.stripped"
mv "$program.stripped" "$program"
