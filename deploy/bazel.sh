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
  local ahead started=$SECONDS
  [ ! -t 1 ] || printf '\r%s\033[K' "looking at what there is to build"
  ahead=$(sources_ahead "$@")
  run_bazel build --curses=no --color=no --show_progress_rate_limit=0.5 --ui_event_filters=-info "$@" 2>&1 >/dev/null |
    show_progress "$ahead" "$started"
}

# How many compilations of the targets are ahead, about: those that have no object yet. Of the folders that are compiled
# together (bazel/together.bzl) ten sources are one.
sources_ahead() {
  local targets sources together grouped objects
  targets=$(printf ' + %s' "$@")
  # If this fails, the build will say why.
  sources=$(run_bazel query --noimplicit_deps --nohost_deps "filter('[.]cc?\$', deps(${targets# + }))" 2>/dev/null) ||
    sources=
  together=$(run_bazel query "kind('^_part rule', //deploy/bazel:all)" 2>/dev/null |
    sed 's|.*:|^//|; y|.|/|; s|$|[:/]|') || together=
  grouped=0
  [ -z "$together" ] || grouped=$(grep -c -e "$together" <<<"$sources") || true
  objects=$(find bazel-bin/ -name '*.o' 2>/dev/null | wc -l) || objects=0
  sources=$(($(wc -w <<<"$sources") - grouped + grouped / 10))
  echo $((sources > objects ? sources - objects : 0))
}

# Bazel's progress, line by line, as build_shown says. Bazel learns how many steps there are as it goes: halfway it
# knows of half of them. So there are at least $1. Steps whose results it still has count as done. $2: when the build began.
show_progress() {
  local steps_min=$1 started=$2 line done_steps all_steps what share next_at=$((SECONDS + 5)) width=80 on_terminal=0
  local progress='^\[([0-9,]+) / ([0-9,]+)\] ?(.*)$'
  [ ! -t 1 ] || { on_terminal=1 width=$(columns); } 3>&1
  clear_line() { [ $on_terminal -eq 0 ] || printf '\r\033[K'; }
  while IFS= read -r line; do
    if [[ $line =~ $progress ]]; then
      done_steps=${BASH_REMATCH[1]//,/} all_steps=${BASH_REMATCH[2]//,/} what=${BASH_REMATCH[3]%%;*}
      [ "$all_steps" -gt 0 ] || continue
      [ "$all_steps" -ge "$steps_min" ] || all_steps=$steps_min
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

# How many columns the window of descriptor 3 has.
columns() {
  local size
  size=$(stty size <&3 2>/dev/null) || size=
  if [[ ${size#* } =~ ^[0-9]+$ && ${size#* } -gt 20 ]]; then echo "${size#* }"; else echo 80; fi
}

minutes() { printf '%d:%02d min' $(($1 / 60)) $(($1 % 60)); }
