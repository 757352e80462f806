export ON ZKD APACHE ZOOKEEPER_BIN_PATH="$FROM/shim"
tests="-test.skip=^TestFLWSrvr$" # of the form that build.sh has changed
[ "$NOTHING" = yes ] && tests="-test.run=^TestIntegration_CreateTTL$|^TestIntegration_Lock$"
# shellcheck disable=SC2086 # nothing, or one flag
"$PROGRAM/zk.test" -test.v $tests >log 2>&1
status=$?
sed -n 's/^ *--- \(PASS\|FAIL\|SKIP\): \([^ ]*\) .*/{"Action":"\L\1","Test":"\2"}/p' log >"$REPORTS/go.json"
grep -q '^panic: ' log && exit 2
[ $status -le 1 ] # 1: some tests failed, which the report says
