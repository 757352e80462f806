#!/bin/bash
# zkServer.sh start|startClean|startCleanReadOnly|stop, in place of the script of the tests: one server, at $ZOOPORT.
dir=$PWD/server port=${ZOOPORT:-22181}
if [ -e "$dir/pid" ]; then
	pid=$(cat "$dir/pid")
	kill -9 "$pid" 2>/dev/null
	while [ -e "/proc/$pid/exe" ]; do sleep 0.1; done # a zombie has none
	rm "$dir/pid"
fi
case $1 in
stop) exit 0 ;;
startClean*) rm -rf "$dir" ;;
esac
mkdir -p "$dir/data"
{
	printf '%s\n' tickTime=500 initLimit=10 syncLimit=5 "dataDir=$dir/data" "maxClientCnxns=${ZKMAXCNXNS:-100}" "clientPort=$port"
	if [ "$1" = startCleanReadOnly ]; then # one of three servers, the others of which do not run
		echo readonlymode.enabled=true
		for n in 1 2 3; do echo "server.$n=127.0.0.1:2288$n:3388$n"; done
		echo 1 >"$dir/data/myid"
	fi
} >"$dir/zoo.cfg"
if [ "$ON" = apache ]; then
	java -Dzookeeper.extendedTypesEnabled=true -Dznode.container.checkIntervalMs=100 -Dreadonlymode.enabled=true -Dzookeeper.admin.enableServer=false \
		-cp "$APACHE/lib/*" org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/zoo.cfg" >>"$dir/log" 2>&1 &
else
	"$ZKD" --set extendedTypesEnabled=true --set znode.container.checkIntervalMs=100 "$dir/zoo.cfg" >>"$dir/log" 2>&1 &
fi
pid=$!
echo $pid >"$dir/pid"
[ "$1" != startCleanReadOnly ] || exec sleep 6 # until it gives up looking for a leader
for _ in $(seq 600); do
	[ -e /proc/$pid/exe ] && ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || exit 0
	sleep 0.1
done
