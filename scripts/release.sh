#!/bin/sh
# Builds the archives of a release into build/release: the programs for each platform, with
# completions for shells, manual pages, the documentation, the unit for systemd, alert rules, a
# dashboard, scripts named as Apache's, the modules that they were built from (sbom.cdx.json),
# and SHA256SUMS of all.
#
#   scripts/release.sh linux/amd64 linux/arm64
#
# The same commit and the same version of Go give the same bytes on any machine;
# scripts/reproduce.sh checks that. Needs GNU tar.
set -eu
cd "$(dirname "$0")/.."

out=build/release
version=$(git describe --tags --always --abbrev=12 --dirty)
commit=$(git rev-parse HEAD)
at=$(git log -1 --format=%ct)
tag=$(git describe --tags --exact-match 2>/dev/null || true)
# The user's settings for go must not change the result.
unset GOEXPERIMENT
export GOFLAGS=-trimpath GOAMD64=v1 GOARM64=v8.0 CGO_ENABLED=0 LC_ALL=C TZ=UTC
umask 022

# Not from what Go records, so that a checkout in which Git can't be asked gives the same.
ldflags="-s -w -buildid= -X github.com/zkd-project/zkd/internal/buildinfo.stamp=$tag,$commit,$at"
build() { # FILE PROGRAM
	go build -buildvcs=false -ldflags "$ldflags" -o "$1" "./cmd/$2"
}

rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)

shared=$out/.shared
mkdir -p "$shared/man" "$shared/completions" "$shared/bin"
for program in zkd zkcli zkbench; do
	build "$shared/bin/$program" "$program"
	"$shared/bin/$program" completion bash >"$shared/completions/$program.bash"
	"$shared/bin/$program" completion zsh >"$shared/completions/_$program"
	"$shared/bin/$program" completion fish >"$shared/completions/$program.fish"
	"$shared/bin/$program" completion powershell >"$shared/completions/$program.ps1"
done
go test -count=1 -run '^TestManual$' ./cmd/zkd ./cmd/zkcli/command ./cmd/zkbench \
	-args -man "$shared/man" -man-date "$(date -u -d "@$at" +%F)" >"$out/.log" || { cat "$out/.log" >&2; exit 1; }

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
		(GOOS=${platform%/*} GOARCH=${platform#*/} && export GOOS GOARCH && build "$dir/$program$suffix" "$program")
		files="$files $dir/$program$suffix"
	done
	# shellcheck disable=SC2086 # the files are words
	go -C tools run ./sbom -version "${tag:-$version}" -commit "$commit" -time "$(date -u -d "@$at" +%FT%TZ)" \
		$files >"$dir/sbom.cdx.json"
	cp LICENSE README.md "$dir"
	mkdir "$dir/completions"
	for program in $programs; do
		cp "$shared/completions/$program".* "$shared/completions/_$program" "$dir/completions"
	done
	if [ "${platform%/*}" != windows ]; then
		cp conf/zoo_sample.cfg conf/zoo_ensemble.cfg conf/edge.cfg conf/zkd.service conf/zkd-edge.service scripts/zkServer.sh "$dir"
		cp deploy/prometheus/rules.yml "$dir/alert-rules.yml"
		cp deploy/grafana/zkd.json "$dir/dashboard.json"
		cp -r docs "$dir"
		ln -s zkcli "$dir/zkCli.sh"
		cp -r "$shared/man" "$dir"
	fi
	tar -C "$out" --sort=name --mtime="@$at" --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
	rm -r "$dir"
	echo "$name.tar.gz"
done
rm -r "$shared" "$out/.log"
cd "$out"
sha256sum -- *.tar.gz >SHA256SUMS
