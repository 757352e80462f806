exec sh "$FROM/../../java/run.sh" Flink
