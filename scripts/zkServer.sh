#!/bin/sh
# Starts and stops zkd as Apache's zkServer.sh does ZooKeeper, for scripts and
# habits that go by that name. A service manager does it better: conf/zkd.service.
#
#   zkServer.sh [--config DIR] {start|start-foreground|stop|restart|status|version|print-cmd} [FILE]
#
# FILE is a zoo.cfg, looked for in DIR unless it has a path. DIR is the directory of
# this script if it has that file, and else ../conf. From the environment:
# ZKD (the program; zkd beside this script, in ../bin or on PATH), ZOOCFGDIR, ZOOCFG,
# ZOOPIDFILE, ZOO_LOG_DIR, ZOO_DATADIR_AUTOCREATE_DISABLE.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

usage() {
	echo "Usage: $0 [--config <conf-dir>] {start|start-foreground|stop|restart|status|version|print-cmd} [<zoo.cfg>]" >&2
	exit 1
}

find_zkd() {
	for bin in "${ZKD:-}" "$here/zkd" "$here/../bin/zkd"; do
		if [ -n "$bin" ] && [ -x "$bin" ]; then
			printf '%s\n' "$bin"
			return
		fi
	done
	command -v zkd || {
		echo "$0: no zkd beside this script, in ../bin or on PATH: set ZKD to the program" >&2
		exit 1
	}
}

# key NAME prints the last value that the configuration has for a key.
key() {
	sed -n "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*//p" "$cfg" | sed 's/[[:space:]]*$//' | tail -n 1
}

running() { [ -f "$pidfile" ] && kill -0 "$(cat "$pidfile")" 2>/dev/null; }

start() {
	printf 'Starting zookeeper ... '
	if running; then
		echo "already running as process $(cat "$pidfile")."
		exit 1
	fi
	out=$logdir/zkd-$(id -un)-server-$(uname -n).out
	mkdir -p "$logdir" "$(dirname "$pidfile")" || exit 1
	# shellcheck disable=SC2086 # options are words
	"$zkd" config check $options "$cfg" >"$out" 2>&1 || failed
	# shellcheck disable=SC2086
	nohup "$zkd" $options "$cfg" >"$out" 2>&1 </dev/null &
	pid=$!
	printf '%s' "$pid" >"$pidfile" || {
		echo "FAILED TO WRITE PID"
		exit 1
	}
	sleep 1 # what else is wrong at the start shows by now
	if kill -0 "$pid" 2>/dev/null; then
		echo STARTED
		return
	fi
	rm -f "$pidfile"
	failed
}

failed() {
	echo "FAILED TO START"
	tail -n 3 "$out" >&2
	exit 1
}

# stop returns when the process has ended: its data can be moved then.
stop() {
	printf 'Stopping zookeeper ... '
	if [ ! -f "$pidfile" ]; then
		echo "no zookeeper to stop (could not find file $pidfile)"
		return
	fi
	if running; then
		kill "$(cat "$pidfile")"
		tries=600
		while running; do
			[ $((tries -= 1)) -gt 0 ] || {
				echo "still running after a minute, as process $(cat "$pidfile")"
				exit 1
			}
			sleep 0.1
		done
	fi
	rm -f "$pidfile"
	echo STOPPED
}

# status asks the server, as "srvr" does.
status() {
	port=$(key clientPort)
	host=$(key clientPortAddress)
	if [ -z "$port" ]; then # server.N=host:2888:3888;[host:]port
		id=$(cat "$datadir/myid" 2>/dev/null)
		port=$(key "server\.${id:-0}" | sed -n 's/.*;//p' | sed 's/.*://')
	fi
	case ${host:=localhost} in 0.0.0.0 | ::) host=localhost ;; esac
	echo "Client port found: ${port:=2181}. Client address: $host. Client SSL: false."
	mode=$("$zkd" status "$host:$port" 2>/dev/null | sed -n '2s/^[^ ]* *\([a-z-]*\).*/\1/p')
	case $mode in
	leader | follower | observer | standalone | read-only)
		echo "Mode: $mode"
		;;
	*)
		echo "Error contacting service. It is probably not running."
		exit 1
		;;
	esac
}

dir=${ZOOCFGDIR:-}
if [ "${1:-}" = --config ]; then
	[ $# -ge 2 ] || usage
	dir=$2
	shift 2
fi
verb=${1:-}
cfg=${2:-${ZOOCFG:-zoo.cfg}}
case $cfg in
*/*) ;;
*)
	if [ -z "$dir" ]; then
		dir=$here
		[ -r "$here/$cfg" ] || [ ! -d "$here/../conf" ] || dir=$(cd "$here/../conf" && pwd)
	fi
	cfg=$dir/$cfg
	;;
esac

zkd=$(find_zkd) || exit 1
case $verb in
version) exec "$zkd" version ;;
start | start-foreground | stop | restart | status | print-cmd) ;;
*) usage ;;
esac

echo "Using config: $cfg" >&2
[ -r "$cfg" ] || {
	echo "$0: $cfg: no such file" >&2
	exit 1
}
datadir=$(key dataDir)
pidfile=${ZOOPIDFILE:-${datadir:-.}/zookeeper_server.pid}
logdir=${ZOO_LOG_DIR:-$here/../logs}
options=
[ -z "${ZOO_DATADIR_AUTOCREATE_DISABLE:-}" ] || options='--set datadir.autocreate=false'

case $verb in
start) start ;;
start-foreground)
	# shellcheck disable=SC2086
	exec "$zkd" $options "$cfg"
	;;
stop) stop ;;
restart)
	stop
	start
	;;
status) status ;;
print-cmd) echo "\"$zkd\" $options \"$cfg\"" ;;
esac
