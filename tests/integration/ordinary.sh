#!/bin/sh
# Runs a test as somebody whom modes hold back: root without a single capability, or whoever it is anyway.
[ "$(id -u)" = 0 ] || exec "$@"
exec setpriv --bounding-set=-all --inh-caps=-all -- "$@"
