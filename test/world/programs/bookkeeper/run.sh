exec sh "$FROM/../../java/run.sh" Ledgers
