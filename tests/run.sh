#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test. `tests/run.sh --help` tells the rest.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

usage() {
  cat <<'END'
usage: tests/run.sh [--soak] [--fuzz SECONDS] [--asan | --tsan] [TARGET…]

Installs the Debian packages that are missing (deploy/packages.sh), builds everything with Bazel and runs all tests, or
those of the given Bazel targets. If no targets or sanitizers are given, clang then checks the locks of libraries and
programs (tests/structure/locks.py), and the build graph is held against the drawing of the layers and what sources
include (layers.py, includes.py), which counts as a test each, and random files are decoded for 40 seconds per format
(tests/fuzz), which counts as a test each. The last line is `N passed, N failed`; the exit code is 0 if nothing failed.

  --soak          the long form: many more random instants, operations and rounds, and ten minutes of random files
  --fuzz SECONDS  so long with random files, whatever else is given; 0: not at all
  --asan          with AddressSanitizer and UndefinedBehaviorSanitizer
  --tsan          with ThreadSanitizer
  --help          this text

Environment:
  CAIRN_SHARED     folder with the format specifications and their test vectors; if unset, ../shared if it is there
  CAIRN_TEST_SEED  seed of the randomized tests, as a failing one prints it
  CI               `true`: the test vectors must be there
END
}

soak=0
fuzz_seconds=
sanitizer=
targets=()
while [ $# -gt 0 ]; do
  argument=$1
  shift
  case "$argument" in
    --fuzz)
      if ! [[ ${1-} =~ ^[0-9]{1,6}$ ]]; then
        echo "run.sh: --fuzz wants a number of seconds" >&2
        exit 2
      fi
      fuzz_seconds=$1
      shift
      ;;
    --soak) soak=1 ;;
    --asan | --tsan)
      if [ -n "$sanitizer" ]; then
        echo "run.sh: --asan and --tsan cannot be combined" >&2
        exit 2
      fi
      sanitizer=${argument#--}
      ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "run.sh: unknown option $argument" >&2; usage >&2; exit 2 ;;
    *) targets+=("$argument") ;;
  esac
