#!/bin/sh
# Builds a deb and an rpm from each archive for Linux in build/release, into the same
# directory: a step of scripts/release.sh. PACKAGER='Name <address>' is who answers for the
# packages; by default nobody does.
set -eu
cd "$(dirname "$0")/.."

release=$PWD/build/release
here=$PWD/deploy/package
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
trap 'exit 1' INT TERM HUP
export STAGE="$stage/files" ROOT="$stage/root"

# version V turns what git describe says into a version that both formats order as Git does:
# v1.2.3 to 1.2.3, v1.2.3-rc.1 to 1.2.3~rc.1, v1.2.3-4-gabc to 1.2.3+4.gabc. A commit without
# a release before it gets 0 and its time.
version() {
	echo "$1" | sed -E "
		s/-dirty\$/+dirty/
		/^v[0-9]/!{ s/^/0+$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S)./; q }
		s/^v//
		s/-([0-9]+)-g([0-9a-f]+)/+\1.g\2/
		s/-/~/g"
}

for archive in "$release"/zkd-*-linux-*.tar.gz; do
	name=$(basename "$archive" .tar.gz)
	ARCH=${name##*-}
	VERSION=$(version "$(echo "$name" | sed -E 's/^zkd-(.*)-linux-.*/\1/')")
	export ARCH VERSION
	rm -rf "$STAGE" "$ROOT"
	mkdir -p "$ROOT" "$STAGE/man1" "$STAGE/man8" "$STAGE/doc/examples" "$STAGE/bash" "$STAGE/zsh" "$STAGE/fish"
	tar -C "$ROOT" --strip-components=1 -xzf "$archive"
	# Without the lines about an installation by hand.
	for unit in zkd zkd-edge; do
		sed -e 's,/usr/local/bin/,/usr/bin/,' -e "1,/^\$/c# systemd unit for $unit\\n" "$ROOT/$unit.service" >"$STAGE/$unit.service"
	done
	gzip -9n "$ROOT"/man/*
	mv "$ROOT"/man/*.8.gz "$STAGE/man8"
	mv "$ROOT"/man/*.1.gz "$STAGE/man1"
	for program in zkd zkcli zkbench; do
		cp "$ROOT/completions/$program.bash" "$STAGE/bash/$program"
		cp "$ROOT/completions/_$program" "$STAGE/zsh"
		cp "$ROOT/completions/$program.fish" "$STAGE/fish"
	done
	cp "$ROOT/README.md" "$ROOT/sbom.cdx.json" "$STAGE/doc"
	cp -r "$ROOT/docs" "$STAGE/doc"
	cp "$ROOT"/zoo_*.cfg "$ROOT/alert-rules.yml" "$ROOT/dashboard.json" "$STAGE/doc/examples"
	{
		printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
		printf 'Upstream-Name: zkd\nSource: https://github.com/zkd-project/zkd\n\n'
		printf 'Files: *\nCopyright: the zkd authors\nLicense: Apache-2.0\n'
		sed -e 's/^$/./' -e 's/^/ /' "$ROOT/LICENSE"
	} >"$STAGE/doc/copyright"
	for format in deb rpm; do
		go -C "$here" tool nfpm package -f nfpm.yaml -p "$format" -t "$release/" >"$stage/log" || { cat "$stage/log" >&2; exit 1; }
	done
done
