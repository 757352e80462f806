package zk

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
)

// Conn is a session, or, after one has expired, the next one. All methods may be called from
// any goroutine.
type Conn struct {
	client   *client.Client
	watching *client.Client // the view whose watches pass their events to watches
	watches  watches
	link     link
	settings

	eventChan chan Event
	queue     queue
}

// settings are what the options of Connect set.
type settings struct {
	dialer     Dialer
	hosts      HostProvider
	callback   EventCallback
	maxReply   int
	maxRequest int
	options    []func(*client.Options)

	log struct {
		sync.Mutex
		to   Logger
		info bool
	}
}

// Logger is what messages are written to.
type Logger interface {
	Printf(string, ...interface{})
}

// DefaultLogger is that of connections without one of their own: the standard logger of package log.
var DefaultLogger Logger = log.Default()

// Dialer opens a connection to a server.
type Dialer func(network, address string, timeout time.Duration) (net.Conn, error)

// EventCallback is a function that gets each Event.
type EventCallback func(Event)

// connOption is an option of Connect.
type connOption func(c *Conn)

// WithDialer opens connections with dialer. It gets an IP address, or, with a HostProvider,
// what that has returned.
func WithDialer(dialer Dialer) connOption { return func(c *Conn) { c.dialer = dialer } }

// WithHostProvider connects to the servers that hostProvider returns.
func WithHostProvider(hostProvider HostProvider) connOption {
	return func(c *Conn) { c.hosts = hostProvider }
}

// WithLogger writes messages to logger.
func WithLogger(logger Logger) connOption { return func(c *Conn) { c.SetLogger(logger) } }

// WithLogInfo says whether to log messages that are not about failures.
func WithLogInfo(logInfo bool) connOption { return func(c *Conn) { c.log.info = logInfo } }

// WithEventCallback calls cb with each event, one after the other, in a goroutine of their own.
// Unlike the channel, it gets them all.
func WithEventCallback(cb EventCallback) connOption { return func(c *Conn) { c.callback = cb } }

// WithMaxBufferSize sets the size of the largest reply that is accepted; a longer one ends the
// connection. 0 and less mean 256 MiB.
func WithMaxBufferSize(maxBufferSize int) connOption {
	return func(c *Conn) { c.maxReply = max(maxBufferSize, 0) }
}

// WithMaxConnBufferSize sets the size of the largest request that is sent. The default is
// 1.5 MiB; servers take 1 MiB if their jute.maxbuffer says nothing else.
func WithMaxConnBufferSize(maxBufferSize int) connOption {
	return func(c *Conn) { c.maxRequest = maxBufferSize }
}

// WithOptions changes the options of the client below: TLS, SASL, PlainSession and others. It
// is not in go-zookeeper.
func WithOptions(change func(*client.Options)) connOption {
	return func(c *Conn) { c.options = append(c.options, change) }
}

// ConnectWithDialer is Connect with the option WithDialer.
func ConnectWithDialer(servers []string, sessionTimeout time.Duration, dialer Dialer) (*Conn, <-chan Event, error) {
	return Connect(servers, sessionTimeout, WithDialer(dialer))
}

// Connect begins a session and returns at once. A path at the end of the last server is what all
// paths are relative to: "zk1:2181", "zk2:2181/app". The channel gets changes of the session's
// state, and the events of all watches; while it is full, as when nobody reads it, events are
// dropped. Close closes it.
func Connect(servers []string, sessionTimeout time.Duration, options ...connOption) (*Conn, <-chan Event, error) {
	if len(servers) == 0 {
		return nil, nil, errors.New("zk: server list must not be empty")
	}
	c := &Conn{eventChan: make(chan Event, 6)}
	c.maxRequest, c.log.to, c.log.info = 1536<<10, DefaultLogger, true
	for _, o := range options {
		o(c)
	}
	connect := strings.Join(servers, ",")
	list, root, err := client.ParseServers(connect)
	if err != nil {
		return nil, nil, fmt.Errorf("zk: %w", err)
	}
	o := client.Options{
		Timeout: sessionTimeout, RenewSession: true, KeepSession: true,
		MaxReply: c.maxReply, MaxRequest: c.maxRequest, Logger: (*logger)(&c.settings), Resolve: net.DefaultResolver.LookupHost,
	}
	if c.hosts != nil {
		if err := c.hosts.Init(list); err != nil {
			return nil, nil, err
		}
		connect = providerName + root
		o.Resolve, o.Fixed = nil, true
		o.ResolveSRV = func(context.Context, string) ([]string, error) { return c.round(), nil }
	}
	for _, change := range c.options {
		change(&o)
	}
	c.link.init(c, len(list), o.Timeout)
	c.queue.init()
	c.watches.init(c)
	c.hook(&o)
	if c.client, err = client.New(connect, o); err != nil {
		return nil, nil, fmt.Errorf("zk: %w", err)
	}
	c.watching = c.client.WithInbox(c.watches.inbox)
	go c.deliver()
	return c, c.eventChan, nil
}

