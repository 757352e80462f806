#!/bin/sh
# Checks that a release can be repeated: makes the release of the commit in two directories, the
# second time without anything from Go's build cache, and compares all bytes of all its files.
# VERSION and the other variables are those of scripts/release.sh.
#
#   VERSION=v0.1.0 scripts/reproduce.sh linux/amd64 linux/arm64
set -eu
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
git clone -q --no-local . "$work/one"
mkdir -p "$work/another/place"
git clone -q --no-local . "$work/another/place/two"

"$work/one/scripts/release.sh" "$@"
GOCACHE=$work/cache "$work/another/place/two/scripts/release.sh" "$@" >/dev/null

diff -r "$work/one/build/release" "$work/another/place/two/build/release"
cat "$work/one/build/release/SHA256SUMS"
echo "two builds of $(git -C "$work/one" rev-parse --short=12 HEAD) are equal: $*"
