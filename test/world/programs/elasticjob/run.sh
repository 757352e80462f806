exec sh "$FROM/../../java/run.sh" ElasticJob
