package client

import (
	"context"
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

// DefaultTimeout is the session timeout that the client requests if Options.Timeout is 0.
const DefaultTimeout = 10 * time.Second

// DefaultMaxRequest is the largest request, in bytes, that servers accept by default:
// jute.maxbuffer.
const DefaultMaxRequest = 0xfffff

// Options configure a client. The zero value suits most programs.
type Options struct {
	// Timeout is how long the servers keep the session and its ephemeral nodes without a
	// request or ping of the client. 0 means DefaultTimeout. The servers may set another
	// value, often between 2 and 20 ticks of 2 s: see Client.Status.
	Timeout time.Duration

	// RenewSession begins a new session when one expires, instead of failing all later
	// operations. Ephemeral nodes and watches belong to a session: the new one begins without
	// them, and the old watches are closed.
	RenewSession bool

	// KeepSession keeps trying to reach a server with the same session, however long it
	// takes, and treats the session as expired only when a server says so. By default the
	// session counts as expired when no server has been reached for its timeout, so that a
	// program does not believe that it still holds a lock after another client has got it.
	// Set it to survive outages of all servers: servers that were all down keep the sessions.
	KeepSession bool

	// Session resumes an existing session, such as that of an earlier process, instead of
	// beginning one. It is what Session.Key returned there. If the servers no longer know
	// it, it counts as expired. If two clients use one session, each takes the connection
	// from the other.
	Session SessionKey

	// PlainSession makes writes fail with ErrConnectionLoss when their connection is lost, as they do
	// with Apache's servers. By default the session is an exactly-once session, if the servers offer
	// that, as zkd's do: a write whose connection is lost waits for the next one, on which it gets the
	// outcome of its one execution. Writes never fail with ErrConnectionLoss then. They wait as long as
	// their contexts and the session last; after that, as after a change of the ensemble, an error
	// may be ambiguous (IsAmbiguous). A call for which the servers end ten connections one after
	// the other, such as a write that their jute.maxbuffer does not admit, fails nevertheless, and so
	// does one whose reply is longer than MaxReply. Reads are asked again, unless they could then see
	// a later write of their own session. A session that is given as Options.Session is plain.
	PlainSession bool

	// AllowReadOnly accepts a server without a quorum, which serves only reads, if no other
	// server is available. The client keeps looking for a server with a quorum.
	AllowReadOnly bool

	// Insist also connects to a server that keeps clients away (Ensemble.KeepAway), for example
	// to end that mode.
	Insist bool

	// Retry determines how the views of Steady, and packages settle, tree and typed, repeat
	// operations. Its budget bounds the retries of the whole session. Nil means
	// DefaultRetry().
	Retry *RetryPolicy

	// Auth are identities that the client adds on each connection, such as {"digest",
	// []byte("user:password")}.
	Auth []Auth

	// SASL returns the client's side of a SASL exchange with the server of that name: see
	// sasl.DigestMD5. It is called once for each connection. Nil means no SASL.
	SASL func(server string) (sasl.Mechanism, error)

	// User, if it is not nil, is for whom the client speaks, as scheme:name, as zkd edge does: the servers let it do what the user may, or what everybody may if it
	// is "", and not what the client may, whose own identity is that of Secure or SASL. A server that does not let it speak for the user ends the session with
	// ErrAuthFailed.
	User *string

	// SASLOptional uses a server without SASL unauthenticated, instead of trying the next
	// one. A server that refuses the credentials ends the session with ErrAuthFailed either
	// way.
	SASLOptional bool

	// Secure adds TLS to a new connection to a server: see secure.TLS and secure.For. It gets
	// the host name of the server. Nil means plain TCP.
	Secure func(ctx context.Context, nc net.Conn, host string) (net.Conn, error)

	// Dial opens connections; nil means net.Dialer's DialContext. It gets an IP address, not
	// a host name, unless Resolve is nil and Dial is not.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Resolve looks up the addresses of a host before each attempt; nil means
	// net.DefaultResolver's LookupHost.
	Resolve func(ctx context.Context, host string) ([]string, error)

	// ResolveSRV looks up the servers, as host:port, of a name of SRV records in the list of
	// servers (see ParseServers); nil means net.DefaultResolver's LookupSRV. The records'
	// priorities and weights have an effect only with Fixed.
	ResolveSRV func(ctx context.Context, name string) ([]string, error)

	// Fixed keeps the servers in the listed order. By default they are shuffled, so that
	// clients spread over the servers.
	Fixed bool

	// MaxRequest is the largest request, in bytes, that the client sends. Larger ones fail
	// with ErrBadArguments; a server would close the connection. If you raise it, raise the
	// servers' jute.maxbuffer too. 0 means DefaultMaxRequest.
	MaxRequest int

	// MaxReply is the largest reply, in bytes, that the client accepts. A larger one ends the
	// connection. 0 means 256 MiB.
	MaxReply int

	// Watcher is called with each event of each watch and each change of the session's
	// state, in order, in the callbacks' goroutine. May be nil.
	Watcher func(Event)

	// SlowCallback is the time after which the log names a callback that has not returned and
	// so delays all others. 0 means 1 s.
	SlowCallback time.Duration

	// Logger logs connections lost and made again, outages in which no server is reached,
	// sessions that end, and callbacks that block, but no data. While all is well it logs at
	// the level Debug alone. A *slog.Logger is one. Nil means
	// slog.Default(); see NoLog.
	Logger Logger

	// Trace has hooks for metrics and tracing.
	Trace Trace

	// Rand determines the order of servers and the jitter of pauses. Nil means a random seed;
	// tests may pass a fixed one. Only the client's goroutines use it.
	Rand *rand.Rand
}

// SessionKey is what another client needs to take a session over. It is a secret.
type SessionKey struct {
	ID       SessionID
	Password []byte
}

// Auth is an identity to authenticate with.
type Auth struct {
	Scheme string
	Data   []byte
}

// Logger is the part of *slog.Logger that the client uses.
type Logger interface {
	Log(ctx context.Context, level slog.Level, msg string, args ...any)
}

// NoLog is a Logger that drops everything.
var NoLog Logger = slog.New(slog.DiscardHandler)

// Trace has functions that the client calls to report events. Each may be nil, must not
// block, and may be called from several goroutines at once.
type Trace struct {
	// Attempt: a server was tried. err is nil if it accepted the session.
	Attempt func(server string, took time.Duration, err error)
	// Request: an operation got its reply or failed. ctx is that of the call, with its
	// values, and context.Background for asynchronous calls. Package oteltrace makes spans of it.
	Request func(ctx context.Context, r TracedRequest)
	// RoundTrip: a request or ping was answered. One is sampled at a time.
	RoundTrip func(took time.Duration)
	// Event: an event of a watch arrived.
	Event func(Event)
}

// TracedRequest is an operation that got its reply or failed.
type TracedRequest struct {
	Op      OpCode
	Path    string        // as the caller passed it
	Began   time.Time     // when it was issued
	Took    time.Duration // since then
	Session SessionID     // the client's at the end of the request; 0 if there was none yet
	Xid     int32         // names the request in its session; 0 if it was not issued
	Zxid    Zxid          // of the reply, 0 if there was none
	Err     error
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

// withDefaults returns the options with each zero replaced by its default.
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
		o.Rand = rand.New(anyRand{})
	}
	return o
}

// anyRand is random, for any goroutine.
type anyRand struct{}

func (anyRand) Uint64() uint64 { return rand.Uint64() }

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
