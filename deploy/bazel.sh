# shellcheck shell=bash
# Sourced by the scripts that build: `run_bazel COMMAND ARGS…`. Works without a writable HOME.
run_bazel() {
  local startup=()
  if [ -z "${HOME:-}" ] || [ ! -w "${HOME:-/nonexistent}" ]; then
    startup=(--output_user_root="/var/tmp/cairn-bazel-$(id -u)")
    HOME=/var/tmp bazel "${startup[@]}" "$@"
  else
    bazel "$@"
  fi
}
