#!/bin/sh
# Starts the three servers of conf/run3, shows what to try, reports the leader, and
# stops the servers on Ctrl-C. Run it from the project's directory: make run3.
set -u

bin=${ZKD:-bin/zkd}
conf=${CONF:-conf/run3}
data=${DATA:-build/run3}
ports=${PORTS:-2181 2182 2183}

hosts=
for port in $ports; do
	hosts="$hosts${hosts:+,}127.0.0.1:$port"
done

say() { printf '%s\n' "$*"; }

pid() { eval "printf '%s' \"\${pid$1:-}\""; }

# started says which servers have been started and not been seen to end.
started=

stop() {
	trap '' INT TERM HUP
	for n in $started; do
		kill "$(pid "$n")" 2>/dev/null
	done
	for n in $started; do
		wait "$(pid "$n")" 2>/dev/null
	done
}

trap 'say; say "Stopping. The data stays in $data."; stop; exit 0' INT TERM HUP

# buried looks for servers that have ended, and tells of them.
buried() {
	found=1
	for n in $started; do
		p=$(pid "$n")
		if ! kill -0 "$p" 2>/dev/null; then
			wait "$p"
			say "Server $n has ended, with exit code $?."
			forget "$n"
			found=0
		fi
	done
	return $found
}

forget() {
	rest=
	for other in $started; do
		[ "$other" = "$1" ] || rest="$rest $other"
	done
	started=$rest
}

# leader prints the client port of the server that leads.
leader() {
	"$bin" status "$hosts" 2>/dev/null | awk '$2 == "leader" { sub(/.*:/, "", $1); print $1 }'
}

# server prints the number of the server with a client port.
server() {
	number=0
	for port in $ports; do
		number=$((number + 1))
		[ "$port" != "$1" ] || printf '%s' "$number"
	done
}

[ -x "$bin" ] || { say "There is no $bin: run make build first." >&2; exit 2; }
mkdir -p "$data" || exit 1

say "Starting three servers. Their data and logs are in $data."
n=0
for port in $ports; do
	n=$((n + 1))
	"$bin" "$conf/zoo$n.cfg" >"$data/zkd-$n.log" 2>&1 &
	eval "pid$n=$!"
	started="$started $n"
done

tries=0
until "$bin" status --strict --wait 500ms "$hosts" >"$data/status" 2>&1; do
	if buried; then
		say "Its last words, from $data:" >&2
		for log in "$data"/zkd-*.log; do
			grep -h '^zkd: ' "$log" | tail -n 3 >&2
		done
		say "If a port is in use, look who has it: ss -ltnp" >&2
		stop
		exit 1
	fi
	tries=$((tries + 1))
	if [ $tries -ge 60 ]; then
		cat "$data/status" >&2
		say "No leader for 30 s. The logs are $data/zkd-*.log." >&2
		stop
		exit 1
	fi
done

cat "$data/status"
now=$(leader)
leads=$(server "$now")
one="127.0.0.1 ${ports%% *}"
cat <<END

Server $leads leads. The ports for clients are $ports. In another terminal:

  bin/zkcli -server $hosts      (or zkCli.sh, or any other client)
  printf stat | nc $one      (or: telnet $one, then type: stat)
  $bin status $hosts
  bin/zkbench set $hosts      (load for 5 s, each reply checked)

  kill -9 $(pid "$leads")                    the leader: another one leads within about a second
  $bin $conf/zoo$leads.cfg      starts it again: it follows
  tail -f $data/zkd-*.log

Ctrl-C stops them. The data stays in $data.

END

while [ -n "${started# }" ]; do
	sleep 1
	if buried; then
		say "Start it again in another terminal, by its number N: $bin $conf/zooN.cfg"
	fi
	was=$now
	now=$(leader)
	if [ -n "$now" ] && [ "$now" != "$was" ]; then
		say "Server $(server "$now") leads now (port $now)."
	elif [ -z "$now" ] && [ -n "$was" ]; then
		say "Nobody leads at the moment."
	fi
done
say "All servers have ended."
exit 1
