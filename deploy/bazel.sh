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

# `build_shown TARGETS…`: builds, and shows how far that is: one line that changes on a terminal, else a line now and
# then. What compilers and Bazel complain of is shown whole, on standard error. For scripts with `pipefail`.
build_shown() {
  run_bazel build --curses=no --color=no --show_progress_rate_limit=0.5 --ui_event_filters=-info "$@" 2>&1 >/dev/null |
    show_progress
}

# Bazel's progress, line by line, as build_shown says. Bazel learns how many steps there are as it goes, and steps whose
# results it still has count as done.
show_progress() {
  local line done_steps all_steps what share next_at=$((SECONDS + 5)) width=80 on_terminal=0
  local started=$SECONDS progress='^\[([0-9,]+) / ([0-9,]+)\] ?(.*)$'
  [ ! -t 1 ] || { on_terminal=1 width=$(tput cols 2>/dev/null || echo 80); }
  clear_line() { [ $on_terminal -eq 0 ] || printf '\r\033[K'; }
  while IFS= read -r line; do
    if [[ $line =~ $progress ]]; then
      done_steps=${BASH_REMATCH[1]//,/} all_steps=${BASH_REMATCH[2]//,/} what=${BASH_REMATCH[3]%%;*}
      [ "$all_steps" -gt 0 ] || continue
      [ "$done_steps" -le "$all_steps" ] || done_steps=$all_steps
      share=$((done_steps * 100 / all_steps))
      if [ $on_terminal -eq 1 ]; then
        line=$(printf '%3d %%  %d of %d steps, %s  %s' "$share" "$done_steps" "$all_steps" \
          "$(minutes $((SECONDS - started)))" "$what")
        printf '\r%s\033[K' "${line:0:width - 1}"
      elif [ "$SECONDS" -ge "$next_at" ]; then
        printf '%3d %%  %d of %d steps, %s\n' "$share" "$done_steps" "$all_steps" "$(minutes $((SECONDS - started)))"
        next_at=$((SECONDS + 20))
      fi
    elif [[ $line =~ ^(Loading|Analyzing|Starting\ local\ Bazel|\.\.\.\ still|DEBUG:|INFO:\ Build\ completed) || -z $line ]]; then
      [ $on_terminal -eq 0 ] || printf '\r%s\033[K' "looking at what there is to build"
    else
      clear_line
      printf '%s\n' "$line" >&2
    fi
  done
  clear_line
  [ $((SECONDS - started)) -lt 5 ] || echo "built in $(minutes $((SECONDS - started)))"
}

minutes() { printf '%d:%02d min' $(($1 / 60)) $(($1 % 60)); }
