#!/bin/sh
# Changes the members of a real ensemble while a client writes, as docs/members.md describes
# it: three servers become five, a dead one is replaced, all five move to other machines, and
# the ensemble shrinks to three. A machine is a directory and ports of 127.0.0.1 here. The
# script ends with 0 if nothing acknowledged is lost. Run it from the project's directory:
# make members.
set -eu

bin=${BIN:-bin}
data=${DATA:-build/members}
base=${BASE:-21800}
load=${LOAD:-20000} # nodes of 1 KB, so that new servers have something to receive

port() { echo $((base + $1)); }
line() { echo "server.$1=127.0.0.1:$((base + 1000 + $1)):$((base + 2000 + $1));127.0.0.1:$(port "$1")"; }
member() { line "$1" | sed 's/^server\.//'; }
pid() { cat "$data/$1/pid"; }
say() { printf '\n== %s\n' "$*"; }

# servers N... names the servers for clients.
servers() { for n in "$@"; do printf '%s127.0.0.1:%s' "$sep" "$(port "$n")"; sep=,; done; }

# at N... makes these the servers that zkcli asks.
at() { sep='' ; ZKCLI_SERVER=$(servers "$@"); export ZKCLI_SERVER; }

cli() {
	printf '$ zkcli %s\n' "$*"
	"$bin/zkcli" "$@" 2>&1
}

# start N MEMBER... starts server N with a file that lists the members.
start() {
	n=$1; shift
	mkdir -p "$data/$n/data"
	{
		printf 'dataDir=%s/data\ntickTime=1000\ninitLimit=20\nsyncLimit=5\n' "$data/$n"
		printf 'reconfigEnabled=true\nstandaloneEnabled=false\n'
		printf 'DigestAuthenticationProvider.superDigest=%s\n' 'super:lK75jTNcA+U9vtVEw5vB51mj/w4='
		for m in "$@"; do line "$m"; done
	} > "$data/$n/zoo.cfg"
	echo "$n" > "$data/$n/data/myid"
	again "$n"
}

# writer writes to every server that there may be, and notes what is acknowledged.
writer() {
	i=0
	while :; do
		i=$((i + 1))
		if "$bin/zkcli" create "/written/$i" > /dev/null 2>&1; then
			echo "$i" >> "$data/acknowledged"
		fi
	done
}

# again N starts server N with the file that it has.
again() {
	"$bin/zkd" "$data/$1/zoo.cfg" >> "$data/$1/log" 2>&1 &
	echo $! > "$data/$1/pid"
}

stop() { for n in "$@"; do kill "$(pid "$n")"; wait "$(pid "$n")" 2>/dev/null || true; done; }

end() {
	trap - EXIT
	kill "${writer:-}" 2>/dev/null || true
	for f in "$data"/*/pid; do kill "$(cat "$f" 2>/dev/null)" 2>/dev/null || true; done
	wait 2>/dev/null || true
}
trap end EXIT
trap 'exit 1' INT TERM HUP

rm -rf "$data"
mkdir -p "$data"
data=$(cd "$data" && pwd)
export ZKCLI_AUTH=digest:super:secret

# await says for what it waits, and ends the script if that does not come within a minute.
await() {
	what=$1; shift
	for _ in $(seq 120); do
		if "$@"; then return; fi
		sleep 0.5
	done
	echo "not within a minute: $what" >&2
	exit 1
}

serves() { "$bin/zkd" status "127.0.0.1:$(port "$1")" > /dev/null 2>&1; }

say 'An ensemble of three, with data'
for n in 1 2 3; do start "$n" 1 2 3; done
at 1 2 3
"$bin/zkd" status --wait 1m "$ZKCLI_SERVER" > /dev/null
"$bin/zkbench" load --keep --count "$load" --size 1000 "$ZKCLI_SERVER" > "$data/load" 2>&1
"$bin/zkcli" create /written > /dev/null 2>&1
at 1 2 3 4 5 6 7 8 9 10 11
writer &
writer=$!
at 1 2 3
cli member list

say 'Three servers become five'
start 4 1 2 3 4
start 5 1 2 3 5
cli member add "$(member 4)" "$(member 5)"
at 1 2 3 4 5
cli member list

say 'Server 3 dies, and server 6 replaces it'
kill -9 "$(pid 3)"
start 6 1 2 3 4 5 6
cli member replace --yes 3 "$(member 6)"
at 1 2 4 5 6
cli member list

say 'All five move: 7 to 11 replace 1, 2, 4, 5 and 6'
new=7
for old in 1 2 4 5 6; do
	start "$new" 1 2 4 5 6 "$new"
	cli member replace --yes "$old" "$(member "$new")"
	stop "$old"
	new=$((new + 1))
	at 4 5 6 7 8 9 10 11
done
at 7 8 9 10 11
cli member list

say 'A removed server that is started again disturbs nobody'
again 1
await 'server 1 serves' serves 1
grep -o 'this server is not a member[^"]*' "$data/1/log" | tail -1
cli member list
stop 1

say 'Five become three'
cli member remove --yes 10 11
stop 10 11
cli member list

say 'What was acknowledged'
kill "$writer"
wait "$writer" 2>/dev/null || true
at 7 8 9
"$bin/zkcli" ls -o raw /written | sort > "$data/there"
sort "$data/acknowledged" > "$data/expected"
lost=$(comm -23 "$data/expected" "$data/there" | wc -l)
echo "$(wc -l < "$data/expected") writes were acknowledged, $lost of them are lost"
[ "$lost" -eq 0 ]
