# The version is that of the go.mod above, whose go.sum has the checksum.
# Before its tests, go-zookeeper waits for an answer to srvr with a date as Apache's servers had it before 3.7
# (02/11/2026); here it reads the form of 3.9 (2026-02-11). All else is as it is.
set -eu
cp -r --no-preserve=mode "$(cd "$SOURCE" && go list -m -f '{{.Dir}}' github.com/go-zookeeper/zk)" zk
cd zk
sed -i 's#\\d\\d/\\d\\d/\\d\\d\\d\\d#\\d\\d\\d\\d-\\d\\d-\\d\\d#; s#01/02/2006 15:04 MST#2006-01-02 15:04 MST#' flw.go
CGO_ENABLED=0 go test -c -o ../zk.test .
