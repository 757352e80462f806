JAVA_OPTIONS=-Dsupervised=true exec sh "$FROM/../../java/run.sh" HBase
