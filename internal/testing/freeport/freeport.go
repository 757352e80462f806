// Package freeport finds TCP ports for servers that tests start as processes of their
// own, stop, and start again on the same port.
//
// A port that the system picks (":0") would not do: it comes from those that the system
// gives to connections, too, of which tests make thousands, and while the server is down
// its port is anybody's. These are below that range (Linux: 32768 to 60999), and no two
// test processes of one machine are given the same one.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

const (
	lowest, highest = 10_000, 32_000
	attempts        = 1_000
)

// Reserve returns n ports of the loopback interface on which nobody listens. Nobody else
// is given them before release is called, or the process ends. Safe for use from any
// goroutine.
func Reserve(n int) (ports []int, release func(), err error) {
	var held []net.PacketConn
	release = func() {
		for _, c := range held {
			c.Close()
		}
	}
	for range attempts {
		port := lowest + rand.IntN(highest-lowest)
		c := hold(port)
		if c == nil {
			continue
		}
		held = append(held, c)
		if ports = append(ports, port); len(ports) == n {
			return ports, release, nil
		}
	}
	release()
	return nil, nil, fmt.Errorf("only %d of %d free ports found between %d and %d", len(ports), n, lowest, highest)
}

// hold takes a port unless somebody uses it. What holds it is its namesake of UDP: that
// can be had once, goes with the process, and is in no TCP server's way.
func hold(port int) net.PacketConn {
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	held, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		held.Close()
		return nil
	}
	l.Close()
	return held
}

// For reserves n ports until a test ends. It is called before the cleanup that ends the
// server is registered, so that the server goes first.
func For(t testing.TB, n int) []int {
	t.Helper()
	ports, release, err := Reserve(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return ports
}
