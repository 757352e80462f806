# The agent, and the condition that leaves tests out.
set -eu
mkdir -p classes/META-INF/services
javac -nowarn -d classes -cp 'lib/*' "$SOURCE"/agent/*.java
echo zkd.suite.Silent >classes/META-INF/services/org.junit.jupiter.api.extension.Extension
echo 'Premain-Class: zkd.suite.Agent' >manifest
jar -c -f agent.jar -m manifest -C classes .

# The keys of the tests with TLS are not in their jar.
mkdir -p data/ssl
cd data/ssl
for key in testKeyStore testUntrustedKeyStore; do
	keytool -genkeypair -keystore "$key.jks" -storetype JKS -storepass testpass -keypass testpass -alias "$key" \
		-keyalg RSA -keysize 2048 -validity 3650 -dname "CN=localhost,OU=$key" -ext SAN=dns:localhost,ip:127.0.0.1 2>/dev/null
done
keytool -exportcert -keystore testKeyStore.jks -storepass testpass -alias testKeyStore -file cert.der 2>/dev/null
keytool -importcert -noprompt -keystore testTrustStore.jks -storetype JKS -storepass testpass -alias testKeyStore -file cert.der 2>/dev/null
