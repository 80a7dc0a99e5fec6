#!/usr/bin/env bash
# Shows Cairn at work on this machine: a solver under MPI is killed, then the daemon and the whole cache with it, and
# each time the result is bit for bit the undisturbed one. Installs what is missing, builds, cleans up after itself.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: deploy/quickstart.sh [--nodes N] [--ranks N] [--size N] [--steps N] [--picture FILE] [--keep]

  --nodes N       run over N nodes, 2 to 16: each has a network, a host name and a daemon of its own on this machine.
                  The last node is taken away, with its daemon, ranks and cache; the run goes on without it [1]
  --ranks N       MPI processes [4]
  --size N        grid points in each dimension [1024]
  --steps N       steps to compute, at least 400 [1550]
  --picture FILE  where the picture goes, a PNG or SVG; python3-matplotlib makes it; "": no picture. Not with --nodes
                  [cairn-quickstart.png, here]
  --keep          leave the temporary folder where it is; not with --nodes
The exit code is 0 if every restart gave the undisturbed result.
END
}

nodes=1
ranks=4
size=1024
steps=1550
keep=0
picture=cairn-quickstart.png
while [ $# -gt 0 ]; do
  case "$1" in
    --nodes | --ranks | --size | --steps)
      [[ "${2-}" =~ ^[1-9][0-9]{0,7}$ ]] || { echo "quickstart.sh: $1 needs a number" >&2; exit 2; }
      declare "${1#--}=$2"
      shift
      ;;
    --picture)
      [[ $# -gt 1 && "$2" =~ ^$|[.](png|svg)$ ]] ||
        { echo "quickstart.sh: --picture needs a .png or .svg" >&2; exit 2; }
      picture=$2
      shift
      ;;
    --keep) keep=1 ;;
    --help | -h) usage; exit 0 ;;
    *) echo "quickstart.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
