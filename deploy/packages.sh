#!/usr/bin/env bash
# Installs what Cairn is built from and is missing here, from Debian 12's own packages. Quiet and quick if nothing is.
# Needs root, or sudo, only if something is missing.
set -euo pipefail

packages=(
  # tools
  bazel-bootstrap bazel-rules-java bazel-rules-proto bazel-skylib bazel-platforms
  g++ gfortran git pkg-config ca-certificates
  # messages and services
  protobuf-compiler libprotobuf-dev protobuf-compiler-grpc libgrpc++-dev
  protobuf-c-compiler libprotobuf-c-dev
  # libraries; libboost1.81-dev replaces libboost-dev (1.74), the two cannot coexist
  libboost1.81-dev libssl-dev openssl libspdlog-dev libfmt-dev liburing-dev libisal-dev
  libtomlplusplus-dev libcli11-dev nlohmann-json3-dev zlib1g-dev
  libbz2-dev libblosc-dev libzfp-dev
  # tests, benchmarks, examples; clang and its run-time for the fuzz targets
  clang-14 libclang-rt-14-dev
  libgtest-dev libgmock-dev libbenchmark-dev libopenmpi-dev openmpi-bin python3 python3-numpy python3-matplotlib iproute2 procps
  cmake groff-base
  etcd-server munge libmunge-dev glusterfs-server glusterfs-client
  systemd systemd-container dbus libpam-systemd
  slurmctld slurmd slurm-client libslurm-dev lua5.3
)

missing=()
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
for package in "${packages[@]}"; do
  grep -qxF "$package installed" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "packages.sh: missing, and neither root nor sudo to install them: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

# These packages start a service, now and at each boot. The tests start their own; whoever wants one can enable it.
# glusterfs-server neither starts nor enables its own.
services=(etcd-server:etcd munge:munge slurmctld:slurmctld slurmd:slurmd)
policy=/usr/sbin/policy-rc.d
added_policy=
keep_services_off() {
  [ -e "$policy" ] && return
  added_policy=1
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod 755 "$policy"
}

echo "packages.sh: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"; [ -z "$added_policy" ] || "${as_root[@]}" rm -f "$policy"' EXIT
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1; }
new_services=()
for service in "${services[@]}"; do
  [[ " ${missing[*]} " != *" ${service%:*} "* ]] || new_services+=("${service#*:}")
done
[ ${#new_services[@]} -eq 0 ] || keep_services_off
if ! apt update || ! apt install -y --no-install-recommends "${missing[@]}"; then
  tail -n 40 "$log" >&2
  echo "packages.sh: apt-get failed" >&2
  exit 1
fi
for service in "${new_services[@]}"; do "${as_root[@]}" update-rc.d "$service" disable >/dev/null 2>&1; done
