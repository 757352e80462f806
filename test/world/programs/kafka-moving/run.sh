exec sh "$FROM/../../java/run.sh" Kafka
