exec sh "$FROM/../../java/run.sh" Druid
