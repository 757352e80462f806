exec "$PROGRAM/program"
