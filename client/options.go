package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client/sasl"
)

// DefaultTimeout is the session timeout that is asked for unless Options.Timeout
// says otherwise.
const DefaultTimeout = 10 * time.Second

// DefaultMaxRequest is the largest request, in bytes, that servers take unless
// they are configured otherwise: jute.maxbuffer.
const DefaultMaxRequest = 0xfffff

// Options configure a client. The zero value is good for most.
type Options struct {
	// Timeout is how long the servers keep the session, with its ephemeral nodes,
	// without a request or ping of the client. 0 means DefaultTimeout. The servers may
	// decide on another value, often between 2 and 20 ticks of 2 s: see
	// Client.Status.
	Timeout time.Duration

	// RenewSession begins a new session when one expires, instead of failing all later
	// operations. The new session has none of the old one's ephemeral nodes and
	// watches: watches of the old session are closed.
	RenewSession bool

	// KeepSession keeps trying to reach a server with the same session, however long
	// it takes, and takes the session as expired only when a server says so. The
	// default is to take the session as expired when no server has been reached for
	// its timeout, so that no program believes that it holds a lock which another one
	// has by now. Set it to survive outages of all servers: servers that were all down
	// keep the sessions.
	KeepSession bool

	// Session resumes an existing session, such as that of an earlier process, instead
	// of beginning one: it is what Client.Session returned there. If the servers do not
	// know it any more, it counts as expired. If two clients use one session, each
	// takes the connection from the other.
	Session SessionKey

	// AllowReadOnly takes a server that has no quorum and serves reads only, if
	// no other is there. The client keeps looking for a better one.
	AllowReadOnly bool

	// Retry says how operations are repeated by views of Steady, and by packages
	// settle, tree and typed. Its budget bounds the retries of the whole session. Nil
	// means DefaultRetry().
	Retry *RetryPolicy

	// Auth are identities that the client has on each connection, such as
	// {"digest", []byte("user:password")}.
	Auth []Auth

	// SASL returns the client's side of a SASL exchange with the server of that
	// name: see sasl.DigestMD5. It is called once for each connection. Nil means no
	// SASL.
	SASL func(server string) (sasl.Mechanism, error)

	// SASLOptional uses a server that has no SASL without authentication, instead of
	// trying the next one. A server that refuses the credentials ends
	// the session with ErrAuthFailed either way.
	SASLOptional bool

	// TLS makes the connections secure. ServerName is filled in from the
	// server's host name if it is empty. Nil is for plain TCP.
	TLS *tls.Config

	// TLSFor is called instead of using TLS, for each connection, with the server's
	// host name: see TLSFiles, for certificates that are renewed.
	TLSFor func(server string) (*tls.Config, error)

	// Dial opens connections; nil is net.Dialer's DialContext. The address has
	// an IP address instead of a name unless Resolve is nil and Dial is not.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Resolve looks up the addresses of a host before each attempt; nil means
	// net.DefaultResolver's LookupHost.
	Resolve func(ctx context.Context, host string) ([]string, error)

	// ResolveSRV looks up the servers, as host:port, of a name of SRV records in
	// the list of servers (see ParseServers); nil is net.DefaultResolver's
	// LookupSRV. Their priorities and weights count only with Fixed.
	ResolveSRV func(ctx context.Context, name string) ([]string, error)

	// Fixed keeps the servers in the order in which they are listed, instead of
	// shuffling them so that clients spread over the servers.
	Fixed bool

	// MaxRequest is the largest request, in bytes, that is sent. Larger ones fail
	// with ErrBadArguments; a server would cut the connection. Raise it together
	// with the servers' jute.maxbuffer. 0 is DefaultMaxRequest.
	MaxRequest int

	// MaxReply is the largest reply, in bytes, that is taken. The connection is
	// cut at a larger one. 0 is 256 MiB.
	MaxReply int

	// Watcher is called with each event of each watch and each change of the session's
	// state, in order, in the callbacks' goroutine. May be nil.
	Watcher func(Event)

	// SlowCallback is after how long a callback that does not return is named in
	// the log: it keeps all others waiting. 0 is 1 s.
	SlowCallback time.Duration

	// Logger logs connections made and lost, outages in which no server is reached,
	// sessions that end, and callbacks that block, but no data. It may be a
	// *slog.Logger. Nil means slog.Default(); see NoLog.
	Logger Logger

	// Trace has hooks for metrics and tracing.
	Trace Trace

	// Rand decides on the order of servers and on the jitter of pauses. Nil is
	// for randomness; tests may want a seed. The client's goroutines alone use it.
	Rand *rand.Rand
}

// SessionKey lets another client take a session over. It is a secret.
type SessionKey struct {
	ID       SessionID
	Password []byte
}

// Auth is an identity to authenticate as.
type Auth struct {
	Scheme string
	Data   []byte
}

// Logger is the part of *slog.Logger that is used.
type Logger interface {
	Log(ctx context.Context, level slog.Level, msg string, args ...any)
}

// NoLog is a Logger that drops everything.
var NoLog Logger = slog.New(slog.DiscardHandler)

// Trace has functions that the client calls as things happen. Each may be nil,
// must not block, and may be called from several goroutines at once.
type Trace struct {
	// Attempt: a server was tried. err is nil if it took the session.
	Attempt func(server string, took time.Duration, err error)
	// Request: an operation got its reply or failed. took is from its issue.
	Request func(op OpCode, path string, took time.Duration, zxid Zxid, err error)
	// RoundTrip: a request or ping was answered; sampled, one at a time.
	RoundTrip func(took time.Duration)
	// Event: a notification of a watch came in.
	Event func(Event)
}

func (o *Options) validate() error {
	switch {
	case o.Timeout < 0:
		return fmt.Errorf("Options.Timeout is %v: it must not be negative", o.Timeout)
	case o.Timeout > 0 && o.Timeout < time.Millisecond:
		return fmt.Errorf("Options.Timeout is %v: the protocol counts milliseconds", o.Timeout)
	case o.Timeout > (1<<31-1)*time.Millisecond:
		return fmt.Errorf("Options.Timeout is %v: the most is 2^31-1 ms", o.Timeout)
	case o.MaxRequest < 0 || o.MaxReply < 0:
		return errors.New("Options.MaxRequest and MaxReply must not be negative")
	}
	for _, a := range o.Auth {
		if a.Scheme == "" {
			return errors.New("Options.Auth has an entry without a scheme, such as \"digest\"")
		}
	}
	return nil
}

// withDefaults returns the options with every zero replaced by what it means.
func (o Options) withDefaults() Options {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
		if o.Resolve == nil {
			o.Resolve = net.DefaultResolver.LookupHost
		}
	}
	if o.ResolveSRV == nil {
		o.ResolveSRV = lookupSRV
	}
	if o.MaxRequest == 0 {
		o.MaxRequest = DefaultMaxRequest
	}
	if o.MaxReply == 0 {
		o.MaxReply = 256 << 20
	}
	if o.SlowCallback == 0 {
		o.SlowCallback = time.Second
	}
	if o.Retry == nil {
		o.Retry = DefaultRetry()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return o
}

// lookupSRV asks the system's resolver.
func lookupSRV(ctx context.Context, name string) ([]string, error) {
	_, records, err := net.DefaultResolver.LookupSRV(ctx, "", "", name)
	if err != nil {
		return nil, err
	}
	servers := make([]string, len(records))
	for i, r := range records {
		servers[i] = net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port)))
	}
	return servers, nil
}
