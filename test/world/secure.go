package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
)

const (
	keys        = "keys"  // the directory of keys, beside those of the servers
	loginFile   = "login" // in it: users with their passwords, and who a client is, as JAAS has it
	keyPassword = "secret1"
)

const loginText = `Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_world="world-secret";
};
Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username="world"
  password="world-secret";
};
`

// secureLines are the lines of zoo.cfg of servers that have a port with TLS and take logins.
func secureLines(dir, addr string) []string {
	host, port, _ := net.SplitHostPort(addr)
	return []string{
		"secureClientPort=" + port, "secureClientPortAddress=" + host,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"ssl.keyStore.location=" + filepath.Join(dir, "server.p12"), "ssl.keyStore.password=" + keyPassword,
		"ssl.trustStore.location=" + filepath.Join(dir, "trust.p12"), "ssl.trustStore.password=" + keyPassword,
		"authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "fips-mode=false",
		// Apache's servers take it from their command line, and have no key of this name.
		"java.security.auth.login.config=" + filepath.Join(dir, loginFile),
	}
}

// makeKeys makes the keys of servers and clients, and a store that has the certificates of both.
func makeKeys(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, loginFile), []byte(loginText), 0o600); err != nil {
		return err
	}
	for _, name := range []string{"server", "client"} {
		store, cert := filepath.Join(dir, name+".p12"), filepath.Join(dir, name+".crt")
		for _, args := range [][]string{
			{"-genkeypair", "-alias", name, "-keyalg", "EC", "-dname", "CN=" + name, "-ext", "san=ip:127.0.0.1,dns:localhost", "-validity", "30", "-keystore", store},
			{"-exportcert", "-alias", name, "-file", cert, "-keystore", store},
			{"-importcert", "-noprompt", "-alias", name, "-file", cert, "-keystore", filepath.Join(dir, "trust.p12")},
		} {
			if err := command(ctx, "keytool", append(args, "-storetype", "PKCS12", "-storepass", keyPassword)...); err != nil {
				return err
			}
		}
	}
	return nil
}
