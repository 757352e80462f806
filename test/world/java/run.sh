# run.sh MAIN compiles MAIN.java of this folder with the program's jars, and runs it. JAVA_OPTIONS are the JVM's.
here=$(dirname "$0")
javac -nowarn -proc:none -d classes -cp "$PROGRAM/lib/*" -sourcepath "$here" "$here/$1.java" || exit
# SECURE=yes: all of its processes use TLS, and log in.
if [ "$SECURE" = yes ]; then
	ZK_SERVERS=${ZK_TLS_SERVERS:-$ZK_SERVERS}
	JDK_JAVA_OPTIONS="$JDK_JAVA_OPTIONS -Dzookeeper.client.secure=true -Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty \
		-Dzookeeper.ssl.keyStore.location=$KEYS/client.p12 -Dzookeeper.ssl.keyStore.password=secret1 \
		-Dzookeeper.ssl.trustStore.location=$KEYS/trust.p12 -Dzookeeper.ssl.trustStore.password=secret1 \
		-Djava.security.auth.login.config=$KEYS/login -Dzookeeper.fips-mode=false"
	export ZK_SERVERS JDK_JAVA_OPTIONS
fi
exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 $JAVA_OPTIONS -cp "$PWD/classes:$PROGRAM/lib/*" "$1"
