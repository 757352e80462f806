# Of Netty's native transport its jars have parts that do not fit together.
JDK_JAVA_OPTIONS=-Dio.netty.transport.noNative=true SECURE=yes exec sh "$FROM/../../java/run.sh" HBase
