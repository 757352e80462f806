#!/bin/sh
# Makes a release in build/release, of the commit that is checked out:
#
#   zkd-V-OS-ARCH.tar.gz     the programs, completions for shells, manual pages, documentation, units for
#                            systemd, alert rules, a dashboard, scripts named as Apache's, sbom.cdx.json
#   zkd_*.deb, zkd-*.rpm     made of the archives by scripts/packages.sh
#   zkd-V-image.tar          the image for all Linux platforms, as an OCI archive
#   zkd-V-chart.tgz          the Helm chart
#   zkd-go-V.tar.gz          the Go client and the recipes as a module of their own
#   zkd-V.sbom.cdx.json      the modules that the programs were built from
#   zkd-V-notes.md           this version's section of CHANGELOG.md
#   zkd-V.provenance.json    of what and how all these were made: in-toto, SLSA 1.0
#   SHA256SUMS, SHA256SUMS.sig
#
#   VERSION=v0.1.0 KEY=$HOME/.ssh/release scripts/release.sh linux/amd64 linux/arm64
#
# Without VERSION the files have the commit's name; without KEY, a private key of OpenSSH, nothing
# is signed; UNCHECKED=yes makes the notes say that nobody has looked for known vulnerabilities.
# The same commit, version of Go and environment give the same bytes; scripts/reproduce.sh checks
# that. The image has the machine's certificates of authorities (the provenance has their digest).
# Needs GNU tar, and ssh-keygen to sign.
set -eu
cd "$(dirname "$0")/.."

refuse() { echo "release: $*" >&2; exit 2; }
VERSION=${VERSION:-}
if [ -n "$VERSION" ]; then
	echo "$VERSION" | grep -Eqx 'v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?' ||
		refuse "VERSION=$VERSION: want vMAJOR.MINOR.PATCH, such as v0.1.0 or v0.1.0-rc.1"
	[ -z "$(git status --porcelain)" ] || refuse "VERSION=$VERSION: the checkout differs from its commit: commit or stash first (git status)"
	tagged=$(git rev-parse -q --verify "refs/tags/$VERSION^{commit}" || true)
	[ -z "$tagged" ] || [ "$tagged" = "$(git rev-parse HEAD)" ] ||
		refuse "$VERSION is another commit: git checkout $VERSION repeats it, another VERSION names this one"
fi
[ -z "${KEY:-}" ] || [ -r "$KEY" ] || refuse "KEY=$KEY: no such file: ssh-keygen -t ed25519 -f FILE makes a key"
export VERSION
stamp=$(scripts/stamp.sh)
tag=${stamp%%,*}
commit=${stamp#*,} commit=${commit%,*}
at=${stamp##*,}
time=$(date -u -d "@$at" +%FT%TZ)
version=${tag:-$(git describe --tags --always --abbrev=12 --dirty)}
# The user's settings for go must not change the result.
unset GOEXPERIMENT
export GOFLAGS=-trimpath GOAMD64=v1 GOARM64=v8.0 CGO_ENABLED=0 LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH="$at"
export PACKAGER="${PACKAGER:-nobody <nobody@zkd.invalid>}"
umask 022

out=build/release
rm -rf "$out"
mkdir -p "$out/.work"
out=$(cd "$out" && pwd)
work=$out/.work

# Not from what Go records, so that a checkout in which Git can't be asked gives the same.
ldflags="-s -w -buildid= -X github.com/zkd-project/zkd/internal/buildinfo.stamp=$stamp"
build() { # FILE PROGRAM
	go build -buildvcs=false -ldflags "$ldflags" -o "$1" "./cmd/$2"
}
sbom() { go -C tools run ./sbom -version "$version" -commit "$commit" -time "$time" "$@"; }
release() { command=$1; shift; "$work/tool" "$command" -version "$version" -commit "$commit" -time "$time" "$@"; }
archive() { # DIRECTORY FILE
	tar -C "$(dirname "$1")" --sort=name --mtime="@$at" --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$(basename "$1")" | gzip -9n >"$2"
}

go -C tools build -o "$work/tool" ./release
release notes "$PWD/CHANGELOG.md" >"$out/zkd-$version-notes.md"
[ "${UNCHECKED:-}" != yes ] || printf '\nThis release was not checked for known vulnerabilities.\n' >>"$out/zkd-$version-notes.md"

shared=$work/shared
mkdir -p "$shared/man" "$shared/completions" "$shared/bin"
for program in zkd zkcli zkbench; do
	build "$shared/bin/$program" "$program"
	"$shared/bin/$program" completion bash >"$shared/completions/$program.bash"
	"$shared/bin/$program" completion zsh >"$shared/completions/_$program"
	"$shared/bin/$program" completion fish >"$shared/completions/$program.fish"
	"$shared/bin/$program" completion powershell >"$shared/completions/$program.ps1"
done
go test -count=1 -run '^TestManual$' ./cmd/zkd ./cmd/zkcli/command ./cmd/zkbench \
	-args -man "$shared/man" -man-date "$(date -u -d "@$at" +%F)" >"$work/log" || { cat "$work/log" >&2; exit 1; }

all="" roots=""
for platform in "$@"; do
	name=zkd-$version-$(echo "$platform" | tr / -)
	dir=$work/$name
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
	all="$all$files"
	# shellcheck disable=SC2086 # the files are words
	sbom $files >"$dir/sbom.cdx.json"
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
	archive "$dir" "$out/$name.tar.gz"
	if [ "${platform%/*}" = linux ]; then
		deploy/docker/rootfs.sh "$work/root-${platform#*/}" "$dir"
		roots="$roots $platform=$work/root-${platform#*/}"
	fi
done
# shellcheck disable=SC2086 # the files are words
sbom $all >"$out/zkd-$version.sbom.cdx.json"

certificates=""
if [ -n "$roots" ]; then
	scripts/packages.sh
	# shellcheck disable=SC2086 # the roots are words
	release image -dockerfile deploy/docker/Dockerfile -o "$out/zkd-$version-image.tar" $roots
	certificates="-file /etc/ssl/certs/ca-certificates.crt"
fi

# Helm wants a semantic version: of a commit without one, 0.0.0 and its name.
number=0.0.0-g$version
case $version in v[0-9]*) number=${version#v} ;; esac
cp -r deploy/helm/zkd "$work/zkd"
sed -i -e "s/^version: .*/version: $number/" -e "s/^appVersion: .*/appVersion: \"$version\"/" "$work/zkd/Chart.yaml"
archive "$work/zkd" "$out/zkd-$version-chart.tgz"

client=$work/zkd-go-$version
release client -o "$client" "$PWD"
(cd "$client" && GOWORK=off go build ./...)
archive "$client" "$out/zkd-go-$version.tar.gz"

# shellcheck disable=SC2086 # the flag and its value are words
release provenance -parameter repeat="make release VERSION=$VERSION PLATFORMS='$*' PACKAGER='$PACKAGER' UNCHECKED=${UNCHECKED:-}" $certificates \
	-sbom "$out/zkd-$version.sbom.cdx.json" "$out"/* >"$work/provenance"
mv "$work/provenance" "$out/zkd-$version.provenance.json"
rm -r "$work"
cd "$out"
sha256sum -- * >"$out.sums"
mv "$out.sums" SHA256SUMS
ls -sh1
if [ -n "${KEY:-}" ]; then
	ssh-keygen -q -Y sign -n file -f "$KEY" SHA256SUMS
else
	echo 'This release is not signed: KEY=FILE names the private key, made by ssh-keygen -t ed25519.' >&2
fi
