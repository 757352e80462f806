# The package of Node.js has the sources of Apache's C client 3.8, with the code of the records and with its tests, which are compiled here
# into zktest, without TLS and SASL. They need Debian's libcppunit-dev.
set -eu
has() { echo '#include <cppunit/TestFixture.h>' | g++ -E -x c++ - >/dev/null 2>&1; }
if ! has && [ "$(id -u)" = 0 ]; then
	apt-get install -y --no-install-recommends g++ libcppunit-dev >&2 || { apt-get update >&2 && apt-get install -y --no-install-recommends g++ libcppunit-dev >&2; }
fi
has || { echo "c-client-tests: its compiler is missing, or the header of libcppunit: apt-get install g++ libcppunit-dev" >&2; exit 1; }
tar -xzf zookeeper-7.3.0.tgz package/deps/zookeeper-client-c.tar.gz
mkdir src objects
tar -xzf package/deps/zookeeper-client-c.tar.gz -C src --strip-components=1 2>/dev/null
# What cmake would find out: Linux has all of it.
sed 's/^#cmakedefine \([A-Z_0-9]*\) 1/#define \1 1/; s/\${[^}]*}/zookeeper/; /CYRUS/d; /OPENSSL/d' src/cmake_config.h.in >src/generated/config.h
cd objects
flags="-w -O1 -D_GNU_SOURCE -DTHREADED -DUSE_STATIC_LIB -I../src -I../src/generated -I../src/include -I../src/src -I../src/src/hashtable -I../src/tests"
# shellcheck disable=SC2086 # words
(cd ../src/src && printf '%s\n' zookeeper addrvec recordio zk_hashtable zk_log mt_adaptor hashtable/hashtable hashtable/hashtable_itr ../generated/zookeeper.jute) |
	xargs -P 2 -I '{}' gcc $flags -c '../src/src/{}.c'
tests="TestDriver LibCMocks LibCSymTable MocksBase ZKMocks PthreadMocks Util ThreadingUtil TestClientRetry TestMulti TestClient TestReadOnlyClient TestLogClientEnv"
# shellcheck disable=SC2086 # words
printf '%s\n' $tests | xargs -P 2 -I '{}' g++ -std=gnu++14 $flags '-DZKSERVER_CMD="./zkServer.sh"' -c '../src/tests/{}.cc'
# shellcheck disable=SC2046 # words
g++ -o ../zktest ./*.o $(cat ../src/tests/wrappers.opt ../src/tests/wrappers-mt.opt) -lcppunit -lpthread -lm -ldl
rm -r ../objects
