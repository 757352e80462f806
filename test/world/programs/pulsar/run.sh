exec sh "$FROM/../../java/run.sh" Pulsar
