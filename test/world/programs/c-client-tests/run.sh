# Each test is a process of its own, which starts and stops a server by ./zkServer.sh, and may abort.
export ON ZKD APACHE
cp "$FROM/zkServer.sh" .
tests=$(cat "$FROM/tests.list")
[ "$NOTHING" = yes ] && tests="Zookeeper_multi.testCreate"
[ -z "$AGAIN" ] || tests=$(printf '%s\n' $AGAIN | sed 's/.*://')
for test in $tests; do
	log=log.$test$TRY action=fail
	timeout 120 "$PROGRAM/zktest" "${test%.*}::${test#*.}" >"$log" 2>&1 && grep -aq ' : elapsed [0-9]* : OK$' "$log" && action=pass
	echo "{\"Action\":\"$action\",\"Test\":\"$test\"}" >"$REPORTS/$test$TRY.json"
done
./zkServer.sh stop
