package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
)

// connection is the session that the commands use.
type connection struct {
	mu     sync.Mutex     // guards c and server, which only one goroutine writes: the prompt shows them
	c      *client.Client // nil before the first command that needs it, and once closed
	server string         // where c connects to
	closed bool           // by a command: nothing connects again by itself
	// auth are the identities that addauth added: connect takes them along.
	auth []client.Auth
}

var errNotConnected = errors.New("Not connected")

// get returns the client once it is connected.
func (n *connection) get(ctx context.Context, o *Options, watcher func(client.Event)) (*client.Client, error) {
	if n.closed {
		return nil, fmt.Errorf("%w (connect host:port opens a session)", errNotConnected)
	}
	if err := n.open(o, watcher); err != nil {
		return nil, err
	}
	if n.c.State().Connected() {
		return n.c, nil
	}
	wait, cancel := context.WithTimeoutCause(ctx, o.wait(), errWait)
	defer cancel()
	if err := n.c.WaitConnected(wait); err != nil {
		return nil, notConnected(ctx, o, err)
	}
	return n.c, nil
}

// errWait is why a wait for a connection ends.
var errWait = errors.New("no server took the session")

// open makes the client, which begins to connect.
func (n *connection) open(o *Options, watcher func(client.Event)) error {
	if n.c != nil {
		return nil
	}
	opts, err := o.client(watcher)
	if err != nil {
		return err
	}
	opts.Auth = append(opts.Auth, n.auth...)
	c, err := client.New(o.Server, opts)
	if err != nil {
		return &UsageError{Text: err.Error() + ". A server is written host:port, as in -server localhost:2181"}
	}
	n.mu.Lock()
	n.c, n.server = c, o.Server
	n.mu.Unlock()
	return nil
}

// close ends the session.
func (n *connection) close() {
	if n.c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	// A server that doesn't answer will find out by itself that we are gone.
	_ = n.c.Close(ctx)
	n.mu.Lock()
	n.c = nil
	n.mu.Unlock()
}

// closeWait is how long a server has to say that the session is closed.
const closeWait = 3 * time.Second

// notConnected says in one line which servers were tried and what is wrong with each.
func notConnected(ctx context.Context, o *Options, err error) error {
	e, ok := errors.AsType[*client.ConnectError](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	if !errors.Is(e.Err, errWait) {
		return &wordedError{text: fmt.Sprintf("%v: %v (connect opens a new session)", errNotConnected, e.Err), err: e}
	}
	var why []string
	for _, s := range e.Servers {
		why = append(why, s.Error())
	}
	if len(why) == 0 {
		why = []string{o.Server + ": no answer"}
	}
	return &wordedError{text: fmt.Sprintf("Can't connect within %v: %s", o.wait(), strings.Join(why, "; ")), err: e}
}

func parseAuth(s string) (client.Auth, error) {
	scheme, data, ok := strings.Cut(s, ":")
	if !ok || scheme == "" {
		return client.Auth{}, &UsageError{Text: fmt.Sprintf("auth %q has no scheme: it should look like digest:user:password", s)}
	}
	return client.Auth{Scheme: scheme, Data: []byte(data)}, nil
}
