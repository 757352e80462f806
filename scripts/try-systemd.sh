#!/bin/sh
# Runs the deb of build/release under systemd, which is process 1 of a copy-on-write copy of this
# system, so that nothing of it changes: install, start with all that the unit restricts, kill,
# reload, stop, upgrade (of an edge with a client, too), remove, purge; then the role of deploy/ansible, by the connection "local".
# Needs root, Debian with systemd, and PyPI once.
#
#   make release PLATFORMS=linux/amd64 && scripts/try-systemd.sh
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" != inside ]; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' INT TERM HUP
	mkdir "$work/upper" "$work/work" "$work/root"
	cp build/release/zkd_*_"$(dpkg --print-architecture)".deb "$work/zkd.deb"
	cp -r scripts/try-systemd.sh deploy/ansible "$work"
	[ -x build/ansible/bin/ansible-playbook ] || python3 -m venv build/ansible
	build/ansible/bin/pip install --quiet --disable-pip-version-check ansible-core==2.19.14
	ln -s "$PWD/build/ansible/bin/ansible-playbook" "$work/ansible/playbook"
	# systemd ends by switching the copy off, so the status of this does not count.
	timeout 300 unshare --kill-child=KILL --mount --net --pid --uts --ipc --cgroup --fork sh -euc '
		ip link set lo up
		mount --make-rprivate /
		mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
		cp -r "$1/zkd.deb" "$1/try-systemd.sh" "$1/ansible" "$1/root/opt"
		cd "$1/root"
		mount -t proc proc proc
		mount -t sysfs -o ro sysfs sys
		mount -t tmpfs tmpfs sys/fs/cgroup
		mkdir sys/fs/cgroup/systemd
		mount -t cgroup -o none,name=systemd systemd sys/fs/cgroup/systemd
		mount -t tmpfs -o mode=755 tmpfs dev
		for device in null zero full random urandom tty; do
			touch dev/$device
			mount --bind /dev/$device dev/$device
		done
		mkdir dev/pts dev/shm dev/mqueue
		mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
		ln -s pts/ptmx dev/ptmx
		mount -t tmpfs -o mode=755 tmpfs run
		: >etc/machine-id
		printf "[Service]\nType=oneshot\nExecStart=/bin/sh /opt/try-systemd.sh inside\nStandardOutput=file:/opt/said\nStandardError=inherit\n" >etc/systemd/system/try.service
		printf "[Unit]\nRequires=basic.target\nWants=try.service\nAfter=basic.target\n" >etc/systemd/system/try.target
		mkdir -p .old
		pivot_root . .old
		cd /
		umount -l /.old
		exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=try.target' sh "$work" >"$work/console" 2>&1 || true
	cat "$work/upper/opt/said" || { tail -n 20 "$work/console"; exit 1; }
	grep -qx 'all is well' "$work/upper/opt/said"
	exit
fi

trap 'systemctl poweroff -f -f' EXIT
export DEBIAN_FRONTEND=noninteractive
cd /
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/try # the copy is thrown away
rm -f /var/lib/man-db/auto-update              # its trigger takes longer than all the rest
say() { printf '\n== %s\n' "$*"; }
must() { "$@" || { echo "failed: $*" >&2; exit 1; }; }
shows() { # PROPERTY VALUE: of the unit
	is=$(systemctl show zkd -p "$1" --value)
	[ "$is" = "$2" ] || { echo "$1 is $is, not $2" >&2; systemctl --no-pager --lines 20 status zkd; exit 1; }
}
kept() { must zkd status --wait 30s 127.0.0.1:2181 && [ "$(zkcli get /kept)" = data ] || exit 1; }

say 'Install and start'
must dpkg -i /opt/zkd.deb
must systemctl start zkd
shows ActiveState active
must zkcli create /kept data

say 'Killed: it is started again'
must kill -9 "$(systemctl show zkd -p MainPID --value)"
while [ "$(systemctl show zkd -p NRestarts --value)" = 0 ]; do sleep 0.1; done
kept

