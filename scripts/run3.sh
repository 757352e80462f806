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

# started says which servers have been started and not been seen to end, away which have
# ended, and back which of these somebody has started again.
started=
away=
back=

stop() {
	trap '' INT TERM HUP
	for n in $started; do
		kill "$(pid "$n")" 2>/dev/null
	done
	for n in $started; do
		wait "$(pid "$n")" 2>/dev/null
	done
	started=
}

# finish ends the script at a signal. What it says may have no reader any more: Ctrl-C ends
# a tee, too.
finish() {
	stop
	say
	say "Stopped. The data stays in $data."
	[ -z "$back" ] || say "Still running, as another terminal has started them: servers$back."
	exit 0
}

trap '' PIPE
trap finish INT TERM HUP
trap stop EXIT

# without prints the words of a list ($1) without one of them ($2).
without() {
	for word in $1; do
		[ "$word" = "$2" ] || printf ' %s' "$word"
	done
}

# buried looks for servers that have ended, and reports them.
buried() {
	found=1
	for n in $started; do
		p=$(pid "$n")
		if ! kill -0 "$p" 2>/dev/null; then
			wait "$p"
			code=$?
			started=$(without "$started" "$n")
			away="$away $n"
			found=0
			say "Server $n has ended, with exit code $code."
		fi
	done
	return $found
}

# look asks the servers for their state.
look() { table=$("$bin" status "$hosts" 2>/dev/null); }

# modes prints a line "port mode" for each server that answered the last time.
modes() { say "$table" | awk '$2 ~ /^(leader|follower|observer|standalone)$/ { sub(/.*:/, "", $1); print $1, $2 }'; }

# leader prints the client port of the server that leads.
leader() { modes | awk '$2 == "leader" { print $1 }'; }

# server prints the number of the server with a client port.
server() {
	number=0
	for port in $ports; do
		number=$((number + 1))
		[ "$port" != "$1" ] || printf '%s' "$number"
	done
}

# risen reports servers that were started again after they had ended, and such that have
# ended again.
risen() {
	serving=" $(modes | awk '{ print $1 }' | tr '\n' ' ')"
	for port in $ports; do
		n=$(server "$port")
		case "$away " in *" $n "*) ;; *) continue ;; esac
		case "$serving" in
		*" $port "*)
			case "$back " in *" $n "*) continue ;; esac
			back="$back $n"
			say "Server $n is back: $(modes | awk -v port="$port" '$1 == port { print $2 }')."
			;;
		*)
			case "$back " in *" $n "*) ;; *) continue ;; esac
			back=$(without "$back" "$n")
			say "Server $n is away again."
			;;
		esac
	done
}

# owner prints the program that listens on a port, if the system tells.
owner() {
	if command -v ss >/dev/null; then
		ss -Hltnp "sport = :$1" 2>/dev/null | sed -n 's/.*users:(("\([^"]*\)",pid=\([0-9]*\).*/\1, process \2/p' | head -n 1
	elif command -v lsof >/dev/null; then
		lsof -nP -iTCP:"$1" -sTCP:LISTEN -Fpc 2>/dev/null | awk '/^p/ { p = substr($0, 2) } /^c/ { print substr($0, 2) ", process " p; exit }'
	fi
}

# taken prints a line about a port that another program has.
taken() {
	who=$(owner "$1")
	say "Port $1 is taken: ${who:-another program has it. To see which: ss -ltnp}."
}

# check ends the script if another program has a client port: perhaps another make run3.
check() {
	look
	busy=$(say "$table" | awk 'NR > 1 && !/connection refused/ { sub(/.*:/, "", $1); print $1 }')
	[ -n "$busy" ] || return 0
	for port in $busy; do
		taken "$port"
	done >&2
	[ -z "$(modes)" ] || say "Servers run there already, of another make run3 perhaps: end it first, by Ctrl-C or by kill." >&2
	exit 1
}

# lastwords shows why servers have ended at once.
lastwords() {
	say "Its last words, from $data:"
	for log in "$data"/zkd-*.log; do
		grep -h '^zkd: ' "$log" | tail -n 3
	done
	for port in $(sed -n 's/.*:\([0-9]*\): bind: address already in use.*/\1/p' "$data"/zkd-*.log | sort -u); do
		taken "$port"
	done
}

[ -x "$bin" ] || { say "There is no $bin: run make build first." >&2; exit 2; }
mkdir -p "$data" || exit 1
check

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
		lastwords >&2
		exit 1
	fi
	tries=$((tries + 1))
	if [ $tries -ge 60 ]; then
		cat "$data/status" >&2
		say "No leader for 30 s. The logs are $data/zkd-*.log." >&2
		exit 1
	fi
done

cat "$data/status"
look
now=$(leader)
leads=$(server "$now")
one="127.0.0.1 ${ports%% *}"
admin=$(sed -n 's/^admin\.serverPort=//p' "$conf/zoo1.cfg")
console=
[ -z "$admin" ] || console="
In a browser: http://127.0.0.1:$admin/console/
"
cat <<END

Server $leads leads. The ports for clients are $ports. In another terminal:

  bin/zkcli -server $hosts      (or zkCli.sh, or any other client)
  printf stat | nc $one      (or: telnet $one, then type: stat)
  $bin status $hosts
  bin/zkbench set $hosts      (load for 5 s, each reply checked)
$console
  kill -9 $(pid "$leads")                    the leader: another one leads within about a second
  $bin $conf/zoo$leads.cfg      starts it again: it follows
  tail -f $data/zkd-*.log

Ctrl-C stops them. The data stays in $data.

END

while [ -n "${started# }${back# }" ]; do
	sleep 1
	if buried; then
		say "Start it again in another terminal, by its number N: $bin $conf/zooN.cfg"
	fi
	look
	risen
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
