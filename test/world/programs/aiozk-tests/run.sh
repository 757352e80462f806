export PYTHONPATH="$PROGRAM/python" PYTHONDONTWRITEBYTECODE=1
first=${ZK_SERVERS%%,*}
export ZK_HOST="${first%:*}" ZK_PORT="${first#*:}"
tests=$PROGRAM/python/aiozk/test
[ "$NOTHING" = yes ] && tests=$tests/test_counter.py
python3 -m pytest -p no:cacheprovider -q --tb=short -o asyncio_mode=auto --junitxml="$REPORTS/aiozk.xml" "$tests"
[ $? -le 1 ] # 1: some tests failed, which the report says
