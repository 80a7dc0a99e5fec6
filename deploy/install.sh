#!/usr/bin/env bash
# Installs Cairn below a folder: programs, libraries, headers, and what compilers, shells and `man` need to find them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)

usage() {
  cat <<'END_OF_USAGE'
usage: deploy/install.sh [--libdir DIR] [--built DIR] PREFIX

Builds Cairn, and installs it below the folder PREFIX, which it makes if needed. It changes nothing outside of PREFIX.

  bin/                      cairn, cairnd
  lib/                      libcairn.so, libcairn.a, libcairn_grpc.so (for daemons on other hosts), libcairn_reader.so
  lib/cairn/python/         the Python modules: put this folder into PYTHONPATH
  lib/pkgconfig/            pkg-config --cflags --libs cairn, cairn_reader
  lib/cmake/Cairn/          find_package(Cairn): Cairn::cairn, Cairn::cairn_static, Cairn::reader
  lib/cairn/slurm/          prolog, epilog, task_prolog, burst_buffer.lua; the SPANK plug-in, if Slurm's headers are here
  lib/systemd/              units for the daemon of all users, and for a user's own; lib/{sysusers,tmpfiles}.d/ for it
  include/                  cairn.h, cairn.hpp, cairn_reader.h
  share/cairn/              cairn.f90 (compile it with the application), make-certs.sh; all settings: cairnd.toml, slurm.conf
  share/doc/cairn/          the licence; examples with a CMakeLists.txt; batch scripts for Slurm
  share/man/, share/bash-completion/   made from the programs' help texts

  --libdir DIR  below PREFIX, instead of lib: lib64, lib/x86_64-linux-gnu
  --built DIR   take what Bazel has built from DIR, instead of building it now
Environment:
  DESTDIR  is put in front of PREFIX while files are copied: for makers of packages
You can move the installed folder: libraries and the files for pkg-config and CMake find each other from where they are.
Only systemd's units contain PREFIX.
END_OF_USAGE
}

libdir=lib
built=
prefix=
while [ $# -gt 0 ]; do
  case "$1" in
    --libdir | --built)
      [ -n "${2-}" ] || { echo "install.sh: $1 needs a folder" >&2; exit 2; }
      declare "${1#--}=$2"
      shift
      ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "install.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    *)
      [ -z "$prefix" ] || { echo "install.sh: more than one PREFIX" >&2; exit 2; }
      prefix=$1
      ;;
  esac
  shift
done
[ -n "$prefix" ] || { usage >&2; exit 2; }
case "/$libdir/" in
  //* | */../* | */./*) echo "install.sh: --libdir is below PREFIX" >&2; exit 2 ;;
esac
prefix=$(realpath -ms "$prefix")
to=${DESTDIR-}$prefix

