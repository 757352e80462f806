#!/bin/sh
# Prints the directory of an Apache ZooKeeper 3.9, and builds it first if there is none.
#
# Debian 12 has 3.8 only. Its archive has the sources of 3.9, and Debian 12 has all jars that
# they need, so javac is enough: the build takes some ten seconds. The directory looks like
# Apache's binary distribution, with all jars in lib/. It stays in the user's cache. With gcc and
# libssl-dev it gets bin/cli_mt, the shell of the C client, which in Debian has no TLS.
#
# ZOOKEEPER39=/path/to/apache-zookeeper-3.9.x-bin names another installation.
set -eu

if [ -n "${ZOOKEEPER39:-}" ]; then
	ls "$ZOOKEEPER39"/lib/zookeeper-3.9.*.jar >/dev/null || exit 1
	echo "$ZOOKEEPER39"
	exit 0
fi

# Version, SHA-256, SHA-1, best first. deb.debian.org drops a version when a newer one comes;
# 3.9.3 stays there as long as Debian 13. snapshot.debian.org keeps all, by SHA-1.
versions="3.9.5:0e2d7c487daeff75b38354b231a006caa14c4596ddc21fd37a840c078419357b:9eb0f0fcabe146f6d46b28b51bd47c55e8ab9beb
3.9.3:8bf0b9f872b3c0a6e64f8bc55ffb44cbff6e2712f6467ee5164ca6847466b31b:f39280c8cbe58075a84ec4b693d6c1916ae80aab"

java=/usr/share/java
cache=${XDG_CACHE_HOME:-$HOME/.cache}/zkd-compat
mkdir -p "$cache"
tmp=$(mktemp -d "$cache/build-XXXXXX")
trap 'rm -rf "$tmp"' EXIT

# fetch VERSION SHA256 SHA1 downloads a source archive, and checks that it is the one wanted.
fetch() {
	for url in "http://deb.debian.org/debian/pool/main/z/zookeeper/zookeeper_$1.orig.tar.gz" \
		"https://snapshot.debian.org/file/$3"; do
		curl -fsSL --connect-timeout 10 --max-time 120 -o "$tmp/source.tar.gz" "$url" || continue
		echo "$2  $tmp/source.tar.gz" | sha256sum --check --status && return
		echo "zookeeper39: $url is not the archive with SHA-256 $2" >&2
	done
	return 1
}

