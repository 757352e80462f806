#!/bin/sh
# Prints the source of a build, for internal/buildinfo: VERSION,COMMIT,SECONDS. VERSION is that of
# the environment, or the tag of the commit.
set -eu
cd "$(dirname "$0")/.."
echo "${VERSION:-$(git describe --tags --exact-match 2>/dev/null || true)},$(git rev-parse HEAD),$(git log -1 --format=%ct)"
