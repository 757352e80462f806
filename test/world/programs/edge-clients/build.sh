# What other programs of this folder have fetched, and the writers in C and Go.
set -eu
for name in kazoo node-zookeeper-client c-client; do
	cp -r "$(sh "$SOURCE/../../fetch.sh" $name)" $name
done
src=$PWD/c-client/src
go -C "$SOURCE" build -o "$PWD/writer-go" .
cd "$src/src"
gcc -w -O1 -D_GNU_SOURCE -DTHREADED -DHAVE_OPENSSL_H -I../generated -I../include -I. -Ihashtable -o ../../../writer-c "$SOURCE/c/writer.c" \
	zookeeper.c addrvec.c recordio.c zk_hashtable.c zk_log.c mt_adaptor.c hashtable/hashtable.c hashtable/hashtable_itr.c \
	../generated/zookeeper.jute.c -lssl -lcrypto -lpthread -lm
