// Package freeport is internal/freeport for tests.
package freeport

import (
	"testing"

	"github.com/zkd-project/zkd/internal/freeport"
)

// For reserves n ports until a test ends. Call it before you register the cleanup that stops
// the server, so that the server stops first.
func For(t testing.TB, n int) []int {
	t.Helper()
	ports, release, err := freeport.Reserve(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return ports
}
