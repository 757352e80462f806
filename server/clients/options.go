package clients

import (
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/past"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/secure"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/traces"
)

// Backend is the server as seen by its clients' connections. It may be called from any
// goroutine, and does not block.
type Backend interface {
	// Submit hands over requests to be ordered. Each is answered through Answers.
	Submit(...replica.Submission)
	// Now is the server's clock.
	Now() time.Duration
	// AnswersUntil returns the time, in ms of Now, until which this server may answer
	// reads alone.
	AnswersUntil() int64
	// Service returns the number of the present service, and 0 if there is none: see package
	// replica.
	Service() uint64
	// Serving reports whether a leader is known, or this server is the leader.
	Serving() bool
	// Ending reports whether the server is closing or has failed.
	Ending() bool
	// IdleSince returns when the server last stopped serving, if it does not serve.
	IdleSince() time.Duration
	// Shows returns the data that the four-letter words show to a connection.
	Shows(origin uint64) show.Source
}

// Limits bound the memory held by connections, in bytes.
type Limits struct {
	// Requests is for the requests that wait to be answered. Above it, a connection with
	// a waiting request is not read.
	Requests int64
	// Replies is for unwritten replies of connections with more than outFlush. Above it, the
	// connections that have most of them end.
	Replies int64
	// Watches is for the watches of all clients; 0 means no limit. Above it no more can be set, and above twice
	// as much a connection ends that restores its own.
	Watches int64
}

// Options configure Clients.
type Options struct {
	Config *config.Config
	// MaxDescriptors limits the connections that have one, and MaxCarried those that others carry, whatever maxCnxns is;
	// 0 means no limit.
	MaxDescriptors int
	MaxCarried     int
	Logger         *zap.Logger
	Metrics        *monitor.Metrics
	Limits         Limits
	Backend        Backend
	State          *state.State
	Schemes        *auth.Schemes
	IDs            *session.IDs     // of sessions and of connections
	Sessions       *session.Tracker // of the ensemble
	Audit          *audit.Log       // nil for none
	Traces         *traces.Tracer   // nil for none
	Changes        *feed.History    // for feeds; nil for none
	// Configure carries out a request about the server's configuration, and returns what to
	// show. It may be called from any goroutine, and may block.
	Configure func(jute.ConfigureRequest) (string, error)
	// Authors returns the authors of the last transactions, by zxid. It may be nil.
	Authors func() map[jute.Zxid]audit.Author
	// Past returns what looks at the past; nil if there is no past here.
	Past func() *past.Past
	// TLS is for ClientTLS.Port and, if ClientTLS.Unified, ClientPort; nil if neither uses it.
	TLS *secure.TLS
	// Listen opens the ports; nil means TCP.
	Listen func(network, address string) (net.Listener, error)
}