done
all=0
if [ ${#targets[@]} -eq 0 ] && [ -z "$sanitizer" ]; then all=1; fi
if [ -z "$fuzz_seconds" ]; then fuzz_seconds=$((all ? (soak ? 600 : 40) : 0)); fi
[ ${#targets[@]} -gt 0 ] || targets=(//...)

# What keeps the tests from running counts as one failure.
give_up() {
  echo "run.sh: $1" >&2
  echo "0 passed, 1 failed"
  exit 1
}

flags=(--keep_going)
shared=${CAIRN_SHARED-}
if [ -z "$shared" ] && [ -d ../shared ]; then shared=../shared; fi
if [ -n "$shared" ]; then
  [ -d "$shared" ] || give_up "CAIRN_SHARED names no folder: $shared"
  shared=$(cd "$shared" && pwd -P)
  flags+=(--test_env=CAIRN_SHARED="$shared")
elif [ "${CI-}" = true ]; then
  give_up "CI is true, but neither CAIRN_SHARED nor ../shared is there: the tests against the formats' vectors would not run"
fi
[ -z "${CI-}" ] || flags+=(--test_env=CI="$CI")
[ -z "${CAIRN_TEST_SEED-}" ] || flags+=(--test_env=CAIRN_TEST_SEED="$CAIRN_TEST_SEED")
if [ -n "$sanitizer" ]; then
  # Some tests start hundreds of programs, each of which takes a tenth of a second with a sanitizer.
  flags+=(--config="$sanitizer" --test_tag_filters="-no_$sanitizer" "--test_timeout=600,1200,3600,7200")
  suppressions=$PWD/tests/support
  case "$sanitizer" in
    asan)
      flags+=(
        --test_env=ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
        --test_env=LSAN_OPTIONS=suppressions="$suppressions/lsan.supp":print_suppressions=0
        --test_env=UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
      )
      ;;
    tsan)
      flags+=(--test_env=TSAN_OPTIONS=suppressions="$suppressions/tsan.supp":second_deadlock_stack=1:halt_on_error=0)
      # Kernels may randomize more bits of addresses than the run-time of GCC 12 can place. Not every container allows it.
      if setarch -R true 2>/dev/null; then flags+=(--run_under="setarch -R"); fi
      ;;
  esac
fi
[ $soak -eq 0 ] || flags+=(--test_env=CAIRN_SOAK=1 "--test_timeout=7200,7200,7200,7200" --cache_test_results=no)

deploy/packages.sh || give_up "packages are missing"
# shellcheck source=deploy/bazel.sh
. deploy/bazel.sh

# Sockets lie in the tests' folders, and a socket's path has at most 107 bytes: Bazel's own folders are too deep.
events=$(mktemp)
folders=$(mktemp -d /tmp/cairn-t.XXXXXX)
chmod 711 "$folders"  # some tests become another user
trap 'rm -rf "$events" "$folders"' EXIT
flags+=(--test_tmpdir="$folders")
run_bazel test "${flags[@]}" --build_event_json_file="$events" "${targets[@]}"
bazel_exit=$?

# Random files for decoders: the vectors that each begins with besides files of our own.
declare -A fuzzed=([ftiff]=ftiff [scr_records]=scr [bp5]=bp5 [operator]=bp5 [redundancy_record]="")

build_fuzz() {
  local log=$folders/fuzz.log wanted=() name
  for name in "${!fuzzed[@]}"; do wanted+=("//tests/fuzz:${name}_fuzz" "//tests/fuzz:${name}_corpus"); done
  # The linker has many warnings about the sanitizers.
  run_bazel build --config=fuzz "${wanted[@]}" >"$log" 2>&1 && return
  grep -v "Cannot export local symbol" "$log" >&2
  return 1
}

# What it fails on is kept.
run_fuzz() {
  local name=$1 vectors=${fuzzed[$1]} work=$folders/$1
  vectors=${vectors:+${shared:+$shared/vectors/$vectors}}
  mkdir "$work" "$work/corpus" "$work/found" || return
  "$fuzz_bin/${name}_corpus" "$work/corpus" ${vectors:+"$vectors"} || return
  timeout $((fuzz_seconds + 120)) "$fuzz_bin/${name}_fuzz" -max_total_time="$fuzz_seconds" -max_len=16384 -timeout=20 \
    -rss_limit_mb=2048 -malloc_limit_mb=128 -artifact_prefix="$work/found/" "$work/corpus" >"$work/log" 2>&1
  local status=$?
  if [ $status -eq 0 ]; then
    echo "${name}_fuzz: $(grep -a "^Done" "$work/log")"
    return 0
  fi
  tail -n 60 "$work/log" >&2
  local kept
  kept=$(mktemp -d /tmp/cairn-fuzz.XXXXXX) && cp -r "$work/found" "$work/log" "$kept/" && echo "run.sh: kept in $kept" >&2
  return $status
}

# Two at a time, each on a core of its own.
fuzz() {
  local name
  for name in "${!fuzzed[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
    { run_fuzz "$name"; echo $? >"$folders/$name.exit"; } &
  done
  wait
}

others=()
if [ $all -eq 1 ]; then
  tests/structure/locks.py "$(run_bazel info bazel-bin 2>/dev/null)"
  others+=("locks=$?")
  run_bazel query --output=xml '//proto/... + //storage/... + //daemon/... + //client/...' >"$folders/graph.xml"
  for judge in layers includes; do
    "tests/structure/$judge.py" <"$folders/graph.xml"
    others+=("$judge=$?")
  done
fi
if [ "$fuzz_seconds" -gt 0 ]; then
  fuzz_bin=$(run_bazel info --config=fuzz bazel-bin 2>/dev/null)/tests/fuzz
  if build_fuzz; then fuzz; fi
  for name in "${!fuzzed[@]}"; do
    others+=("//tests/fuzz:${name}_fuzz=$(cat "$folders/$name.exit" 2>/dev/null || echo 1)")
  done
fi
python3 tests/support/tally/tally.py "$events" "$bazel_exit" "${others[@]}"
