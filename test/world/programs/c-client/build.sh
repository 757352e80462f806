# The package of Node.js has the sources of Apache's C client 3.8, with the code of the records.
# In Debian the client has no TLS; here its shell, bin/cli_mt, is compiled with it.
set -eu
tar -xzf zookeeper-7.3.0.tgz package/deps/zookeeper-client-c.tar.gz
mkdir src bin
tar -xzf package/deps/zookeeper-client-c.tar.gz -C src --strip-components=1 2>/dev/null
# What cmake would find out: Linux has all of it.
sed 's/^#cmakedefine \([A-Z_0-9]*\) 1/#define \1 1/; s/\${[^}]*}/zookeeper/; /CYRUS/d' src/cmake_config.h.in >src/generated/config.h
cd src/src
gcc -w -O1 -D_GNU_SOURCE -DTHREADED -DHAVE_OPENSSL_H -I../generated -I../include -I. -Ihashtable -o ../../bin/cli_mt \
	cli.c zookeeper.c addrvec.c recordio.c zk_hashtable.c zk_log.c mt_adaptor.c hashtable/hashtable.c hashtable/hashtable_itr.c \
	../generated/zookeeper.jute.c -lssl -lcrypto -lpthread -lm
