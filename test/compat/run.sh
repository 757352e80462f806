#!/bin/sh
# Runs other people's clients and the comparison with Apache ZooKeeper, and
# prints a table of the suites.
#
#   test/compat/run.sh              zkd, for each change: the comparisons with 3.9, malformed
#                                   requests, and programs of each language
#   test/compat/run.sh -all         also the comparisons with 3.8, kazoo's suite, more of Curator,
#                                   moves and takeovers of Apache's data, and libraries in short
#   test/compat/run.sh -full        all of that, with more seeds and steps in the random comparisons, all
#                                   comparisons with 3.9 as well as with 3.8, kazoo's suite
#                                   on three servers as well as on one, the recipes on
#                                   Apache, comparisons of followers and random ones of
#                                   ensembles, and Patroni and OpenStack's libraries in
#                                   full, also on Apache
#   test/compat/run.sh -apps        the applications alone, as with -full: needs Node.js, npm,
#                                   make, and a network to get modules and packages from
#   test/compat/run.sh -apache      Apache itself as the target: the baseline
#   test/compat/run.sh -run TestC   some suites only (a pattern as for go test)
#
# What is missing is installed where that is allowed. Where it is not, suites
# that lack something fail if CI=true, and are skipped with a reason otherwise.
# A test that fails runs once more, alone: these are other people's programs in real time, and
# some lose a race of their own on a busy machine. If it passes then, the table says FLAKY.
# ZooKeeper 3.9 and the C client with TLS are fetched by test/world/fetch.sh. Where that is not
# possible, the suites with 39 in their names are skipped and reported as MISSING.
# ZOOKEEPER39=/path/to/apache-zookeeper-3.9.x-bin names another installation.
set -u
cd "$(dirname "$0")/../.."

# Only with -full.
deep='Kit(Python|Java)|Ensemble(Client|Kazoo|Random|Follower)|Recipes|SASLTokens39|TLSClients39|TakeoverCurator|KerberosTakeover|Ensemble(Follower|Random)39|(Moving|Takeover|Shadow)39'
# With -all, too: 3.9 is the reference, and 3.8 has other known differences. Where 3.9 can't be
# had, 3.8 takes its place.
older='Differential|DifferentialRandom|EnsembleDifferential|EnsembleReadOnly'
newer='DifferentialRandom39|EnsembleDifferential39|EnsembleReadOnly39'
long='Kazoo|EnsembleCurator|TLSCurator|EnsembleFaults|Kerberos(Clients|Edge)|Moving|MovingEnsemble|Takeover|TakeoverRanAgain|Taskflow|Tooz|Patroni'

target=zkd clickhouse="" full="" tags=compat pattern="." set=quick
while [ $# -gt 0 ]; do
	case "$1" in
	-all) set=all ;;
	-full) full="-full" set=full clickhouse=clickhouse-server ;;
	-apps) clickhouse=clickhouse-server full="-full" set=full tags="compat,apps" pattern="^Test(ClickHouse|RollingRestart|TakeoverApps|TakeoverCurator|Patroni|Tooz|Taskflow|Node|GoApps)\$" ;;
	-apache) target=apache ;;
	-run) pattern=$2 set=full && shift ;;
	*) sed -n '2,27s/^# \{0,1\}//p' "$0" && exit 2 ;;
	esac
	shift
done

# shellcheck disable=SC2086 # nothing, or a package
sh test/compat/install.sh $clickhouse || echo "compat: going on with what is there" >&2
ZOOKEEPER39=${ZOOKEEPER39:-$(sh test/world/fetch.sh zookeeper)}
C_CLIENT=$(sh test/world/fetch.sh c-client)
export ZOOKEEPER39 C_CLIENT
case $set in
full) skip="" ;;
all) skip="-skip ^Test($deep|$newer)\$" ;;
quick) skip="-skip ^Test($deep|$long|$([ -n "$ZOOKEEPER39" ] && echo "$older" || echo "$newer"))\$" ;;
esac

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
binary=""
if [ "$target" = zkd ]; then
	go build -o "$work/zkd" ./cmd/zkd || exit 1
	binary="-zkd $work/zkd"
fi

# tests PATTERN LOG FLAG... runs the tests that match.
tests() {
	tested=$1 log=$2
	shift 2
	# shellcheck disable=SC2086 # flags are words
	go test -tags "$tags" -count=1 -timeout 40m -v -run "$tested" "$@" ./test/compat -target "$target" $binary $full >"$log" 2>&1
}

began=$(date +%s)
# shellcheck disable=SC2086 # flags are words
tests "$pattern" "$work/log" -parallel 3 $skip
status=$?
if [ $status -ne 0 ]; then
	failed=$(sed -n 's/^--- FAIL: \([A-Za-z0-9]*\) .*/\1/p' "$work/log" | paste -sd '|' -)
	if [ -z "$failed" ] || grep -q '^panic:' "$work/log"; then
		grep -v '^=== \|^ *--- PASS' "$work/log"
	else # these have a second try, and have not failed yet
		grep -v '^=== \|^ *--- PASS' "$work/log" | sed 's/FAIL/differs/'
		echo "compat: once more: $failed"
		tests "^($failed)\$" "$work/again" -parallel 1
		status=$?
		[ $status -eq 0 ] || grep -v '^=== \|^ *--- PASS' "$work/again"
		# The second outcome counts.
		grep -v -E " SUITE ($failed)[ /]" "$work/log" >"$work/first"
		sed 's/^--- PASS/--- FLAKY/' "$work/again" | cat "$work/first" - | grep -v '^--- FAIL' >"$work/log"
		grep '^--- FAIL' "$work/again" >>"$work/log"
	fi
fi
took=$(($(date +%s) - began))

echo
echo "compatibility of $target, $took s"
awk '
	/ SUITE / {
		for (i = 1; i <= NF; i++) if ($i == "SUITE") break
		name = $(i + 1); sub(/\/.*/, "", name) # a subtest counts for its test
		passed[name] += substr($(i + 2), 8); failed[name] += substr($(i + 3), 8)
	}
	/^--- (PASS|FLAKY|FAIL|SKIP)/ {
		gsub(/[():]/, ""); test = $3; result[test] = $2; seconds[test] = $4; order[++n] = test
	}
	END {
		printf "%-32s %-6s %8s %8s %9s\n", "suite", "result", "passed", "failed", "seconds"
		for (i = 1; i <= n; i++) {
			t = order[i]
			printf "%-32s %-6s %8s %8s %9s\n", t, result[t], passed[t], failed[t], seconds[t]
		}
	}' "$work/log"
grep -ho 'COMPARED.*' "$work/log" | sort -u
grep -h 'MISSING' "$work/log" | sed 's/^ */  /' | sort -u
exit $status
