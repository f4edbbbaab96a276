#!/bin/sh
# Puts together what is installed beside the program: stage.sh PROGRAM FOLDER BIN [USER]. In FOLDER there are then
#   units/         packaging/systemd, for a program in BIN; with USER the service runs as that user, which the package makes, instead of one
#                  that systemd makes when it starts; components run as another one, always
#   man/           a page for each command
#   completions/   campanile (bash), _campanile (zsh), campanile.fish
set -eu

program=$1
folder=$2
bin=$3
user=${4:-}
here=$(cd "$(dirname "$0")" && pwd)

rm -rf "$folder"
mkdir -p "$folder/units" "$folder/completions"
for unit in "$here"/systemd/*; do
    as=$user
    [ "${unit##*/}" != campanile-node.service ] || as=
    sed "s#/usr/local/bin/#$bin/#${as:+; s#^DynamicUser=yes#User=$as#}" "$unit" >"$folder/units/${unit##*/}"
done
"$program" man "$folder/man"
"$program" completions bash >"$folder/completions/campanile"
"$program" completions zsh >"$folder/completions/_campanile"
"$program" completions fish >"$folder/completions/campanile.fish"
