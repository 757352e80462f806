package clients

import (
	"bytes"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/testing/certs"
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
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, kind := range []portKind{tlsPort, bothPort} {
			c := newConn(&s.shared, sent{Reader: bytes.NewReader(b)}, kind)
			err := c.secureIfTLS()
			plain := kind == bothPort && len(b) > 0 && b[0] != tlsRecord
			if (err == nil) != plain || c.socket.secure.Load() {
				t.Errorf("port %d, %q: %v, secure: %t", kind, b, err, c.socket.secure.Load())
			}
			if plain && !bytes.HasPrefix(b, c.frames.buf[:c.frames.w]) {
				t.Errorf("%q was read, not %q", c.frames.buf[:c.frames.w], b)
			}
			if len(s.tls.handshakes.places) > 0 || s.tls.handshakes.waiting.Len() > 0 {
				t.Fatalf("%q: %d handshakes compute and %d wait", b, len(s.tls.handshakes.places), s.tls.handshakes.waiting.Len())
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