// providerName stands for the servers of a HostProvider. The client asks for them as it asks for SRV
// records: before each round over all of them.
const providerName = "_zookeeper._tcp.provider"

// round returns the servers to try next.
func (c *Conn) round() []string {
	list := make([]string, c.hosts.Len())
	for i := range list {
		list[i], _ = c.hosts.Next()
	}
	return list
}

// hook makes the client report what happens, beside what the program's own functions do.
func (c *Conn) hook(o *client.Options) {
	dial, attempt, event, watcher := o.Dial, o.Trace.Attempt, o.Trace.Event, o.Watcher
	switch {
	case c.dialer != nil:
		dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			within := time.Second
			if deadline, ok := ctx.Deadline(); ok {
				within = min(within, time.Until(deadline))
			}
			return c.dialer(network, address, within)
		}
	case dial == nil:
		dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c.link.connecting(address)
		nc, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return c.link.connected(nc), nil
	}
	o.Trace.Attempt = func(server string, took time.Duration, err error) {
		c.link.attempted(err)
		if attempt != nil {
			attempt(server, took, err)
		}
	}
	o.Trace.Event = func(ev client.Event) { // called before the replies that show the change
		c.watches.tell(ev)
		if event != nil {
			event(ev)
		}
	}
	o.Watcher = func(ev client.Event) {
		c.stateChanged(ev)
		if watcher != nil {
			watcher(ev)
		}
	}
}

// stateChanged handles the end of a session. StateClosed comes last of all.
func (c *Conn) stateChanged(ev client.Event) {
	switch {
	case ev.Type != client.EventSession:
	case ev.State == client.StateExpired:
		c.watches.end(ErrSessionExpired)
	case ev.State == client.StateAuthFailed:
		c.link.set(StateAuthFailed)
		c.watches.end(ErrAuthFailed)
	case ev.State == client.StateClosed:
		c.link.close()
		c.watches.end(ErrClosing)
		c.watches.inbox.Close()
		c.queue.close()
	}
}

// deliver passes events on until the session is closed.
func (c *Conn) deliver() {
	defer close(c.eventChan)
	for {
		ev, ok := c.queue.next()
		if !ok {
			return
		}
		if c.callback != nil {
			c.callback(ev)
		}
		select {
		case c.eventChan <- ev:
		default:
		}
	}
}

// Close ends the session, which deletes its ephemeral nodes. It waits a second for the server's
// confirmation.
func (c *Conn) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.client.Close(ctx); err != nil {
		(*logger)(&c.settings).Log(ctx, slog.LevelInfo, "close", "err", err)
	}
}

// Client returns the client below, for what go-zookeeper lacks: contexts, persistent watches,
// feeds, and the packages that stand on client. Closing it closes c.
func (c *Conn) Client() *client.Client { return c.client }

// State returns the state of the session.
func (c *Conn) State() State {
	s := c.link.now()
	if s == StateConnected && c.client.State().Connected() { // to be reported in a moment
		return StateHasSession
	}
	return s
}

// SessionID returns the id of the session, or 0 if there is none.
func (c *Conn) SessionID() int64 { return int64(c.client.Session().ID()) }

// Server returns the server that the client is connected to, or has last tried.
func (c *Conn) Server() string {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.link.server
}

// SetLogger writes messages to l.
func (c *Conn) SetLogger(l Logger) {
	c.log.Lock()
	defer c.log.Unlock()
	c.log.to = l
}

// logger writes the client's messages.
type logger settings

// Log writes a message with its arguments in a line. A reply that is too long is told in
// go-zookeeper's words, too, as these name its option.
func (s *logger) Log(_ context.Context, level slog.Level, msg string, args ...any) {
	s.log.Lock()
	to, info := s.log.to, s.log.info
	s.log.Unlock()
	if to == nil || level < slog.LevelWarn && !info {
		return
	}
	var b strings.Builder
	b.WriteString(msg)
	for i := 0; i+1 < len(args); i += 2 {
		fmt.Fprintf(&b, " %v=%v", args[i], args[i+1])
		var length, limit int
		if err, ok := args[i+1].(error); ok {
			if n, _ := fmt.Sscanf(err.Error(), "a reply of %d bytes: the limit is %d", &length, &limit); n == 2 {
				fmt.Fprintf(&b, ": received packet from server with length %d, which exceeds max buffer size %d", length, limit)
			}
		}
	}
	to.Printf("%s", b.String())
}
