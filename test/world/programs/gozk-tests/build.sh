# run.sh compiles the tests, as they are those of this repository's client/gozk, and has another HOME.
set -eu
go build -C "$SOURCE" -o "$PWD/overlay" .
go env GOCACHE GOMODCACHE | { read -r cache && read -r modules && printf "export GOCACHE='%s' GOMODCACHE='%s'\n" "$cache" "$modules"; } >env
(cd "$SOURCE" && go list -m -f '{{.Dir}}' github.com/go-zookeeper/zk) >suite
