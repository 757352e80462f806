JAVA_OPTIONS=-Dtopics=5000 exec sh "$FROM/../../java/run.sh" Kafka
