exec sh "$FROM/../../java/run.sh" SpringCloud