say 'Reload'
pid=$(systemctl show zkd -p MainPID --value)
echo zkd.slowRequestThreshold=1234 >>/etc/zkd/zoo.cfg
must systemctl reload zkd
until journalctl --no-pager -u zkd | grep -q 'SIGHUP: changed'; do sleep 0.1; done
shows MainPID "$pid"
kept

say 'Stop and start'
must systemctl stop zkd
shows Result success
must systemctl start zkd
kept

# replaced PID: the edge has handed its client over, and another process than PID is the unit's.
replaced() {
	until [ "$(systemctl show zkd-edge -p MainPID --value)" != "$1" ]; do sleep 0.1; done
	until journalctl --no-pager -o cat -u zkd-edge _PID="$1" | grep -q 'handed over.*clients.*1.*left.*0'; do sleep 0.1; done
	must [ "$(systemctl show zkd-edge -p ActiveState --value)" = active ]
	must kill -0 "$client"
	must zkcli get /by-edge
}

say 'Edge: reload'
printf 'edge.upstream=127.0.0.1:2181\nedge.listen=127.0.0.1:2191\n' >/etc/zkd/edge.cfg
must systemctl start zkd-edge
zkcli -server 127.0.0.1:2191 lock /by-edge -- sleep 1000 &
client=$!
until zkcli ls /by-edge 2>/dev/null | grep -q .; do sleep 0.1; done
pid=$(systemctl show zkd-edge -p MainPID --value)
must systemctl reload zkd-edge
replaced "$pid"

say 'Upgrade'
pid=$(systemctl show zkd-edge -p MainPID --value)
must dpkg --force-confold -i /opt/zkd.deb
shows ActiveState active
kept
replaced "$pid"
kill "$client"
wait "$client" || true # it was told to end
must systemctl stop zkd-edge

say 'Remove and purge'
must dpkg -r zkd
shows ActiveState inactive
must dpkg -P zkd
must [ ! -e /var/lib/zkd ]

# play KEY=VALUE... runs the playbook with keys of zoo.cfg, for this host as the only member.
export HOME=/root LC_ALL=C.UTF-8 ANSIBLE_LOCALHOST_WARNING=False ANSIBLE_NOCOLOR=1
cd /opt/ansible
play() {
	./playbook -i localhost, -c local -e ansible_python_interpreter=/usr/bin/python3 -e zkd_package=/opt/zkd.deb \
		-e "{zkd_members: {1: localhost}, zkd_config: {$1}}" site.yml >/opt/played 2>&1
}
changes() { grep -o 'changed=[0-9]*' /opt/played; }
played() { play "$1" || { cat /opt/played; exit 1; }; }

say 'Ansible: install, and once more'
played 'tickTime: 1000'
changes
shows ActiveState active
must zkd status --wait 30s 127.0.0.1:2181
must zkcli create /kept data
played 'tickTime: 1000'
must [ "$(changes)" = changed=0 ]

say 'Ansible: another configuration, and one that zkd refuses'
pid=$(systemctl show zkd -p MainPID --value)
played 'tickTime: 1000, maxClientCnxns: 7'
must [ "$(changes)" = changed=2 ]
must [ "$(systemctl show zkd -p MainPID --value)" != "$pid" ]
kept
pid=$(systemctl show zkd -p MainPID --value)
if play 'tickTime: never'; then cat /opt/played; exit 1; fi
grep -o 'tickTime=never[^"]*' /opt/played | head -n 1
shows MainPID "$pid"
kept

say 'Ansible: a newer package'
dpkg-deb -R /opt/zkd.deb /opt/newer
sed -i 's/^Version: .*/Version: 99/' /opt/newer/DEBIAN/control
dpkg-deb -Znone -b /opt/newer /opt/zkd.deb >/dev/null
played 'tickTime: 1000, maxClientCnxns: 7'
changes
must [ "$(dpkg-query -W -f '${Version}' zkd)" = 99 ]
must [ "$(systemctl show zkd -p MainPID --value)" != "$pid" ]
kept
echo 'all is well'
