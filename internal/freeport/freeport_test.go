package freeport_test

import (
	"testing"

	"github.com/zkd-project/zkd/internal/freeport"
)

// All that a failed call took is free again.
func TestTooMany(t *testing.T) {
	if ports, _, err := freeport.Reserve(30_000); err == nil {
		t.Fatalf("%d ports", len(ports))
	}
	_, release, err := freeport.Reserve(3)
	if err != nil {
		t.Fatal(err)
	}
	release()
}
