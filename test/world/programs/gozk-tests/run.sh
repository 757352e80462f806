export ON ZKD APACHE ZOOKEEPER_BIN_PATH="$FROM/../go-zookeeper-tests/shim"
. "$PROGRAM/env"
repository=$(cd "$FROM/../../../.." && pwd)
mkdir overlay && "$PROGRAM/overlay" "$repository" "$(cat "$PROGRAM/suite")" "$FROM" "$PWD/overlay" || exit 2
CGO_ENABLED=0 go test -C "$repository" -vet=off -overlay "$PWD/overlay/overlay.json" -c -o "$PWD/zk.test" ./client/gozk || exit 2
tests=
[ "$NOTHING" = yes ] && tests="-test.run=^TestIntegration_CreateTTL$|^TestIntegration_Lock$"
# shellcheck disable=SC2086 # nothing, or one flag
./zk.test -test.v $tests >log 2>&1
status=$?
sed -n 's/^ *--- \(PASS\|FAIL\|SKIP\): \([^ ]*\) .*/{"Action":"\L\1","Test":"\2"}/p' log >"$REPORTS/go.json"
grep -q '^panic: ' log && exit 2
[ $status -le 1 ] # 1: some tests failed, which the report says
