JAVA_OPTIONS=-Dcurator=true exec sh "$FROM/../../java/run.sh" Yarn
