#!/bin/sh
# fetch.sh NAME prints the directory of a program of other people, and makes it first if there is none.
#
# programs/NAME says where the program comes from and what it must be:
#
#	pom.xml           its jars, which Maven puts into lib/
#	requirements.txt  its Python packages with their hashes, which pip puts into python/
#	package.json      its npm packages, with package-lock.json, which npm puts into node_modules/
#	Cargo.toml        its Rust program with its crates, which cargo makes into program
#	go.mod            its Go program with its modules, which go makes into program
#	npm               the name and version of a package, whose archive npm fetches
#	SHA256SUMS        what the files of Maven and of npm's archive are
#	build.sh          how it is made of them, in the directory, if it has to be made:
#	                  SOURCE is programs/NAME
#
# The directory stays in the user's cache, under a name that changes when one of these files does.
# What declares and runs the program (program, run.sh, known, *.list, *.py) does not change it.
set -eu
SOURCE=$(cd "$(dirname "$0")" && pwd)/programs/$1
export SOURCE
[ -d "$SOURCE" ] || { echo "fetch: no program $1 in test/world/programs" >&2; exit 1; }

# What fetches must say what it has to get.
locked() { [ ! -e "$SOURCE/$1" ] || [ -e "$SOURCE/$2" ] || { echo "fetch: $1 has $1, and no $2" >&2; exit 1; }; }
locked pom.xml SHA256SUMS
locked npm SHA256SUMS
locked package.json package-lock.json
locked Cargo.toml Cargo.lock
locked go.mod go.sum

cache=${XDG_CACHE_HOME:-$HOME/.cache}/zkd-world
sum=$(cd "$SOURCE" && find . -type f ! -name program ! -name run.sh ! -name known ! -name '*.list' ! -name '*.py' | LC_ALL=C sort | xargs -r cat | sha256sum | cut -c1-12)
home=$cache/$1-$sum
if [ ! -e "$home" ]; then
	mkdir -p "$cache"
	tmp=$(mktemp -d "$cache/new-XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	cd "$tmp"
	if [ -e "$SOURCE/pom.xml" ]; then
		mvn -q -B -f "$SOURCE/pom.xml" dependency:copy-dependencies -DoutputDirectory="$tmp/lib" >&2
	fi
	if [ -e "$SOURCE/npm" ]; then
		npm pack --silent "$(cat "$SOURCE/npm")" >&2
	fi
	if [ -e "$SOURCE/SHA256SUMS" ]; then
		sha256sum --check --strict --quiet "$SOURCE/SHA256SUMS" >&2
	fi
	if [ -e "$SOURCE/requirements.txt" ]; then
		python3 -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target python -r "$SOURCE/requirements.txt" >&2
	fi
	if [ -e "$SOURCE/package.json" ]; then
		cp "$SOURCE/package.json" "$SOURCE/package-lock.json" .
		npm ci --silent --no-audit --no-fund --ignore-scripts >&2
	fi
	if [ -e "$SOURCE/Cargo.toml" ]; then
		cargo build --quiet --locked --manifest-path "$SOURCE/Cargo.toml" --target-dir target >&2
		mv target/debug/program .
		rm -r target
	fi
	if [ -e "$SOURCE/go.mod" ]; then
		go -C "$SOURCE" build -o "$tmp/program" . >&2
	fi
	if [ -e "$SOURCE/build.sh" ]; then
		sh "$SOURCE/build.sh" >&2
	fi
	mv -T "$tmp" "$home" 2>/dev/null || [ -e "$home" ] # another may have been first
fi
echo "$home"
