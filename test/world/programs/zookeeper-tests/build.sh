# The agent, and the condition that leaves tests out.
set -eu
mkdir -p classes/META-INF/services
javac -nowarn -d classes -cp 'lib/*' "$SOURCE"/agent/*.java
echo zkd.suite.Silent >classes/META-INF/services/org.junit.jupiter.api.extension.Extension
echo 'Premain-Class: zkd.suite.Agent' >manifest
jar -c -f agent.jar -m manifest -C classes .
