# run.sh MAIN compiles MAIN.java of this folder with the program's jars, and runs it. JAVA_OPTIONS are the JVM's.
here=$(dirname "$0")
javac -nowarn -proc:none -d classes -cp "$PROGRAM/lib/*" "$here/World.java" "$here/$1.java" || exit
exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 $JAVA_OPTIONS -cp "$PWD/classes:$PROGRAM/lib/*" "$1"
