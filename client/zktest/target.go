package zktest

import (
	"os"
	"strings"
	"testing"
)

// ServersVariable is the environment variable that gives Target other servers
// than ours: "host:port,host:port,...".
const ServersVariable = "ZKD_TEST_SERVERS"

// Target returns n servers for a test that is to run against any ZooKeeper: zkd's
// of its own, as Start and StartEnsemble start them, or if ZKD_TEST_SERVERS is set
// the first n that it names, which all tests then share. The options are for the
// former only. The test is skipped if the variable names less than n servers.
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

// External reports whether Target returns servers that were there before.
func External() bool { return os.Getenv(ServersVariable) != "" }
