#!/bin/sh
# Builds the archives of a release into build/release: the programs for each platform, with
# the modules that they were built from (sbom.cdx.json), and SHA256SUMS of all.
#
#   scripts/release.sh linux/amd64 linux/arm64
#
# The same commit and the same version of Go give the same bytes on any machine. Needs GNU tar.
set -eu
cd "$(dirname "$0")/.."

out=build/release
version=$(git describe --tags --always --dirty)
at=$(git log -1 --format=%ct)
export CGO_ENABLED=0 LC_ALL=C TZ=UTC
umask 022

rm -rf "$out"
mkdir -p "$out"
for platform in "$@"; do
	name=zkd-$version-$(echo "$platform" | tr / -)
	dir=$out/$name
	mkdir "$dir"
	programs="zkd zkcli zkbench"
	suffix=""
	if [ "${platform%/*}" = windows ]; then # there is no server for it
		programs=zkcli suffix=.exe
	fi
	files=""
	for program in $programs; do
		GOOS=${platform%/*} GOARCH=${platform#*/} go build -trimpath -buildvcs=true -ldflags '-s -w -buildid=' \
			-o "$dir/$program$suffix" "./cmd/$program"
		files="$files $dir/$program$suffix"
	done
	# shellcheck disable=SC2086 # the files are words
	go run ./internal/sbom $files >"$dir/sbom.cdx.json"
	cp LICENSE README.md conf/zoo_sample.cfg "$dir"
	tar -C "$out" --sort=name --mtime="@$at" --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
	rm -r "$dir"
	echo "$name.tar.gz"
done
cd "$out"
sha256sum -- *.tar.gz >SHA256SUMS
