#!/bin/sh
# fetch.sh NAME prints the directory of a program of other people, and makes it first if there is none.
#
# programs/NAME says where the program comes from and what it must be:
#
#	pom.xml      its jars, which Maven puts into lib/
#	npm          the name and version of a package, whose archive npm fetches
#	SHA256SUMS   what all of these files are
#	build.sh     how it is made of them, in the directory, if it has to be made
#
# The directory stays in the user's cache, under a name that changes when one of these files does.
set -eu
program=$(cd "$(dirname "$0")" && pwd)/programs/$1
[ -e "$program/SHA256SUMS" ] || { echo "fetch: no program $1 in test/world/programs" >&2; exit 1; }

cache=${XDG_CACHE_HOME:-$HOME/.cache}/zkd-world
home=$cache/$1-$(cat "$program"/* | sha256sum | cut -c1-12)
if [ ! -e "$home" ]; then
	mkdir -p "$cache"
	tmp=$(mktemp -d "$cache/new-XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	cd "$tmp"
	if [ -e "$program/pom.xml" ]; then
		mvn -q -B -f "$program/pom.xml" dependency:copy-dependencies -DoutputDirectory="$tmp/lib" >&2
	fi
	if [ -e "$program/npm" ]; then
		npm pack --silent "$(cat "$program/npm")" >&2
	fi
	sha256sum --check --strict --quiet "$program/SHA256SUMS" >&2
	if [ -e "$program/build.sh" ]; then
		sh "$program/build.sh" >&2
	fi
	mv -T "$tmp" "$home" 2>/dev/null || [ -e "$home" ] # another may have been first
fi
echo "$home"
