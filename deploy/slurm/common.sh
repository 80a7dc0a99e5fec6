# shellcheck shell=bash disable=SC2034,SC2154  # what those use, and give, that source it
# Sourced by prolog and epilog, which Slurm runs as root on each node of a job. Whatever goes wrong here is told, and is
# no reason to drain the node: a script that sources this ends with 0 unless it says otherwise.
cairn_exit=0
exec </dev/null >/dev/null 2>&1 # slurmd waits for whatever holds its pipe
trap 'exit $cairn_exit' EXIT
trap 'exit 0' HUP INT TERM
PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

JOBS=all START='systemctl start cairnd.service' START_WAIT=10 BEGIN_WAIT=5 END=background END_WAIT=60
MOUNTS='' NODE_FAULT=log LOG=syslog RUNTIME_DIR=/run/cairn

# To the log: what an operator looks for when a user asks. One line, whatever a user has put into it (a path); no wait
# for a system log that hangs.
tell() {
  local text=${*//[[:cntrl:]]/ }
  case $LOG in
    syslog) timeout --kill-after=1 2 logger -t "cairn-${0##*/}" -- "job ${SLURM_JOB_ID:-?}: $text" ;;
    *) printf '%s %s job %s: %s\n' "$(date +%FT%T)" "${0##*/}" "${SLURM_JOB_ID:-?}" "$text" >>"$LOG" ;;
  esac 2>/dev/null </dev/null
}

# The settings, line by line: nothing in there can end this script.
read_settings() {
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in '' | '#'*) continue ;; esac
    name=${line%%=*} value=${line#*=}
    case $name=$value in
      JOBS=all | JOBS=option | END=background | END=wait | NODE_FAULT=log | NODE_FAULT=drain) ;;
      START=* | MOUNTS=* | RUNTIME_DIR=/* | LOG=syslog | LOG=/*) ;;
      START_WAIT=*[!0-9]* | BEGIN_WAIT=*[!0-9]* | END_WAIT=*[!0-9]*) wrong=1 ;;
      START_WAIT=?* | BEGIN_WAIT=?* | END_WAIT=?*)
        value=$((10#$value)) # 08 is eight; 0 is no limit at all to `timeout`
        if [ "$value" -lt 1 ] || [ "$value" -gt 604800 ]; then wrong=1; fi
        ;;
      *) wrong=1 ;;
    esac
    if [ -n "${wrong-}" ]; then
      tell "$1: this line says nothing: $line"
      wrong=
      continue
    fi
    case $name in
      JOBS) JOBS=$value ;;
      START) START=$value ;;
      START_WAIT) START_WAIT=$value ;;
      BEGIN_WAIT) BEGIN_WAIT=$value ;;
      END) END=$value ;;
      END_WAIT) END_WAIT=$value ;;
      MOUNTS) MOUNTS=$value ;;
      NODE_FAULT) NODE_FAULT=$value ;;
      LOG) LOG=$value ;;
      RUNTIME_DIR) RUNTIME_DIR=$value ;;
    esac
  done <"$1"
}
settings=${CAIRN_SLURM_CONF:-/etc/cairn/slurm.conf}
[ ! -r "$settings" ] || read_settings "$settings"

# Is this a job that Cairn looks after?
is_ours() {
  case ${SLURM_JOB_ID-} in '' | *[!0-9]*) return 1 ;; esac
  case ${SLURM_JOB_UID-} in '' | *[!0-9]* | 0) return 1 ;; esac
  [ "$JOBS" = all ] || [ -n "${SPANK_CAIRN-}" ]
}

# The command is beside the scripts (deploy/install.sh), or in PATH.
cairn=$here/cairn
[ -x "$cairn" ] || cairn=cairn

# `bounded SECONDS COMMAND…`: what it said in $said; its exit code, 124 if it has not ended in time. What not even a kill
# ends (a process that waits for a file system) is left behind, and holds nothing of ours open.
bounded() {
  local limit=$1 from status
  shift
  exec {from}< <(timeout --kill-after=1 "$limit" "$@" </dev/null 2>&1; printf '\n%s' $?)
  said=
  IFS= read -r -d '' -t $((limit + 2)) said <&"$from"
  status=$?
  exec {from}<&-
  if [ $status -gt 128 ]; then return 124; fi
  status=${said##*$'\n'}
  said=${said%$'\n'*}
  said=${said%$'\n'}
  said=${said//$'\n'/; }
  said=${said:0:1000}
  return "$status"
}

# The group of the job's user, in $group; asked for once, if Slurm does not tell it: a directory of users may hang, too.
group=
find_group() {
  [ -z "$group" ] || return 0
  case ${SLURM_JOB_GID-} in
    '' | *[!0-9]* | 0) ;;
    *)
      group=$SLURM_JOB_GID
      return 0
      ;;
  esac
  bounded 2 id -g "$SLURM_JOB_UID" || return 1
  case $said in '' | *[!0-9]*) return 1 ;; esac
  group=$said
}

# `as_user SECONDS COMMAND…`: the same with the rights of the job's user, and nothing of this environment.
as_user() {
  local limit=$1
  shift
  if ! find_group; then
    said="the group of user $SLURM_JOB_UID could not be found out"
    return 1
  fi
  bounded "$limit" setpriv --reuid "$SLURM_JOB_UID" --regid "$group" --init-groups \
    --inh-caps=-all env -i PATH="$PATH" CAIRN_ADMIN_ADDRESS="$RUNTIME_DIR/cairnd-grpc.sock" "$@"
}

# Root's part when nobody answers. A daemon that runs is no failure: cairnd ends with 3 beside one.
start_daemon() {
  [ -n "$START" ] || return 1
  bounded "$START_WAIT" env -i PATH="$PATH" sh -c "exec $START"
  local code=$?
  [ $code -ne 3 ] || code=0
  return $code
}
