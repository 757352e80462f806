exec sh "$FROM/../../java/run.sh" Storm
