#!/bin/sh
# zkServer.sh start-foreground FILE
if [ "$ON" = apache ]; then
	# shellcheck disable=SC2086 # words
	exec java $SERVER_JVMFLAGS -cp "$APACHE/lib/*" org.apache.zookeeper.server.quorum.QuorumPeerMain "$2"
fi
settings=""
for flag in $SERVER_JVMFLAGS; do
	case $flag in
	*.emulate353TTLNodes=*) ;; # of Apache's files
	*) settings="$settings --set ${flag#-Dzookeeper.}" ;;
	esac
done
# shellcheck disable=SC2086 # words
exec "$ZKD" $settings "$2"
