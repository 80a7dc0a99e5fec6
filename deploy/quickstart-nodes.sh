#!/usr/bin/env bash
# The part of quickstart.sh that runs on a cluster of nodes (tests/support/cluster): `quickstart.sh --nodes N` starts it.
set -euo pipefail
: "${CAIRN_CLUSTER:?is started by quickstart.sh --nodes N}" "${nodes:?}" "${ranks:?}" "${size:?}" "${steps:?}" "${every:?}"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n== %s\n' "$*"; }
fail() {
  echo "quickstart.sh: $*" >&2
  exit 1
}

demo=$CAIRN_CLUSTER
solver=$PWD/bazel-bin/client/examples/heat2d_mpi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_mpi_yield_when_idle=1

# How mpirun starts something on a node: HOST COMMAND…
cat >"$demo/start-on" <<'END'
#!/bin/sh
host=$1
shift
exec node "${host#n}" sh -c "$*"
END
chmod +x "$demo/start-on"

start_daemons() {
  local k
  for k in "$@"; do
    [ -e "$demo/n$k/cairnd.toml" ] || : >"$demo/n$k/cairnd.toml"
    # Nothing is flushed: a checkpoint survives the loss of a node only through what the others keep. Leases and terms
    # are short, so that the others know within seconds what is lost.
    daemon "$k" --flush-every 0 --redundancy-scheme xor --peers-interface eth0 --peers-term 2s --lease-term 5s \
      --ingest-resume 2s >"$demo/n$k/started"
  done
}

# "n1:2,n2:1,n3:1" for the nodes $@.
slots() {
  local k i=0 list=
  for k in "$@"; do
    list=$list,n$k:$((ranks / $# + (i < ranks % $# ? 1 : 0)))
    i=$((i + 1))
  done
  echo "${list#,}" | sed 's/,n[0-9]*:0//g'
}

on_nodes() {  # slots, name of the result, further options
  mpirun --oversubscribe --bind-to none --mca plm_rsh_agent "$demo/start-on" --mca btl tcp,self \
    --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --host "$1" -n "$ranks" \
    "$solver" --steps "$steps" --size "$size" --out "$demo/$2.raw" "${@:3}"
}

# The newest dataset that is redundant; nothing: none is.
newest_redundant() {
  cairn ls --json | python3 -c '
import json, sys
rows = [row["dataset"] for row in json.load(sys.stdin)["datasets"] if row["level"] == "redundant"]
print(max(rows, default=""))'
}

expect_same() {
  cmp "$demo/undisturbed.raw" "$demo/$1.raw" || fail "the result differs"
  echo "The result is bit for bit the undisturbed one ($(stat -c %s "$demo/$1.raw") bytes compared)."
}

mapfile -t all < <(seq "$nodes")
mapfile -t left < <(seq $((nodes - 1)))

say "1. The undisturbed run: $ranks ranks on one node, no daemon, no checkpoints"
mpirun --oversubscribe --bind-to none -n "$ranks" "$solver" --steps "$steps" --size "$size" --every 0 \
  --out "$demo/undisturbed.raw"

say "2. A daemon on each of $nodes nodes; $CAIRN_PREFIX plays the parallel file system"
start_daemons "${all[@]}"

say "3. The same over all nodes, a checkpoint every $every steps; each daemon keeps its own ranks' bytes"
on_nodes "$(slots "${all[@]}")" killed --every "$every" >"$demo/killed.log" 2>&1 &
job=$!
until grep -qs "^checkpoint of step $((every * 4)) " "$demo/killed.log" && [ -n "$(newest_redundant)" ]; do
  kill -0 "$job" 2>/dev/null || { cat "$demo/killed.log" >&2; fail "the solver ended before it could be disturbed"; }
  sleep 0.05
done
cairn ls
cairn redundancy "$CAIRN_PREFIX" "$(newest_redundant)"

say "4. Node n$nodes is taken away, with its daemon, ranks and cache. No checkpoint was ever on the prefix"
cluster off "$nodes"
! compgen -G "$CAIRN_PREFIX/ckpt.*" >/dev/null || fail "a checkpoint was flushed"
rm -rf "$demo/n$nodes/cache"
wait "$job" && fail "the solver has not noticed"
grep '^checkpoint' "$demo/killed.log"
[ ! -e "$demo/killed.raw" ] || fail "there is a result"
for _ in $(seq 100); do
  cairn nodes | grep -q "^n$nodes .*linked" || break
  sleep 0.1
done
sleep 7  # from then on its ranks are waited for five seconds: they might come back

say "5. Started again on the $((nodes - 1)) nodes that are left: they rebuild what n$nodes had from what they keep"
on_nodes "$(slots "${left[@]}")" restarted --every "$every" | tee "$demo/restarted.log"
grep -qE "^resumed from step [1-9]" "$demo/restarted.log" || fail "it has not gone on from a checkpoint"
grep -q rebuilt "$demo/restarted.log" || fail "nothing was rebuilt"
expect_same restarted

say "6. The node comes back, empty. The run goes on over all nodes, from what the others have"
cluster on "$nodes"
mkdir -p "$demo/n$nodes/cache"
start_daemons "$nodes"
on_nodes "$(slots "${all[@]}")" again --every "$every" | tee "$demo/again.log"
grep -qE "^resumed from step [1-9]" "$demo/again.log" || fail "it has not gone on from a checkpoint"
expect_same again
cairn nodes

say "Done. Nothing was lost. You saw deploy/quickstart-nodes.sh; the solver is client/examples/heat2d_mpi.c."
