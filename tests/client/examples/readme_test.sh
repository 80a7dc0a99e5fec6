#!/usr/bin/env bash
# README.md keeps its word: its samples stand in client/examples, its command builds the one in C, and both do what it
# says, under a real daemon. It has at most 150 lines of at most 120 columns, tables aside, and each of its links leads
# somewhere.
set -euo pipefail
. tests/support/with_daemon.sh

[ "$(wc -l <README.md)" -le 150 ] || fail "README.md has more than 150 lines"
wide=$(LC_ALL=C.UTF-8 grep -nE '^[^|].{120}' README.md) && fail "README.md has lines of more than 120 columns: $wide"

# Each sample is a run of lines of the program.
sample() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" README.md | sed '1d;$d'; }
stands_in() {  # language, program
  local text program
  text=$(sample "$1") program=$(cat "$2")
  [ -n "$text" ] || fail "README.md has no sample in $1"
  [[ $'\n'$program$'\n' = *$'\n'"$text"$'\n'* ]] || fail "the sample in $1 is not in $2"
}
stands_in c client/examples/minimal.c
stands_in python client/examples/minimal.py

# Folders are not among this test's files: that a folder is there is seen by its README.md.
while read -r link; do
  [ -e "${link%%#*}" ] || [ "${link%/}" != "$link" ] || fail "README.md: nothing is at $link"
  [ "${link#*#}" = "$link" ] || grep -E '^##+ ' "${link%%#*}" | tr 'A-Z ' 'a-z-' | tr -d ",:;.\`()'" |
    grep -qE "^##+-${link#*#}\$" || fail "README.md: no heading is at $link"
done < <(grep -oE '\]\([^)]+\)' README.md | sed 's/^](//; s/)$//')

cd "$work"
mkdir prefix_c prefix_python
ln -s "$root" bazel-bin
ln -s "$root/client" client
build=$(grep '^gcc ' "$root/README.md") || fail "README.md does not say how minimal.c is built"
eval "$build" || fail "README.md's command does not build minimal.c"

answer=$(CAIRN_CONFIG='' "$root/daemon/cairnd" --single-user --background --runtime-dir "$work/run" --cache "$work/cache" \
  --log-file "$work/cairnd.log")
daemon=${answer%% *}
export CAIRN_ADDRESS=unix:$work/run/cairnd.sock
export CAIRN_PREFIX=$work/prefix_c
same "$(./minimal)" "from step 0" "the first run in C"
same "$(./minimal)" "from step 100" "the second run in C"
export CAIRN_PREFIX=$work/prefix_python CAIRN_LIB=bazel-bin/client/libcairn.so PYTHONPATH=client/python
python() { /usr/bin/python3 -B client/examples/minimal.py; }
same "$(python)" "from step 0" "the first run in Python"
same "$(python)" "from step 100" "the second run in Python"
