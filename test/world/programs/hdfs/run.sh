exec sh "$FROM/../../java/run.sh" Hdfs
