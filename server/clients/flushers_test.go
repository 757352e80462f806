package clients

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// TestFlushersDoNotWaitForSlowClients checks that clients get their output while another one
// does not read, and that this one gets all of it, in order, when it reads.
func TestFlushersDoNotWaitForSlowClients(t *testing.T) {
	s, _ := newTestClients(t)
	s.writers.unread.limit = 1 << 30
	slow, slowClient := newTCPConn(t, s)
	s.running.Add(1) // as the applier does
	var want []byte
	for i := range 8 {
		frame := bytes.Repeat([]byte{byte(i)}, 4<<20) // together more than the sockets take
		want = append(want, frame...)
		if !slow.send(frame) {
			t.Fatal("the client is cut off")
		}
		s.flushers.add(&slow.out)
	}
	var writers []*writer
	var clients []net.Conn
	for range 3 * flushPart {
		c, client := newTCPConn(t, s)
		c.send([]byte("event"))
		writers, clients = append(writers, &c.out), append(clients, client)
	}
	s.flushers.add(writers...)
	s.running.Done()
	for _, client := range clients {
		expect(t, client, []byte("event"))
	}
	expect(t, slowClient, want)
	s.running.Wait()
	slow.line.Lock()
	defer slow.line.Unlock()
	if slow.out.writing || slow.line.Outbox.Unsent() != nil || slow.out.taken != int64(len(want)) {
		t.Errorf("still writing: %v, %d bytes taken, want %d", slow.out.writing, slow.out.taken, len(want))
	}
}

// TestFlushersEndBrokenConnections checks that a connection whose socket fails is given up.
func TestFlushersEndBrokenConnections(t *testing.T) {
	s, _ := newTestClients(t)
	c, _ := newTCPConn(t, s)
	c.socket.nc.Close()
	s.running.Add(1)
	c.send([]byte("event"))
	s.flushers.add(&c.out)
	s.running.Done()
	s.running.Wait()
	if !c.line.isOver() {
		t.Error("the connection continues")
	}
}

// newTCPConn returns a connection without its reader, over TCP, and its client's end.
func newTCPConn(t *testing.T, s *Clients) (*conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return newConn(&s.shared, nc, plainPort), client
}

// expect reads what must come next.
func expect(t *testing.T, client net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(client, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the bytes differ")
	}
}
