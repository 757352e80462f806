exec sh "$FROM/../../java/run.sh" Helix
