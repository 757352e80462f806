package zktest

import (
	"os"
	"strings"
	"testing"
)

// ServersVariable is the environment variable that makes Target use other servers:
// "host:port,host:port,...".
const ServersVariable = "ZKD_TEST_SERVERS"

// Target returns n servers for a test that is to run against any ZooKeeper: new servers of
// zkd, as Start and StartEnsemble make them, or the first n servers that ZKD_TEST_SERVERS
// names, which all tests then share. The options apply to new servers only. The test is
// skipped if the variable names fewer than n servers.
func Target(t testing.TB, n int, opts ...Option) *Proxy {
	t.Helper()
	list := os.Getenv(ServersVariable)
	switch {
	case list == "" && n == 1:
		return Start(t, opts...).Proxy
	case list == "":
		return StartEnsemble(t, n, opts...).Proxy
	}
	servers := strings.Split(list, ",")
	if len(servers) < n {
		t.Skipf("needs %d servers, %s names %d", n, ServersVariable, len(servers))
	}
	return NewProxy(t, servers[:n]...)
}

// External reports whether Target returns existing servers.
func External() bool { return os.Getenv(ServersVariable) != "" }
