#!/usr/bin/env bash
# The program in README.md is client/examples/minimal.c, which the build compiles.
set -eu
shown=$(sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d')
if [ "$shown" != "$(cat client/examples/minimal.c)" ]; then
  diff <(echo "$shown") client/examples/minimal.c
  exit 1
fi
