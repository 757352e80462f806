PYTHONPATH=$PROGRAM/python exec python3 "$FROM/writers.py"
