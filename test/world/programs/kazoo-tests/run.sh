# kazoo starts its servers as "java ... QuorumPeerMain zoo.cfg".
[ "$ON" = apache ] || PATH=$FROM/shim:$PATH
export PATH ZKD PYTHONPATH="$PROGRAM/python" PYTHONDONTWRITEBYTECODE=1
export ZOOKEEPER_VERSION=3.9.5 ZOOKEEPER_CLASSPATH="$APACHE/lib/*" ZOOKEEPER_PORT_OFFSET=${PORT:-20000}
tests=$PROGRAM/python/kazoo/tests
[ ! -e "$REPORTS/kazoo$TRY.xml" ] || exit 0 # of a run that was broken off
[ "$NOTHING" = yes ] && tests=$tests/test_counter.py::KazooCounterTests::test_int_counter
failed=$(printf '%s\n' $AGAIN | sed 's/.*:\(.*\)\.\(.*\)/(\1 and \2)/' | paste -sd '|' - | sed 's/|/ or /g')
python3 -m pytest -p no:cacheprovider -q --tb=short --timeout=180 -k "$failed" --junitxml="$REPORTS/kazoo$TRY.xml" "$tests"
[ $? -le 1 ] # 1: some tests failed, which the report says
