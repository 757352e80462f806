package apps

import (
	"os"
	"testing"
)

// servers is the connect string of the servers that the tests use, which they leave with
// znodes of theirs.
func servers(t *testing.T) string {
	t.Helper()
	hosts := os.Getenv("ZKD_TEST_SERVERS")
	if hosts == "" {
		t.Fatal("ZKD_TEST_SERVERS is empty; test/compat TestGoApps sets it")
	}
	return hosts
}
