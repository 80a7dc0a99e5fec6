#!/usr/bin/env bash
# What deploy/install.sh installs is all that an application needs: it is installed, moved, and the examples are built
# against it outside the tree, by pkg-config and by CMake, and run.
set -euo pipefail
. tests/support/with_daemon.sh

# As a package is made, and then moved: nothing but systemd's units may know where it was.
libdir=lib/$(gcc -print-multiarch)
DESTDIR=$work/stage deploy/install.sh --built "$root" --libdir "$libdir" /opt/cairn
at=$work/moved
mv "$work/stage/opt/cairn" "$at"
lib=$at/$libdir
grep -qx 'ExecStart=/opt/cairn/bin/cairnd' "$lib/systemd/system/cairnd.service" || fail "the unit names another daemon"
grep -qx 'ExecStart=/opt/cairn/bin/cairnd --single-user' "$lib/systemd/user/cairnd-user.service" ||
  fail "the user's unit does not start the user's daemon"
[ -f "$lib/systemd/system/cairnd.socket" ] && [ -f "$at/lib/tmpfiles.d/cairn.conf" ] && [ -f "$at/lib/sysusers.d/cairn.conf" ] ||
  fail "systemd's files are not all there"
! grep -rlI --exclude-dir=systemd -e /opt/cairn -e "$work" "$at" || fail "these files say where they were installed"
version=$("$at/bin/cairn" --version)
version=${version#cairn }
cd "$work"

# --- Libraries ---
export PKG_CONFIG_PATH=$lib/pkgconfig
same "$(pkg-config --modversion cairn cairn_reader | sort -u)" "$version" "version in cairn.pc"
shown=$(nm --defined-only --extern-only "$lib/libcairn.a" | awk 'NF == 3 {print $3}' | sort)
names=$(sed -n 's/^ *\(cairn_[a-z0-9_]*\);$/\1/p' "$root/client/libcairn.map" | sort)
same "$shown" "$names" "names that libcairn.a shows"

# --- Built by pkg-config ---
examples=$at/share/doc/cairn/examples
read -ra flags < <(pkg-config --cflags --libs cairn)
gcc -Wall -Wextra -Werror -o minimal "$examples/minimal.c" "${flags[@]}"
mpicc -D_GNU_SOURCE -o heat_by_pkg_config "$examples/heat2d_mpi.c" "${flags[@]}" -lm
g++ -std=c++20 -o particles "$examples/particles.cpp" "${flags[@]}"
gfortran -std=f2018 -o wave1d "$at/share/cairn/cairn.f90" "$examples/wave1d.f90" "${flags[@]}"
read -ra flags < <(pkg-config --cflags --libs cairn_reader)
printf '#include <cairn_reader.h>\nint main(void) { return cairn_reader_error() == 0; }\n' >reader.c
gcc -o reader reader.c "${flags[@]}"

# --- Built by CMake ---
quietly() { "$@" >log 2>&1 || { cat log; exit 1; }; }
quietly cmake -S "$examples" -B by_cmake -DCMAKE_PREFIX_PATH="$at" -DCMAKE_BUILD_TYPE=Release
quietly cmake --build by_cmake
# Does find_package take this version?
finds() {
  mkdir -p version
  printf 'cmake_minimum_required(VERSION 3.18)\nproject(v C)\nfind_package(Cairn %s REQUIRED)\n' "$1" \
    >version/CMakeLists.txt
  cmake -S version -B "version/$1" -DCMAKE_PREFIX_PATH="$at" >/dev/null 2>&1
}
finds "$version" || fail "CMake refuses version $version"
finds "${version%.*}" || fail "CMake refuses version ${version%.*}"
! finds 99.0 || fail "CMake takes version 99.0"

# --- Run ---
export LD_LIBRARY_PATH=$lib
mkdir prefix heat_prefix
export CAIRN_PREFIX=$work/prefix CAIRN_ADDRESS=unix:$work/run/cairnd.sock
answer=$(CAIRN_CONFIG='' "$at/bin/cairnd" --single-user --background --runtime-dir "$work/run" --cache "$work/cache" \
  --log-file "$work/cairnd.log")
daemon=${answer%% *}
same "$(./minimal)" "from step 0" "the first run"
same "$(./minimal)" "from step 100" "the second run"
same "$(env -u LD_LIBRARY_PATH by_cmake/minimal_static)" "from step 100" "the one that has libcairn inside"
"$at/bin/cairn" ls "$CAIRN_PREFIX" | grep -q ' 100 .*whole' || fail "cairn ls does not show step 100"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_mpi_yield_when_idle=1 CAIRN_PREFIX=$work/heat_prefix
heat() { mpirun --oversubscribe --bind-to none -n 2 "$@" --size 64 --every 10; }
heat by_cmake/heat2d_mpi --steps 20 --out once.raw >/dev/null
heat ./heat_by_pkg_config --steps 40 --out twice.raw >heat.log
grep -q '^resumed from step 20 ' heat.log || { cat heat.log; fail "the MPI example did not go on"; }
"$at/bin/cairn" wait "$CAIRN_PREFIX" "$("$at/bin/cairn" ls "$CAIRN_PREFIX" --json |
  python3 -c 'import json, sys; print(max(row["dataset"] for row in json.load(sys.stdin)["datasets"]))')" prefix
CAIRN_RUN=$CAIRN_PREFIX PYTHONPATH=$lib/cairn/python python3 -B - <<'END_OF_PROGRAM'
import os
import cairn
assert cairn.Session and max(dataset.step for dataset in cairn.open(os.environ["CAIRN_RUN"]).datasets) == 40
END_OF_PROGRAM

# --- Manual and completion ---
for page in "$at"/share/man/man?/*; do
  complaints=$(groff -man -ww -Tutf8 "$page" 2>&1 >/dev/null)
  same "$complaints" "" "what groff says of $page"
done
while read -r command; do
  [ -s "$at/share/man/man1/cairn-$command.1" ] || fail "no page of cairn $command"
done < <("$at/bin/cairn" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
grep -q 'bring what was captured' "$at/share/man/man8/cairnd.8" || fail "cairnd.8 does not speak of signals"
man_of_wait=$(cat "$at/share/man/man1/cairn-wait.1")
[[ $man_of_wait == *'\fB\-\-timeout\fR TEXT'* ]] || fail "cairn-wait.1 has no --timeout"

complete_line() {  # words: what bash offers for the last
  bash --norc -c '
    . "$1/share/bash-completion/completions/$2"
    COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
    "_$2"
    printf "%s " "${COMPREPLY[@]}"' bash "$at" "$@"
}
same "$(complete_line cairn stat)" "status " "completion of a command"
same "$(complete_line cairn status --w)" "--watch " "completion of an option"
same "$(complete_line cairn --json index drop-)" "drop-after " "completion of a command of a command"
same "$(complete_line cairn convert --layout '')" "A F " "completion of a value"
same "$(complete_line cairn wait run 3 lo)" "local " "completion of a level"
same "$(complete_line cairn inspect mini)" "minimal " "completion of a file"
same "$(complete_line cairnd --flush-superseded k)" "keep " "completion for cairnd"
same "$(complete_line cairnd --check-)" "--check-config " "completion for cairnd"
echo "PASSED"
