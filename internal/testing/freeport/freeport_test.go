package freeport_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/freeport"
)

// Each port is somebody's for as long as it is reserved, whether or not he listens there,
// and can be listened on.
func TestPortsAreReserved(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		for _, port := range freeport.For(t, 3) {
			if seen[port] {
				t.Fatalf("%d is given out twice", port)
			}
			seen[port] = true
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
	}
}
