exec sh "$FROM/../../java/run.sh" Yarn
