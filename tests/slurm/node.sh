#!/bin/sh
# node.sh SITE NAME MUNGE: what a node of the tests' Slurm has of its own besides network, host name and processes: /run, /etc
# with settings and users, and the cache. REQUIRES: root, in the node's namespaces.
set -eu
site=$1
own=$site/node/$2
mkdir -p "$own/over" "$own/cache" "$own/spool" "$own/log"
mount -t tmpfs -o mode=0755 node "$own/over"
mkdir "$own/over/etc" "$own/over/work"
cp /etc/hosts "$own/over/etc/"
cp -r "$site/etc/." "$own/over/etc/"
mount -t overlay -o "lowerdir=/etc,upperdir=$own/over/etc,workdir=$own/over/work" node /etc
rm -rf "$own/run"
mkdir -p "$own/run/munge"
mount --bind "$own/run" /run
mount --bind "$3" /run/munge
# The same path on each node, and each has its own.
for name in cache spool log; do mount --bind "$own/$name" "$site/$name"; done
