// Package freeport finds TCP ports of the loopback interface for servers that run as separate
// processes, are stopped, and started again on the same port.
//
// Ports that the system selects (":0") do not suffice: the system uses the same range for
// connections, and can assign the port again while the server is down. The ports of this
// package are below that range (Linux: 32768 to 60999), and no two processes of one machine
// that ask it get the same one.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

const (
	lowest, highest = 12_500, 32_000 // ZooKeeper's own tests choose theirs below, without asking: see test/world
	attempts        = 1_000
)

// Reserve returns n unused ports of the loopback interface. No other caller gets them before
// release is called or the process ends. It is safe for concurrent use.
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

// hold takes a port unless it is in use. It holds it by the UDP port of the same number,
// which only one process can have, which is freed when the process ends, and which does not
// disturb a TCP server.
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
