package sasl

import (
	"crypto/rand"

	"github.com/zkd-project/zkd/internal/digestmd5"
)

// digestURI names the service in DIGEST-MD5. ZooKeeper's servers all use the same
// name, whatever their host is called: protocol "zookeeper", server "zk-sasl-md5".
const digestURI = "zookeeper/zk-sasl-md5"

// DigestMD5 returns a value for client.Options.SASL. It authenticates to servers that
// have the user and the password in their JAAS configuration (DigestLoginModule). The
// password is not sent, but an attacker who reads the exchange can guess it offline:
// use TLS as well, or long passwords. The server must prove that it knows the
// password, too.
//
// The client's identity then has the scheme "sasl" and the user's name as its id. It
// is unrelated to the scheme "digest" of client.Options.Auth.
func DigestMD5(user, password string) func(server string) (Mechanism, error) {
	return func(string) (Mechanism, error) {
		return digestmd5.NewClient(user, password, digestURI, rand.Text())
	}
}
