#!/bin/bash
# Every bench program, given as argument, says with --help what it can be called with, and refuses what it does not
# know before it measures anything.
failed=0
fail() {
  echo "$bench: $1"
  failed=1
}
for bench in "$@"; do
  usage=$(timeout 20 "$bench" --help) || fail "--help ended with $?"
  [[ $usage == "usage: ${bench##*/}"* ]] || fail "--help printed: $usage"
  said=$(timeout 20 "$bench" --no-such-option 1 2>&1 >/dev/null)
  [[ $? == 2 ]] || fail "--no-such-option was not refused with 2"
  [[ $said == *"unknown option --no-such-option"* ]] || fail "of --no-such-option it said: $said"
done
exit $failed
