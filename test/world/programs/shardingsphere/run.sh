exec sh "$FROM/../../java/run.sh" ShardingSphere