source_tree=$(dirname "$here")
if [ -z "$built" ]; then
  cd "$source_tree"
  deploy/packages.sh
  # shellcheck source=deploy/bazel.sh
  . deploy/bazel.sh
  targets=(//daemon:cairnd //client/cli:cairn //client:libcairn.so //client:libcairn.a //client/grpc:libcairn_grpc.so
    //client/reader:libcairn_reader.so)
  [ ! -e /usr/include/slurm/spank.h ] || targets+=(//deploy/slurm/spank:cairn_spank.so)
  build_shown "${targets[@]}"
  built=$source_tree/bazel-bin
fi
version=$("$built/client/cli/cairn" --version)
version=${version#cairn }

put() {  # mode, folder below PREFIX, files
  install -d "$to/$2"
  install -m "$1" -t "$to/$2" "${@:3}"
}

# $1 with the words in @ filled in, as $2 below PREFIX.
fill_in() {
  local up
  up=$(realpath -m --relative-to="/p/${2%/*}" /p)
  install -d "$to/${2%/*}"
  sed -e "s|@VERSION@|$version|g" -e "s|@LIBDIR@|$libdir|g" -e "s|@UP@|$up|g" "$here/install/$1" >"$to/$2"
  chmod 644 "$to/$2"
}

put 755 bin "$built/client/cli/cairn" "$built/daemon/cairnd"
put 755 "$libdir" "$built/client/libcairn.so" "$built/client/grpc/libcairn_grpc.so" \
  "$built/client/reader/libcairn_reader.so"
put 644 "$libdir" "$built/client/libcairn.a"
put 644 include "$source_tree"/client/cairn.{h,hpp} "$source_tree/client/reader/cairn_reader.h"
put 644 share/cairn "$source_tree/client/cairn.f90" "$here/cairnd.toml"
put 755 share/cairn "$here/make-certs.sh"
put 644 share/doc/cairn "$source_tree/LICENSE"
put 644 share/doc/cairn/examples "$source_tree"/client/examples/{minimal.c,heat2d_mpi.c,options.h,particles.cpp} \
  "$source_tree"/client/examples/{wave1d.f90,heat.py,minimal.py,CMakeLists.txt}
put 644 "$libdir/cairn/python" "$source_tree"/client/python/cairn{,_reader,_reader_calls}.py
ln -sfn ../../libcairn.so "$to/$libdir/cairn/python/libcairn.so"
ln -sfn ../../libcairn_reader.so "$to/$libdir/cairn/python/libcairn_reader.so"

fill_in cairn.pc.in "$libdir/pkgconfig/cairn.pc"
fill_in cairn_reader.pc.in "$libdir/pkgconfig/cairn_reader.pc"
fill_in CairnConfig.cmake.in "$libdir/cmake/Cairn/CairnConfig.cmake"
fill_in CairnConfigVersion.cmake.in "$libdir/cmake/Cairn/CairnConfigVersion.cmake"

put 755 "$libdir/cairn/slurm" "$here"/slurm/{prolog,epilog,task_prolog}
put 644 "$libdir/cairn/slurm" "$here"/slurm/{common.sh,burst_buffer.lua}
# Prolog and epilog find the command from where they are.
ln -sfn "$(realpath -m --relative-to="/p/$libdir/cairn/slurm" /p/bin/cairn)" "$to/$libdir/cairn/slurm/cairn"
spank=$built/deploy/slurm/spank/cairn_spank.so
[ ! -e "$spank" ] || put 755 "$libdir/cairn/slurm" "$spank"
put 644 share/cairn "$here/slurm/slurm.conf"
put 644 share/doc/cairn/slurm "$here"/slurm/README.md "$here"/slurm/examples/*.sbatch

units=$to/$libdir/systemd
install -d "$units/user" "$units/system"
sed "s|=/usr/bin/|=$prefix/bin/|" "$here/systemd/cairnd-user.service" >"$units/user/cairnd-user.service"
sed "s|=/usr/bin/|=$prefix/bin/|" "$here/systemd/cairnd.service" >"$units/system/cairnd.service"
chmod 644 "$units"/*/cairnd*.service
put 644 "$libdir/systemd/system" "$here/systemd/cairnd.socket"
install -d "$to/lib/sysusers.d" "$to/lib/tmpfiles.d"
install -m 644 "$here/systemd/cairn.sysusers" "$to/lib/sysusers.d/cairn.conf"
install -m 644 "$here/systemd/cairn.tmpfiles" "$to/lib/tmpfiles.d/cairn.conf"

install -d "$to"/share/man/man{1,8} "$to/share/bash-completion/completions"
/usr/bin/python3 -B "$here/install/man_pages.py" "$built/client/cli/cairn" 1 "$to/share/man/man1"
/usr/bin/python3 -B "$here/install/man_pages.py" "$built/daemon/cairnd" 8 "$to/share/man/man8"
for program in client/cli/cairn daemon/cairnd; do
  /usr/bin/python3 -B "$here/install/completion.py" "$built/$program" \
    >"$to/share/bash-completion/completions/${program##*/}"
done
chmod 644 "$to"/share/man/man?/cairn* "$to"/share/bash-completion/completions/cairn*

echo "installed cairn $version in $to"
