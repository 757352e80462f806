#!/bin/sh
# Installs, runs, upgrades, removes and purges the deb of build/release on a copy-on-write copy
# of this system, so that nothing of it changes, and the rpm if there is an rpm command. Needs
# root and Debian. There is no systemd in the copy: a stand-in notes what the package asks of it.
#
#   make release PLATFORMS=linux/amd64 && scripts/try-packages.sh
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" != inside ]; then
	deb=$(ls build/release/zkd_*_"$(dpkg --print-architecture)".deb)
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/upper" "$work/work" "$work/root" "$work/debs"
	cp "$deb" "$work/debs/new.deb"
	cp build/release/zkd-*."$(uname -m)".rpm "$work/debs/new.rpm"
	# An earlier version, with another example and another unit.
	dpkg-deb -R "$deb" "$work/old"
	sed -i 's/^Version: .*/Version: 0~earlier/' "$work/old/DEBIAN/control"
	sed -i '1s/.*/# An earlier example./' "$work/old/etc/zkd/zoo.cfg"
	dpkg-deb -Znone -b "$work/old" "$work/debs/old.deb" >/dev/null
	unshare --mount --net --pid --fork sh -euc '
		ip link set lo up
		mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
		mount -t proc proc "$1/root/proc"
		mount --bind /dev "$1/root/dev"
		mount -t tmpfs tmpfs "$1/root/run"
		mkdir -p "$1/root/tmp/debs" && mount --bind "$1/debs" "$1/root/tmp/debs"
		mkdir -p "$1/root/tmp/scripts" && mount --bind scripts "$1/root/tmp/scripts"
		exec chroot "$1/root" /tmp/scripts/try-packages.sh inside' sh "$work"
	exit
fi

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
cd /
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/try # the copy is thrown away
rm -f /var/lib/man-db/auto-update              # its trigger takes longer than all the rest
say() { printf '\n== %s\n' "$*"; }
must() { "$@" || { echo "failed: $*" >&2; exit 1; }; }
mustnot() { if "$@"; then echo "succeeded: $*" >&2; exit 1; fi; }
asked() { touch /run/asked; cat /run/asked; : >/run/asked; }

start() {
	setpriv --reuid zkd --regid zkd --init-groups --reset-env /usr/bin/zkd --config /etc/zkd/zoo.cfg 2>>/tmp/zkd.log &
	pid=$!
	must zkd status --wait 30s 127.0.0.1:2181
}
stop() { kill "$pid" && wait "$pid"; }

say 'Install where there is no systemd'
must dpkg -i /tmp/debs/old.deb
must [ "$(stat -c '%U:%G %a' /var/lib/zkd)" = 'zkd:zkd 700' ]
must [ ! -e /var/lib/zkd/journal ]
must zkd config check --strict /etc/zkd/zoo.cfg >/dev/null
must zkd config check --strict /etc/zkd/edge.cfg >/dev/null
must man -w zkd zkcli zkcli-ls >/dev/null
must bash -c '. /usr/share/bash-completion/completions/zkcli && complete -p zkcli' >/dev/null

say 'The unit'
for unit in zkd zkd-edge; do
	must systemd-analyze verify "/usr/lib/systemd/system/$unit.service"
	systemd-analyze security --offline=true "$unit.service" 2>/dev/null | tail -n 1
done

say 'Run it as the unit does, but without systemd'
start
must zkcli create /kept yes
zkd edge --upstream 127.0.0.1:2181 --listen 127.0.0.1:2182 /etc/zkd/edge.cfg 2>>/tmp/edge.log &
edge=$!
must zkd status --wait 30s 127.0.0.1:2182
must [ "$(zkcli -server 127.0.0.1:2182 get /kept)" = yes ]
kill "$edge" && must wait "$edge"

# From here on there is a systemd that runs zkd. (rpm's scripts do not look into /usr/local.)
mkdir -p /run/systemd/system
rm /usr/bin/systemctl
cat >/usr/bin/systemctl <<'END'
#!/bin/sh
echo "systemctl $*" >>/run/asked
[ "$*" != '--quiet is-active zkd' ] || [ -e /run/active ]
END
chmod +x /usr/bin/systemctl
touch /run/active

say 'Upgrade: the changed configuration stays, and the server is restarted'
echo '# mine' >>/etc/zkd/zoo.cfg
must dpkg --force-confold -i /tmp/debs/new.deb
must dpkg -V zkd
must grep -q '^# mine' /etc/zkd/zoo.cfg
must [ "$(asked)" = "$(printf 'systemctl daemon-reload\nsystemctl daemon-reload\nsystemctl --quiet is-active zkd-edge\nsystemctl --quiet is-active zkd\nsystemctl restart zkd')" ]
stop
start
must [ "$(zkcli get /kept)" = yes ]

