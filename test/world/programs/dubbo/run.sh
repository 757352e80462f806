exec sh "$FROM/../../java/run.sh" Dubbo
