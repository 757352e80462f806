#!/bin/sh
# Runs an ensemble of three containers of the image without Docker: each has its own network and
# host name, a read-only root directory without a shell, and the user, environment and commands
# that the Dockerfile names. Needs root.
#
#   scripts/try-image.sh [ROOT]
#
# ROOT has the files of the image; without it they are assembled as the Dockerfile does. make
# image runs the latter, and make verify that of a release.
set -eu
cd "$(dirname "$0")/.."

image=$PWD/build/image/root
if [ "${1:-}" != inside ]; then
	rm -rf build/image
	mkdir -p build/image
	if [ -n "${1:-}" ]; then
		cp -a "$1" "$image"
	else
		STAMP=$(scripts/stamp.sh) deploy/docker/rootfs.sh "$image"
	fi
	du -sh "$image"
	exec unshare --mount --net --pid --fork --kill-child "$0" inside
fi

say() { printf '\n== %s\n' "$*"; }
fail() { echo "failed: $*" >&2; tail -n 5 "$run"/*.log >&2; exit 1; }
must() { "$@" || fail "$*"; }
mustnot() { if "$@"; then fail "not $*"; fi; }
until_ok() { # SECONDS COMMAND...
	tries=$(($1 * 5))
	shift
	until "$@" >"$run/last" 2>&1; do
		[ $((tries -= 1)) -gt 0 ] || { cat "$run/last" >&2; fail "$*"; }
		sleep 0.2
	done
}

# of INSTRUCTION prints what the last stage of the Dockerfile has for it.
of() { sed -n '/^FROM scratch/,$p' deploy/docker/Dockerfile | sed -n "s/^$1 //p"; }
words() { tr -d '[],"'; }
user=$(of USER)
environment=$(of ENV)
entrypoint=$(of ENTRYPOINT | words)
command=$(of CMD | words)
healthcheck=$(of HEALTHCHECK | sed 's/.*CMD //' | words)

run=$PWD/build/image/run
mkdir "$run"
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run # for ip netns
ip link add bridge type bridge
ip addr add 10.9.0.254/24 dev bridge
ip link set bridge up

# create NAME ADDRESS makes a container and its volume. What is added to the image is what
# Docker adds.
create() {
	ip netns add "$1"
	ip link add "on-$1" type veth peer name eth0 netns "$1"
	ip link set "on-$1" master bridge up
	ip -n "$1" addr add "$2/24" dev eth0
	ip -n "$1" link set eth0 up
	ip -n "$1" link set lo up
	cp -a "$image" "$run/$1"
	chown 0:0 -R "$run/$1"
	mkdir "$run/$1/proc" "$run/$1/dev"
	printf '127.0.0.1 localhost\n10.9.0.1 zoo1\n10.9.0.2 zoo2\n10.9.0.3 zoo3\n' >"$run/$1/etc/hosts"
	mount --bind "$run/$1" "$run/$1"
	mount -o remount,bind,ro "$run/$1"
	mount -t tmpfs -o "uid=${user%:*},gid=${user#*:},mode=755" tmpfs "$run/$1/data"
	mount -t proc proc "$run/$1/proc"
	mount --bind /dev "$run/$1/dev"
}

# in_container NAME 'VARIABLES' COMMAND... runs a command of the image, in place of this shell.
in_container() {
	name=$1 variables=$2
	shift 2
	# shellcheck disable=SC2086 # the variables are words
	exec ip netns exec "$name" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' sh "$name" \
		/usr/bin/env -i $environment $variables /usr/sbin/chroot --userspec="$user" "$run/$name" "$@"
}

servers='server.1=zoo1:2888:3888;2181 server.2=zoo2:2888:3888;2181 server.3=zoo3:2888:3888;2181'
start() { # NAME ID
	(
		IFS='|' # the servers are one word
		environment=$(echo "$environment" | tr ' ' '|')
		# shellcheck disable=SC2046,SC2086
		in_container "$1" "ZOO_MY_ID=$2|ZOO_TICK_TIME=500|ZOO_4LW_COMMANDS_WHITELIST=srvr,mntr|ZKD_LOG_FORMAT=json|ZOO_SERVERS=$servers" \
			$(echo "$entrypoint $command" | tr ' ' '|')
	) >>"$run/$1.log" 2>&1 &
	eval "pid_$1=$!"
}
pid() { eval "echo \$pid_$1"; }
# shellcheck disable=SC2086
healthy() { (in_container "$1" '' $healthcheck); }
cli() { (in_container zoo1 '' /usr/bin/zkCli.sh -server zoo1:2181,zoo2:2181,zoo3:2181 "$@"); }
leader() {
	(in_container zoo1 '' /usr/bin/zkd status zoo1:2181,zoo2:2181,zoo3:2181) | awk '$2 == "leader" { sub(/:.*/, "", $1); print $1 }'
}

say 'Start three'
for n in 1 2 3; do create zoo$n 10.9.0.$n; done
for n in 1 2 3; do start zoo$n $n; done
for n in 1 2 3; do until_ok 60 healthy zoo$n; done
must cli create /kept yes
(in_container zoo1 '' /usr/bin/zkd status zoo1:2181,zoo2:2181,zoo3:2181)

say 'They run as the user of the image, and can write only their volume'
must [ "$(stat -c %u:%g /proc/"$(pid zoo1)")" = "$user" ]
must [ "$(stat -c %u:%g "$run/zoo1/data/zoo.cfg")" = "$user" ]
mustnot touch "$run/zoo1/conf/x" 2>/dev/null
mustnot [ -e "$run/zoo1/bin/sh" ]
cat "$run/zoo1/data/zoo.cfg"

say 'Kill the leader'
lost=$(leader)
kill -9 "$(pid "$lost")"
mustnot healthy "$lost"
must cli set /kept still
must [ "$(cli get /kept)" = still ]

say 'Start it again, on its volume'
start "$lost" "${lost#zoo}"
until_ok 60 healthy "$lost"
must [ "$(cli get /kept)" = still ]

say 'The volume of another server is refused'
kill "$(pid zoo3)"
must wait "$(pid zoo3)"
start zoo3 2
mustnot wait "$(pid zoo3)"
must grep -q 'the volume belongs to another server' "$run/zoo3.log"

say 'docker stop: exit code 0'
for n in 1 2; do kill "$(pid zoo$n)"; done
for n in 1 2; do must wait "$(pid zoo$n)"; done

say 'All as it should be'
