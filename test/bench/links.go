package main

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// links are relays that delay what the servers of an ensemble send to each other, as long
// lines do. There is no limit of the rate.
type links struct {
	delay time.Duration // one way
	// lost is the share of the packets that are lost. TCP sends them again when it has heard
	// nothing for two round trips, and what follows waits for them.
	lost float64

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	conns     map[net.Conn]struct{}
	wg        sync.WaitGroup
}

func newLinks(delay time.Duration, lost float64) *links {
	return &links{delay: delay, lost: lost, conns: map[net.Conn]struct{}{}}
}

// to opens a relay to an address and returns the address of the relay.
func (l *links) to(addr string) (*net.TCPAddr, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, ln)
	l.wg.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			l.wg.Go(func() { l.carry(near, addr) })
		}
	})
	return ln.Addr().(*net.TCPAddr), nil
}

// carry connects to an address, and carries bytes both ways until one end closes.
func (l *links) carry(near net.Conn, addr string) {
	defer l.end(near)
	if !l.begin(near) {
		return
	}
	far, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer l.end(far)
	if !l.begin(far) {
		return
	}
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		ways.Go(func() {
			l.pump(way[1], way[0])
			l.end(near)
			l.end(far)
		})
	}
	ways.Wait()
}

// begin reports whether a connection may be used: not after Close.
func (l *links) begin(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return !l.closed
}

func (l *links) end(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	c.Close()
}

// packetBytes is what a packet carries.
const packetBytes = 1448

// piece is what was read at once.
type piece struct {
	b   []byte
	due time.Time
}

// pump carries bytes one way, each after the delay, until reading or writing fails.
func (l *links) pump(to io.Writer, from io.ReadCloser) {
	pieces := make(chan piece, 1024)
	var writing sync.WaitGroup
	writing.Go(func() {
		defer from.Close() // ends the reader
		for p := range pieces {
			<-time.After(time.Until(p.due))
			if _, err := to.Write(p.b); err != nil {
				break
			}
		}
		for range pieces { // the reader may wait for room
		}
	})
	for {
		b := make([]byte, 64<<10)
		n, err := from.Read(b)
		if n > 0 {
			due := time.Now().Add(l.delay)
			if packets := (n + packetBytes - 1) / packetBytes; rand.Float64() > math.Pow(1-l.lost, float64(packets)) {
				due = due.Add(4 * l.delay)
			}
			pieces <- piece{b[:n:n], due}
		}
		if err != nil {
			break
		}
	}
	close(pieces)
	writing.Wait()
}

// Close ends all connections and relays.
func (l *links) Close() error {
	l.mu.Lock()
	l.closed = true
	var err error
	for _, ln := range l.listeners {
		err = errors.Join(err, ln.Close())
	}
	for c := range l.conns {
		err = errors.Join(err, c.Close())
	}
	l.mu.Unlock()
	l.wg.Wait()
	return err
}
