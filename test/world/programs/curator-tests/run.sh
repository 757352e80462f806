# Each class of the jars with tests in a JVM of its own, two at a time.
one() {
	class=$1 result=$REPORTS/$1$TRY.xml
	[ ! -e "$result" ] || return 0 # of a run that was broken off
	rm -rf "reports/$class"
	mkdir -p "logs/$class"
	timeout 900 java -Xmx700m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dzkd="$ZKD" -Dzkd.logs="$PWD/logs/$class" \
		-Djunit.jupiter.execution.timeout.testable.method.default=300s \
		-cp "$([ "$ON" = zkd ] && echo "$PWD/classes:")$PROGRAM/lib/*" org.junit.platform.console.ConsoleLauncher \
		--details=none --disable-banner --disable-ansi-colors --reports-dir "reports/$class" -c "$class" >"logs/$class$TRY.txt" 2>&1
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
	for jar in "$PROGRAM"/lib/curator-*-tests.jar; do
		unzip -Z1 "$jar" | sed -n 's#/#.#g; s#^\(.*Test[A-Za-z]*\)\.class$#\1#p'
	done
}

if [ $# -gt 0 ]; then
	one "$1"
	exit 0
fi
# It comes before the class of this name in Curator's jar.
[ "$ON" = apache ] || javac -d classes -cp "$PROGRAM/lib/*" "$FROM/../../../compat/java/suite/TestingZooKeeperServer.java"
if [ "$NOTHING" = yes ]; then
	one org.apache.curator.framework.imps.TestTtlNodes
else
	[ -n "$AGAIN" ] && WORKERS=1
	classes | xargs -n 1 -P "${WORKERS:-2}" sh "$FROM/run.sh"
fi
true
