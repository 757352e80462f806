#!/bin/sh
# Checks that a release can be repeated: builds the commit in two directories, the second time
# without anything from Go's build cache, and compares all bytes.
#
#   scripts/reproduce.sh linux/amd64 linux/arm64
set -eu
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
git clone -q --no-local . "$work/one"
mkdir -p "$work/another/place"
git clone -q --no-local . "$work/another/place/two"

"$work/one/scripts/release.sh" "$@" >/dev/null
GOCACHE=$work/cache "$work/another/place/two/scripts/release.sh" "$@" >/dev/null

cat "$work/one/build/release/SHA256SUMS"
for archive in "$work"/one/build/release/*; do
	cmp "$archive" "$work/another/place/two/build/release/$(basename "$archive")"
done
echo "two builds of $(git -C "$work/one" rev-parse --short=12 HEAD) are equal: $*"