[ "$steps" -ge 400 ] || { echo "quickstart.sh: at least 400 steps, to have checkpoints to go back to" >&2; exit 2; }
[ "$nodes" -eq 1 ] || [ "$keep" -eq 0 ] || { echo "quickstart.sh: --keep is for one node" >&2; exit 2; }
[ "$nodes" -le 16 ] || { echo "quickstart.sh: at most 16 nodes" >&2; exit 2; }
[[ -z $picture || $picture = /* ]] || picture=$here/$picture
every=$((steps / 15 + 1))
[ $((steps % every)) -ne 0 ] || every=$((every + 1))  # none of the last step: each restart has something to compute

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n== %s\n' "$*"; }

say "Building"
deploy/packages.sh
# shellcheck source=deploy/bazel.sh
. deploy/bazel.sh
targets=(//daemon:cairnd //client/cli:cairn //client/examples:heat2d_mpi)
[ "$nodes" -eq 1 ] || targets+=(//tests/support/cluster:cairn-cluster)
build_shown "${targets[@]}"
if [ "$nodes" -gt 1 ]; then
  export nodes ranks size steps every
  exec bazel-bin/tests/support/cluster/cairn-cluster --nodes "$nodes" --no-daemons -- deploy/quickstart-nodes.sh
fi
daemon_program=$PWD/bazel-bin/daemon/cairnd
cairn=$PWD/bazel-bin/client/cli/cairn
solver=$PWD/bazel-bin/client/examples/heat2d_mpi

demo=$(mktemp -d /tmp/cairn-quickstart.XXXXXX)
ssd=$demo/ssd pfs=$demo/pfs
mkdir "$ssd" "$pfs"
export CAIRN_PREFIX=$pfs CAIRN_ADDRESS=unix:$demo/run/cairnd.sock
export CAIRN_ADMIN_ADDRESS=grpc+unix:$demo/run/cairnd-grpc.sock
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_mpi_yield_when_idle=1
daemon_pid=
solver_pid=
watcher_pid=
python=/usr/bin/python3  # Debian's, which has Debian's matplotlib
picture_program=$PWD/deploy/quickstart_picture.py

# Signals a process that is not a child of this shell, and waits until it is gone.
end_process() {  # signal, process id
  kill "-$1" "$2" 2>/dev/null || return 0
  for _ in $(seq 600); do
    kill -0 "$2" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$2"
}

clean_up() {
  [ -z "$solver_pid" ] || kill -TERM "$solver_pid" 2>/dev/null || true
  stop_watching
  [ -z "$daemon_pid" ] || end_process TERM "$daemon_pid"
  if [ $keep -eq 1 ]; then echo "Everything is in $demo"; else rm -rf "$demo"; fi
}
trap clean_up EXIT

fail() {
  echo "quickstart.sh: $*" >&2
  [ ! -s "$demo/run/cairnd.log" ] || { echo "the daemon's log:"; tail -n 20 "$demo/run/cairnd.log"; } >&2
  exit 1
}

start_daemon() {
  local answer
  answer=$(CAIRN_CONFIG='' "$daemon_program" --single-user --background --runtime-dir "$demo/run" --cache "$ssd") || fail "no daemon"
  daemon_pid=${answer%% *}
  echo "cairnd is process $daemon_pid, its socket is ${answer#* }"
}

# The picture. Whatever goes wrong with it, the rest goes on.
start_watching() {
  [ -n "$picture" ] || return 0
  if ! "$python" -c 'import matplotlib' 2>/dev/null; then
    echo "There will be no picture: $python has no matplotlib (Debian: python3-matplotlib)."
    picture=
    return 0
  fi
  "$python" "$picture_program" watch "$cairn" "$demo/ladder.log" &
  watcher_pid=$!
}

stop_watching() {
  [ -n "$watcher_pid" ] || return 0
  kill "$watcher_pid" 2>/dev/null || true
  wait "$watcher_pid" 2>/dev/null || true
  watcher_pid=
}

note() {  # what happens now, for the picture
  printf '%s %s\n' "${EPOCHREALTIME/,/.}" "$*" >>"$demo/events"
}

# The field of the newest checkpoint that was whole when the rank was killed, read from the node's cache.
keep_field_before_kill() {
  [ -n "$picture" ] || return 0
  local step dataset
  while read -r step dataset; do
    "$cairn" wait "$pfs" "$dataset" local >/dev/null 2>&1 || continue
    "$cairn" dump "$pfs" "$dataset" temperature --npy "$demo/before.npy" >/dev/null 2>&1 || continue
    echo "$step" >"$demo/before.step"
    return 0
  done < <(sed -n 's/^checkpoint of step \([0-9]*\) is dataset \([0-9]*\)$/\1 \2/p' "$demo/killed.log" | tac)
}

draw_picture() {
  [ -n "$picture" ] || return 0
  stop_watching
  if "$python" "$picture_program" draw "$demo" "$size" "$picture" 2>"$demo/picture.log"; then
    echo "The picture of it: $picture"
  else
    echo "The picture could not be drawn: $(tail -n 1 "$demo/picture.log")"
  fi
}

mpirun=(mpirun --oversubscribe --bind-to none)
work=("$solver" --steps "$steps" --size "$size")
solve() {  # number of ranks, name of the result, further options
  "${mpirun[@]}" -n "$1" "${work[@]}" --out "$demo/$2.raw" "${@:3}"
}

# One of the solver's processes below the process $1.
a_rank_of() {
  local child
  # shellcheck disable=SC2013  # one line of words
  for child in $(cat "/proc/$1/task/$1/children"); do
    if [ "$(cat "/proc/$child/comm")" = heat2d_mpi ]; then echo "$child"; return 0; fi
    a_rank_of "$child" && return 0
  done
  return 1
}

same() {
  cmp "$demo/undisturbed.raw" "$demo/$1.raw" || fail "the result differs"
  echo "The result is bit for bit the undisturbed one ($(stat -c %s "$demo/$1.raw") bytes compared)."
}

expect_resumed() {  # the solver's output, tier
  grep -qE "^resumed from step [1-9][0-9]* \(dataset [0-9]+, tier ($2)\)" "$1" || fail "expected the tier to be $2"
}

say "1. The undisturbed run: $ranks ranks, $size x $size points, $steps steps, no checkpoints"
solve "$ranks" undisturbed --every 0

say "2. A daemon with its default settings"
start_daemon
echo "Folders play the node's SSD and the parallel file system: $demo/{ssd,pfs}"
start_watching

say "3. The same run with a checkpoint every $every steps. In the middle, one rank gets SIGKILL"
"${mpirun[@]}" -n "$ranks" "${work[@]}" --out "$demo/killed.raw" --every "$every" >"$demo/killed.log" 2>&1 &
solver_pid=$!
until grep -qs "^checkpoint of step $((every * 3)) " "$demo/killed.log"; do
  kill -0 "$solver_pid" 2>/dev/null ||
    { cat "$demo/killed.log" >&2; fail "the solver ended before it could be killed"; }
  sleep 0.05
done
victim=$(a_rank_of "$solver_pid") || fail "no rank to kill"
kill -KILL "$victim"
note "a rank gets SIGKILL"
wait "$solver_pid" && fail "the solver was not killed"
solver_pid=
grep '^checkpoint' "$demo/killed.log"
echo "killed process $victim; no result was written"
[ ! -e "$demo/killed.raw" ] || fail "there is a result"
keep_field_before_kill

say "4. Started again with the same command: the run goes on from the newest checkpoint"
note "started again: goes on from the node"
solve "$ranks" restarted --every "$every" | tee "$demo/restarted.log"
expect_resumed "$demo/restarted.log" "image|cache"
echo "(The numbers of datasets jump: each launch takes a block of them, so that no number comes twice.)"
same restarted

say "5. The newest checkpoint reaches the parallel file system; then SIGKILL to the daemon, no cache left"
newest=$(sed -n 's/^checkpoint of step [0-9]* is dataset \([0-9]*\)$/\1/p' "$demo/restarted.log" | tail -n 1)
"$cairn" wait "$pfs" "$newest" prefix
"$cairn" ls
echo
echo "Everybody can read a checkpoint as it is, with ADIOS2's tools, too:"
"$cairn" vars "$pfs" "$newest"
note "the daemon gets SIGKILL, its cache is deleted"
end_process KILL "$daemon_pid"
rm -rf "$ssd"
mkdir "$ssd"
printf '\nkilled the daemon, process %s, and deleted its cache; another one is started:\n' "$daemon_pid"
start_daemon

say "6. Started again: the checkpoint comes from the parallel file system"
note "started again: goes on from the prefix"
solve "$ranks" refetched --every "$every" | tee "$demo/refetched.log"
expect_resumed "$demo/refetched.log" prefix
same refetched

others=$((ranks + 1))
say "7. Once more, on $others ranks instead of $ranks: each rank gets its part from what the $ranks had stored"
note "started again on $others ranks"
solve "$others" elastic --every "$every" | tee "$demo/elastic.log"
expect_resumed "$demo/elastic.log" "image|cache|prefix"
same elastic
draw_picture

say "Done. Nothing was lost. You saw deploy/quickstart.sh; the solver is client/examples/heat2d_mpi.c."
