FROM=$FROM/../edge-clients
export FROM
PYTHONPATH=$PROGRAM/kazoo/python exec python3 "$FROM/storm.py"
