#!/bin/sh
# Does with build/release what its users do: verifies it, looks whether damage is noticed, and
# installs, runs and upgrades each kind of artefact that this machine can run. A release has no
# earlier version at hand, so upgrades are to the same one; try-packages.sh makes an earlier deb.
#
#   make release VERSION=v0.1.0 KEY=FILE && make verify SIGNERS=FILE
#
# SIGNERS is a file with the public key, as docs/install.md says; without it no signature is
# checked. Needs root, Debian, jq, Python, and a network once, for the tools.
set -eu
cd "$(dirname "$0")/.."

scripts=$PWD/scripts
signers=${SIGNERS:+$(realpath "$SIGNERS")}
work=$(mktemp -d)
pid=""
end() {
	[ -z "$pid" ] || kill "$pid"
	rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM HUP
say() { printf '\n== %s\n' "$*"; }
must() { "$@" || { echo "failed: $*" >&2; exit 1; }; }
mustnot() { if "$@" >/dev/null 2>&1; then echo "succeeded: $*" >&2; exit 1; fi; }
quietly() { "$@" >"$work/said" 2>&1 || { cat "$work/said" >&2; echo "failed: $*" >&2; exit 1; }; }
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
stop() {
	kill "$pid"
	must wait "$pid"
	pid=""
}

sums() { awk -v file="${1:-}" 'file == "" || file == $2' SHA256SUMS | sha256sum --quiet -c; }
signature() { ssh-keygen -q -Y verify -f "$signers" -I release@zkd -n file -s SHA256SUMS.sig <SHA256SUMS; }
provenance() { jq -r '.subject[] | "\(.digest.sha256)  \(.name)"' zkd-*.provenance.json | grep "${1:-}\$" | sha256sum --quiet -c; }

cd build/release
release=$PWD
say 'Verify: checksums, provenance, signature'
must sums
must provenance
if [ -n "$signers" ]; then
	must signature
else
	echo 'No signature is checked: SIGNERS=FILE names the file with the public key.' >&2
fi
ls -sh1

say 'Damage of any file is noticed'
cp -r . "$work/copy"
cd "$work/copy"
for file in $(awk '{ print $2 }' SHA256SUMS); do
	cp "$file" "$work/whole"
	cp SHA256SUMS "$work/sums"
	printf x >>"$file"
	mustnot sums "$file"
	case $file in *.provenance.json) ;; *) mustnot provenance "$file" ;; esac
	# Who changes a file can change the sums, but not sign them.
	sed -i "/  $file\$/d" SHA256SUMS
	sha256sum -- "$file" >>SHA256SUMS
	must sums "$file"
	[ -z "$signers" ] || mustnot signature
	mv "$work/sums" SHA256SUMS
	mv "$work/whole" "$file"
done
must sums
if [ -n "$signers" ]; then
	must signature
	rm SHA256SUMS.sig
	quietly ssh-keygen -q -t ed25519 -N '' -f "$work/other"
	quietly ssh-keygen -q -Y sign -n file -f "$work/other" SHA256SUMS
	mustnot signature
fi
cd "$release"
rm -r "$work/copy"

say 'An archive: unpack, run, upgrade'
commit=$(jq -r .predicate.buildDefinition.externalParameters.commit zkd-*.provenance.json)
port=$(free_port)
mkdir "$work/data"
serve() { # DIRECTORY: unpacks the archive there, and starts its server on the data
	mkdir "$work/$1"
	tar -C "$work/$1" --strip-components=1 -xzf zkd-*-"linux-$(go env GOARCH)".tar.gz
	"$work/$1/zkd" --port "$port" --data-dir "$work/data" "$work/$1/zoo_sample.cfg" 2>>"$work/log" &
	pid=$!
	must "$work/$1/zkd" status --wait 60s "127.0.0.1:$port"
}
serve one
must [ "$("$work/one/zkd" --version | grep -c "$(echo "$commit" | cut -c-12)")" = 1 ]
must "$work/one/zkcli" -server "127.0.0.1:$port" create /kept yes
stop
rm -r "$work/one"
serve two
must [ "$("$work/two/zkcli" -server "127.0.0.1:$port" get /kept)" = yes ]
stop

say 'The deb, and the rpm where there is rpm'
quietly "$scripts/try-packages.sh"
grep '^==' "$work/said"

say 'The image: to a registry, from there as files, and run'
GOBIN=$work go install github.com/google/go-containerregistry/cmd/crane@v0.22.1
mkdir "$work/layout" "$work/root"
tar -C "$work/layout" -xf zkd-*-image.tar
# crane pushes the outer index as it is; others, as skopeo copy --all, the image's own, which it names.
cp "$work/layout/blobs/$(jq -r '.manifests[0].digest' "$work/layout/index.json" | tr : /)" "$work/layout/index.json"
port=$(free_port)
"$work/crane" registry serve --address "127.0.0.1:$port" >"$work/registry" 2>&1 &
pid=$!
image=127.0.0.1:$port/zkd:v
tries=100
until "$work/crane" push --index "$work/layout" "$image" >"$work/said" 2>&1; do
	[ $((tries -= 1)) -gt 0 ] || { cat "$work/said" >&2; exit 1; }
	sleep 0.2
done
quietly "$work/crane" validate --remote "$image"
"$work/crane" config --platform "linux/$(go env GOARCH)" "$image" | jq -c .config
"$work/crane" export --platform "linux/$(go env GOARCH)" "$image" - | tar -C "$work/root" -xpf -
kill "$pid"
wait "$pid" || true
pid=""
quietly "$scripts/try-image.sh" "$work/root"
grep '^==' "$work/said"

say 'The Go client as a module: a program that imports it'
mkdir "$work/program" "$work/program/zkd-go"
tar -C "$work/program/zkd-go" --strip-components=1 -xzf zkd-go-*.tar.gz
cd "$work/program"
cat >main.go <<END
package main

import (
	_ "github.com/zkd-project/zkd-go/client/secure"
	_ "github.com/zkd-project/zkd-go/recipes/lock"
)

func main() {}
END
quietly go mod init example.com/program
quietly go mod edit -require github.com/zkd-project/zkd-go@v0.0.0 -replace github.com/zkd-project/zkd-go=./zkd-go
quietly go mod tidy
quietly go build .
must [ "$(go list -m all | wc -l)" -lt 10 ]
cd "$release"

say 'The chart: rendered, and checked'
cd ../..
quietly go -C deploy/kubernetes/check test -mod=mod -count=1 . -args -chart "$(ls "$release"/zkd-*-chart.tgz)"
cat "$work/said"

say 'All as it should be'
