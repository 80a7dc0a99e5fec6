#!/bin/sh
# Runs a test as an ordinary user: as whoever it is, or, if that is root, as user 1000 with root's files and no rights.
[ "$(id -u)" = 0 ] || exec "$@"
exec unshare --user --map-user=1000 --map-group=1000 -- "$@"
