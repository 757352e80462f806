SECURE=yes exec sh "$FROM/../../java/run.sh" Solr