# generate LANGUAGE makes the code of the records in $gen. Debian's jar of 3.8 has the parser that
# JavaCC would have to make; the rest of the generator is 3.9's.
generate() {
	javac -nowarn -d "$tmp/jute" -cp $java/zookeeper-jute.jar "$src"/zookeeper-jute/src/main/java/org/apache/jute/compiler/*.java
	(cd "$gen" && java -cp "$tmp/jute:$java/zookeeper-jute.jar" org.apache.jute.compiler.generated.Rcc -l "$1" \
		"$src/zookeeper-jute/src/main/resources/zookeeper.jute" >/dev/null)
}

# build VERSION compiles what fetch downloaded into $tmp/home.
build() {
	src=$tmp/src gen=$tmp/gen lib=$tmp/home/lib
	mkdir -p "$src" "$gen" "$lib" "$tmp/jute" "$tmp/classes"
	tar -xzf "$tmp/source.tar.gz" -C "$src" --strip-components=1
	server=$src/zookeeper-server/src/main/java/org/apache/zookeeper/server

	generate java

	# Annotations that mean nothing at run time, and what Maven would fill in.
	mkdir -p "$gen/org/apache/yetus/audience" "$gen/org/apache/zookeeper/version"
	echo 'package org.apache.yetus.audience;
public class InterfaceAudience { public @interface Public {} public @interface Private {} }' >"$gen/org/apache/yetus/audience/InterfaceAudience.java"
	echo 'package org.apache.yetus.audience;
public class InterfaceStability { public @interface Evolving {} }' >"$gen/org/apache/yetus/audience/InterfaceStability.java"
	echo "package org.apache.zookeeper.version;
public interface Info {
	int MAJOR = 3, MINOR = 9, MICRO = ${1##*.}, REVISION = -1;
	String QUALIFIER = null, REVISION_HASH = \"debian\", BUILD_DATE = \"\";
}" >"$gen/org/apache/zookeeper/version/Info.java"
	# Debian 12's Netty is older. Only connections with TLS come here.
	sed -i 's/SslHandler.isEncrypted(\(.*\), false)/SslHandler.isEncrypted(\1)/' "$server/quorum/UnifiedServerSocket.java"

	for jar in commons-cli commons-io findbugs-annotations jackson-annotations jackson-core jackson-databind \
		jetty9-client jetty9-http jetty9-io jetty9-security jetty9-server jetty9-servlet jetty9-util metrics-core \
		netty-buffer netty-codec netty-common netty-handler netty-resolver netty-transport netty-transport-native-epoll \
		netty-transport-native-unix-common servlet-api slf4j-api slf4j-simple snappy-java; do
		ln -s "$java/$jar.jar" "$lib"
	done
	javac -nowarn -proc:none -encoding UTF-8 -d "$tmp/classes" -cp "$lib/*" \
		-sourcepath "$gen:$src/zookeeper-jute/src/main/java:$src/zookeeper-server/src/main/java" \
		"$server/quorum/QuorumPeerMain.java" "$server/NettyServerCnxnFactory.java" \
		"$server/auth/SASLAuthenticationProvider.java" "$server/auth/X509AuthenticationProvider.java" \
		"$server/auth/EnsembleAuthenticationProvider.java" "$server/admin/JettyAdminServer.java" "$src/zookeeper-server/src/main/java/org/apache/zookeeper/ZooKeeperMain.java"
	jar --create --file "$lib/zookeeper-$1.jar" -C "$tmp/classes" .
}

# build_cli compiles the C client's shell from what fetch downloaded into the directory $1.
build_cli() {
	src=$tmp/src gen=$tmp/gen-c
	mkdir -p "$src" "$gen" "$tmp/jute" "$1"
	tar -xzf "$tmp/source.tar.gz" -C "$src" --strip-components=1
	generate c
	c=$src/zookeeper-client/zookeeper-client-c
	# What cmake would find out: Linux has all of it.
	sed 's/^#cmakedefine \([A-Z_0-9]*\) 1/#define \1 1/; s/\${[^}]*}/zookeeper/' "$c/cmake_config.h.in" >"$gen/config.h"
	gcc -w -O1 -D_GNU_SOURCE -DTHREADED -DHAVE_OPENSSL_H -I"$gen" -I"$c/include" -I"$c/src" -I"$c/src/hashtable" -o "$tmp/cli_mt" \
		"$c/src/cli.c" "$c/src/zookeeper.c" "$c/src/addrvec.c" "$c/src/recordio.c" "$c/src/zk_hashtable.c" "$c/src/zk_log.c" \
		"$c/src/mt_adaptor.c" "$c/src/hashtable/hashtable.c" "$c/src/hashtable/hashtable_itr.c" "$gen/zookeeper.jute.c" \
		-lssl -lcrypto -lpthread -lm
	mv "$tmp/cli_mt" "$1/cli_mt"
}

for v in $versions; do
	version=${v%%:*} sums=${v#*:}
	home=$cache/zookeeper-$version-5 # the number changes with what is built
	if [ ! -e "$home/lib/zookeeper-$version.jar" ]; then
		fetch "$version" "${sums%:*}" "${sums#*:}" || continue
		build "$version" >&2
		rm -rf "$home"
		mv -T "$tmp/home" "$home"
	fi
	if [ ! -e "$home/bin/cli_mt" ] && command -v gcc >/dev/null && [ -e /usr/include/openssl/ssl.h ]; then
		[ -e "$tmp/source.tar.gz" ] || fetch "$version" "${sums%:*}" "${sums#*:}" || exit 1
		build_cli "$home/bin" >&2
	fi
	echo "$home"
	exit 0
done
echo "zookeeper39: the sources of 3.9 can't be had" >&2
exit 1
