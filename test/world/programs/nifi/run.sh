exec sh "$FROM/../../java/run.sh" NiFi
