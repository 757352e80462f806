#!/bin/sh
# Builds the files of the image into a directory: deploy/docker/rootfs.sh DIR [PROGRAMS]. PROGRAMS
# is a directory that has the programs; otherwise they are built, and STAMP is what they say about
# their source.
set -eu
root=$1
cd "$(dirname "$0")/../.."

mkdir -p "$root/usr/bin" "$root/etc/ssl/certs" "$root/conf" "$root/data" "$root/tmp"
for program in zkd zkcli; do
	[ -z "${2:-}" ] || { cp "$2/$program" "$root/usr/bin"; continue; }
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$root/usr/bin/$program" \
		-ldflags "-s -w -X github.com/zkd-project/zkd/internal/buildinfo.stamp=${STAMP:-}" "./cmd/$program"
done
ln -s zkcli "$root/usr/bin/zkCli.sh" # docker exec NAME zkCli.sh, as in the image of ZooKeeper
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs"
echo 'zkd:x:65532:65532:zkd:/data:/sbin/nologin' >"$root/etc/passwd"
echo 'zkd:x:65532:' >"$root/etc/group"
chmod 1777 "$root/tmp"
