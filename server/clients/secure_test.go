package clients

import (
	"bytes"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/secure"
)

// sent is a connection whose client has sent some bytes and reads what comes.
type sent struct {
	net.Conn // nil: what is not below is not used
	*bytes.Reader
}

func (s sent) Read(p []byte) (int, error)       { return s.Reader.Read(p) }
func (s sent) Write(p []byte) (int, error)      { return len(p), nil }
func (s sent) Close() error                     { return nil }
func (s sent) SetDeadline(time.Time) error      { return nil }
func (s sent) SetReadDeadline(time.Time) error  { return nil }
func (s sent) SetWriteDeadline(time.Time) error { return nil }
func (s sent) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 4000} }

// FuzzDetection begins connections to ports for TLS and for both. None is one with TLS after
// bytes that nobody has encrypted, and each place for a handshake is free again.
func FuzzDetection(f *testing.F) {
	f.Add([]byte("ruok"))
	f.Add([]byte{0, 0, 0, 45, 0, 0, 0, 0})
	f.Add([]byte("\x16\x03\x01\x00\x05hello"))
	hello := new(bytes.Buffer)
	tls.Client(recording{sent{Reader: bytes.NewReader(nil)}, hello}, &tls.Config{ServerName: "zk1"}).Handshake()
	f.Add(hello.Bytes())

	ca := certs.New(f, "CA")
	dir := f.TempDir()
	settings := secure.Settings{DetectionTimeout: time.Second}
	settings.Key.File = certs.Write(f, dir, "key.pem", ca.Issue("zk1").PEM(f))
	settings.Trust.File = certs.Write(f, dir, "trust.pem", ca.CertPEM())
	port, err := secure.New(settings, "client", zap.NewNop())
	if err != nil {
		f.Fatal(err)
	}
	s, _ := newTestClients(f)
	s.tls.TLS = port
	free := s.tls.handshakes.free
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, kind := range []portKind{tlsPort, bothPort} {
			c := newConn(&s.shared, sent{Reader: bytes.NewReader(b)}, kind)
			err := c.secureIfTLS()
			plain := kind == bothPort && len(b) > 0 && b[0] != tlsRecord
			if (err == nil) != plain || c.socket.secure.Load() {
				t.Errorf("port %d, %q: %v, secure: %t", kind, b, err, c.socket.secure.Load())
			}
			if read := c.frames.TakeAll(); plain && !bytes.HasPrefix(b, read) {
				t.Errorf("%q was read, not %q", read, b)
			}
			if h := s.tls.handshakes; h.free != free || h.waiting.Len() > 0 {
				t.Fatalf("%q: %d of %d places are free, and %d handshakes wait", b, h.free, free, h.waiting.Len())
			}
		}
	})
}

// recording is a connection that keeps what its owner writes.
type recording struct {
	sent
	written *bytes.Buffer
}

func (r recording) Write(p []byte) (int, error) { return r.written.Write(p) }

// Of the handshakes that wait for a place, those of another address wait for one of an address that begins many, and a
// subject with a weight has that many times as many turns.
func TestHandshakesHaveTurns(t *testing.T) {
	noisy := crowdKey{limits.Subject{ID: jute.ID{ID: "noisy"}}, limits.Even}
	calm := crowdKey{limits.Subject{ID: jute.ID{ID: "calm"}}, limits.Even}
	heavy := crowdKey{limits.Subject{ID: jute.ID{ID: "heavy"}}, 3 * limits.Even}
	synctest.Test(t, func(t *testing.T) {
		h := newHandshakes(2)
		order := make(chan string, 200)
		var work sync.WaitGroup
		begin := func(of crowdKey, n int) {
			for range n {
				work.Go(func() {
					h.takePlace(of)
					order <- of.subject.ID.ID
					time.Sleep(time.Millisecond) // computes
					h.leavePlace()
				})
			}
			synctest.Wait()
		}
		begin(noisy, 100)
		begin(calm, 2)
		begin(heavy, 6)
		work.Wait()
		var got []string
		for range 11 {
			got = append(got, <-order)
		}
		want := []string{"noisy", "noisy", "calm", "heavy", "heavy", "heavy", "noisy", "calm", "heavy", "heavy", "heavy"}
		if !slices.Equal(got, want) {
			t.Errorf("the order is %v, want %v", got, want)
		}
		if h.free != 1 || h.turns.Len() != 0 {
			t.Errorf("%d places are free, and %d handshakes wait", h.free, h.turns.Len())
		}
	})
}