say 'Upgrade with RESTART_ON_UPGRADE=no'
sed -i 's/^RESTART_ON_UPGRADE=.*/RESTART_ON_UPGRADE=no/' /etc/default/zkd
must dpkg --force-confold -i /tmp/debs/new.deb
mustnot grep -q restart /run/asked
asked >/dev/null

say 'Upgrade to a version that does not accept the configuration'
sed -i 's/^RESTART_ON_UPGRADE=.*/RESTART_ON_UPGRADE=yes/' /etc/default/zkd
echo 'tickTime=never' >>/etc/zkd/zoo.cfg
must dpkg --force-confold -i /tmp/debs/new.deb
mustnot grep -q restart /run/asked
asked >/dev/null
sed -i '$d' /etc/zkd/zoo.cfg

say 'Upgrade of a stopped server'
stop
rm /run/active
must dpkg --force-confold -i /tmp/debs/new.deb
mustnot grep -q 'restart\|start' /run/asked
asked >/dev/null

say 'Remove: configuration and data stay'
must dpkg -r zkd
must [ "$(asked)" = "$(printf 'systemctl --quiet disable --now zkd zkd-edge\nsystemctl daemon-reload')" ]
must [ -e /etc/zkd/zoo.cfg ]
must [ -d /var/lib/zkd/journal ]
mustnot [ -e /usr/bin/zkd ]

say 'Install again: the data is there'
must dpkg --force-confold -i /tmp/debs/new.deb
start
must [ "$(zkcli get /kept)" = yes ]
stop

say 'An ensemble of three of the installed program, by its example'
for n in 1 2 3; do
	install -d -o zkd -g zkd -m 700 "/var/lib/zkd-$n"
	echo "$n" | install -o zkd -g zkd -m 600 /dev/stdin "/var/lib/zkd-$n/myid"
	{
		sed -e '/^clientPort/d' -e "s,^dataDir=.*,dataDir=/var/lib/zkd-$n," /etc/zkd/zoo.cfg
		printf 'tickTime=500\ninitLimit=10\nsyncLimit=5\n4lw.commands.whitelist=srvr,mntr\n'
		for m in 1 2 3; do echo "server.$m=127.0.0.1:288$m:388$m;127.0.0.1:228$m"; done
	} >"/etc/zkd/zoo$n.cfg"
	must zkd config check --strict "/etc/zkd/zoo$n.cfg" >/dev/null
	setpriv --reuid zkd --regid zkd --init-groups --reset-env /usr/bin/zkd "/etc/zkd/zoo$n.cfg" 2>>/tmp/zkd.log &
	eval "pid$n=$!"
done
all=127.0.0.1:2281,127.0.0.1:2282,127.0.0.1:2283
must zkd status --strict --wait 30s "$all"
must zkcli -server "$all" create /of-three yes
kill -9 "$pid2"
must [ "$(zkcli -server "$all" get /of-three)" = yes ]
mustnot zkd ready --config /etc/zkd/zoo2.cfg 2>/dev/null
zkcli -server "$all" why || true
kill "$pid1" "$pid3"
must wait "$pid1"
must wait "$pid3"
rm -r /var/lib/zkd-? /etc/zkd/zoo?.cfg

say 'Purge: everything goes but the user'
must dpkg -P zkd
mustnot [ -e /etc/zkd ]
mustnot [ -e /etc/default/zkd ]
mustnot [ -e /var/lib/zkd ]
must getent passwd zkd >/dev/null

say 'Beside zookeeper of Debian'
if dpkg -L zookeeper zookeeper-bin zookeeperd 2>/dev/null >/tmp/theirs; then :; fi
dpkg-deb -c /tmp/debs/new.deb | awk '$1 !~ /^d/ { sub(/^\./, "", $6); print $6 }' | sort >/tmp/ours
sort /tmp/theirs | comm -12 - /tmp/ours >/tmp/both
must [ ! -s /tmp/both ]
echo "no file in common, of $(wc -l </tmp/ours) and $(wc -l </tmp/theirs)"

if command -v rpm >/dev/null; then
	say 'The rpm: install, run, upgrade, remove'
	rpm="rpm --nodeps" # dpkg has what it depends on
	touch /run/active
	must $rpm -i /tmp/debs/new.rpm
	must rpm -V --nodeps zkd
	must [ ! -e /var/lib/zkd/journal ]
	start
	must zkcli create /kept yes
	: >/run/asked
	must $rpm -U --replacepkgs /tmp/debs/new.rpm
	must grep -q 'systemctl restart zkd' /run/asked
	mustnot grep -q disable /run/asked
	must [ "$(zkcli get /kept)" = yes ]
	stop
	must $rpm -e zkd
	must grep -q 'disable --now zkd' /run/asked
	mustnot [ -e /usr/bin/zkd ]
	must [ -d /var/lib/zkd/journal ]
fi

say 'All as it should be'
