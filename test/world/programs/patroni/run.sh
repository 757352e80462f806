# PostgreSQL does not run as root: then it is another user, as far as it can see.
if [ "$(id -u)" = 0 ]; then
	other="unshare --user --map-user=nobody --map-group=nogroup"
fi
PYTHONPATH=$PROGRAM/python exec $other python3 "$FROM/cluster.py"
