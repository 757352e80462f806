package transport

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/server/zab"
)

// Versions are the versions of the protocol and of the history that a server speaks and reads, as
// its hello says them.
type Versions struct {
	Least, Most  uint32 // of the protocol
	Reads, Needs uint32 // of format.History
}

// Question asks what another server speaks.
type Question struct {
	Self, To zab.SID
	Addr     string // of the quorum port: host:port
	// Needs is the version of format.History that a server must read to share this server's
	// history.
	Needs uint32
	TLS   *TLS // nil: plain

	DialFunc func(ctx context.Context, network, addr string) (net.Conn, error) // nil: TCP
}

// errAsked ends the handshake of a Question. The other server logs it.
var errAsked = refuse("other", "it only asks which versions this server speaks")

// Ask asks a server for its versions, and makes no link. mismatch is the reason why these versions
// and those of this server can't be linked, "" if they can.
func (q *Question) Ask(ctx context.Context) (v Versions, mismatch string, err error) {
	dial := q.DialFunc
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	nc, err := dial(ctx, "tcp", q.Addr)
	if err != nil {
		return v, "", err
	}
	defer nc.Close() // the answer is all that is wanted
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Now()) })
	defer stop()
	if nc, err = q.secure(ctx, nc); err != nil {
		return v, "", err
	}
	us := helloRecord{Min: minVersion, Max: maxVersion, From: uint8(q.Self), To: uint8(q.To), Purpose: forCall,
		Cluster: make([]byte, len(zab.ID{})), Incarnation: make([]byte, len(zab.ID{})), Nonce: make([]byte, nonceSize),
		Reads: format.History.Range().Most, Needs: q.Needs}
	rand.Read(us.Nonce)
	b, err := appendRecord([]byte(magic), &us)
	if err != nil {
		return v, "", err
	}
	if _, err := nc.Write(b); err != nil {
		return v, "", err
	}
	h, _, err := readHello(nc)
	if err != nil {
		return v, "", err
	}
	hs := handshake{nc: nc}
	_ = hs.sendVerdict(errAsked) // it has answered already
	if err := checkVersions(&h, &us); err != nil {
		mismatch = err.Error()
	}
	return Versions{h.Min, h.Max, max(h.Reads, 1), max(h.Needs, 1)}, mismatch, nil
}

// secure does the TLS handshake, if configured.
func (q *Question) secure(ctx context.Context, nc net.Conn) (net.Conn, error) {
	if q.TLS == nil || q.TLS.Mode == AcceptTLS {
		return nc, nil
	}
	t, err := newTLS(q.TLS, zap.NewNop())
	if err != nil {
		return nc, err
	}
	host, _, err := net.SplitHostPort(q.Addr)
	if err != nil {
		return nc, err
	}
	if !q.TLS.VerifyHost {
		host = ""
	}
	client := tls.Client(nc, t.Peer(host))
	if err := client.HandshakeContext(ctx); err != nil {
		return nc, fmt.Errorf("TLS: %w", err)
	}
	return client, nil
}
