package transport

import (
	"time"

	"github.com/zkd-project/zkd/server/zab"
)

// PeerStatus is the state of the path to a peer, for the operator. The counts cover all
// links to it since Start.
type PeerStatus struct {
	ID    zab.SID
	Addrs []string

	Up    bool
	Gen   uint64    // of the link, if Up
	Since time.Time // when it came up or went down; zero if it was never up
	Hello Hello     // of the newest link

	BytesIn, BytesOut   uint64
	FramesIn, FramesOut uint64
	// Bytes waiting in each lane; in the bulk lane also the bytes written and not read by the
	// peer, and the current maximum of these.
	ControlBytes, BulkBytes, UnreadBytes, WindowBytes int

	// ClockAhead is for how long at least its wall clock is ahead of this server's, or behind if it is negative.
	ClockAhead time.Duration

	// CertificateUntil is when the first of the certificates expires that it has shown last; zero without TLS, and before it
	// has shown one. CertificateError is LastError if that is about certificates.
	CertificateUntil time.Time
	CertificateError string

	Links        uint64 // how often it was up
	DialFailures uint64
	// LastError is why the newest attempt to reach it failed, or why the newest link went down;
	// empty while a link is up.
	LastError   string
	LastErrorAt time.Time
}
