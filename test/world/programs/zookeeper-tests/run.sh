# Each class of classes.list in a JVM of its own, since many of them set what is global; two at a time, each with 336 ports of its own from 11221 on, below those of internal/freeport.
one() {
	class=$1 result=$REPORTS/$1$TRY.xml
	[ ! -e "$result" ] || return 0 # of a run that was broken off
	rm -rf "reports/$class"
	agent=""
	[ "$ON" = zkd ] && agent="-javaagent:$PROGRAM/agent.jar"
	mkdir -p "work/$class" logs/"$class"
	# QuorumSSLTest makes keys of 4,096 bits for each of its 30 tests, for which the second compiler is worth its time. The limit is for it, too:
	# 20 of the tests wait half a minute for a server that must not come up.
	level=1
	[ "$class" = server.quorum.QuorumSSLTest ] && level=4
	# shellcheck disable=SC2086 # nothing, or one flag
	timeout "${CLASS_LIMIT:-1800}" java $agent -Xmx700m -XX:+UseSerialGC -XX:TieredStopAtLevel=$level \
		-Dbuild.test.dir="$PWD/work/$class" -Dzkd.logs="$PWD/logs/$class" -Dzkd.silent="$FROM/silent.list" -Dtest.data.dir="$PROGRAM/data" \
		-Dtest.junit.threads=64 -Dzookeeper.junit.threadid=$((SLOT + 1)) \
		-Dzookeeper.4lw.commands.whitelist='*' -Dzookeeper.admin.enableServer=false \
		-Dzookeeper.DigestAuthenticationProvider.superDigest='super:D/InIHSb7yEEbrWz8b9l71RjZJU=' \
		-Djunit.jupiter.extensions.autodetection.enabled=true \
		-Djunit.jupiter.execution.timeout.testable.method.default=120s -Djunit.jupiter.execution.timeout.lifecycle.method.default=120s \
		-cp "$PROGRAM/lib/*:$PROGRAM/agent.jar" org.junit.platform.console.ConsoleLauncher \
		--details=none --disable-banner --disable-ansi-colors --reports-dir "reports/$class" -c "org.apache.zookeeper.$class" >"logs/$class$TRY.txt" 2>&1
	rm -rf "work/$class"
	report="reports/$class/TEST-junit-jupiter.xml"
	if [ -s "$report" ]; then
		mv "$report" "$result"
	else
		echo "<testsuite><testcase classname=\"$class\" name=\"ended\"><error/></testcase></testsuite>" >"$result"
	fi
	echo "$class"
}

classes() {
	[ -z "$AGAIN" ] || { printf '%s\n' $AGAIN | sed 's/:.*//' | sort -u; return; }
	[ -z "$ONLY" ] || { printf '%s\n' $ONLY; return; }
	grep -v '^#' "$FROM/classes.list"
}

if [ $# -gt 0 ]; then
	one "$1"
elif [ "$NOTHING" = yes ]; then
	SLOT=0
	one test.CreateTest
else
	[ -n "$AGAIN" ] && WORKERS=1
	classes | xargs -n 1 -P "${WORKERS:-2}" --process-slot-var=SLOT sh "$FROM/run.sh"
fi
true
