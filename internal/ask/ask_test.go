package ask

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers one word: with a text, and then the end of the connection unless hang.
func serve(t *testing.T, text string, hang bool) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		word := make([]byte, 4)
		if _, err := io.ReadFull(conn, word); err != nil || string(word) != "srvr" {
			t.Errorf("read %q, %v", word, err)
		}
		io.WriteString(conn, text)
		if hang {
			io.Copy(io.Discard, conn) // until the other side closes
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

// endsAfter is a connection that ends a context when something has arrived.
type endsAfter struct {
	net.Conn
	end func()
}

func (c *endsAfter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.end()
	return n, err
}

func TestWord(t *testing.T) {
	if got, err := Within(time.Minute, serve(t, "Mode: leader\n", false), "srvr"); got != "Mode: leader\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestWordEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &endsAfter{conn, cancel}, err
	}
	if got, err := WordOver(ctx, dial, serve(t, "Mode: ", true), "srvr"); got != "Mode: " || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v; want what has arrived, and the timeout", got, err)
	}
}

func TestWordWithoutAServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Within(time.Minute, l.Addr().String(), "srvr"); err == nil {
		t.Error("no error, and nobody listens")
	}
}

func TestFields(t *testing.T) {
	srvr := "Zookeeper version: 3.9.5, built on x\nMode: follower\r\nNode count: 5\nnothing\n"
	if got := Fields(srvr, ": "); len(got) != 3 || got["Zookeeper version"] != "3.9.5, built on x" || got["Node count"] != "5" {
		t.Errorf("srvr: %q", got)
	}
	if got := Mode(srvr); got != "follower" {
		t.Errorf("mode %q", got)
	}
	if got := Mode("This ZooKeeper instance is not currently serving requests\n"); got != "" {
		t.Errorf("mode %q of a server that does not serve", got)
	}
	if got := Fields("zk_version\t3.9\nzk_watch_count\t7\n", "\t"); got["zk_watch_count"] != "7" {
		t.Errorf("mntr: %q", got)
	}
}
