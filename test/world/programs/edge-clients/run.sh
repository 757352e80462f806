PYTHONPATH=$PROGRAM/kazoo/python exec python3 "$FROM/storm.py"
