# shellcheck shell=bash
# Sourced by tests that are scripts and start a daemon: a folder `work`, whose path is short, as sockets need it, and
# `daemon`, to be set to the daemon's process. Both are gone at the end.
# shellcheck disable=SC2034  # for those that go elsewhere
root=$PWD
work=$(mktemp -d /tmp/cairn-test.XXXXXX)
daemon=
clean_up() {
  if [ -n "$daemon" ]; then
    kill -TERM "$daemon" 2>/dev/null || true
    for _ in $(seq 600); do kill -0 "$daemon" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$daemon" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap clean_up EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
same() { [ "$1" = "$2" ] || fail "$3: '$1' and not '$2'"; }  # found, expected, of what
