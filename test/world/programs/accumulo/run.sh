exec sh "$FROM/../../java/run.sh" Accumulo
