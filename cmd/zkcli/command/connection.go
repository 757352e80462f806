package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/internal/login"
)

// connection is the session that the commands use.
type connection struct {
	mu     sync.Mutex     // guards c and server, which only one goroutine writes: the prompt shows them
	c      *client.Client // nil before the first command that needs it, and after close
	server string         // the servers of c
	closed bool           // by a command: later commands do not connect
	// auth are the identities of addauth, which connect adds again.
	auth []client.Auth
}

//lint:ignore ST1005 it is what Apache's zkCli prints
var errNotConnected = errors.New("Not connected")

// get returns the connected client.
func (n *connection) get(ctx context.Context, o *Options, watcher func(client.Event)) (*client.Client, error) {
	if n.closed {
		return nil, fmt.Errorf("%w (connect host:port opens a session)", errNotConnected)
	}
	if err := n.open(ctx, o, watcher); err != nil {
		return nil, err
	}
	if n.c.State().Connected() {
		return n.c, nil
	}
	if err := n.wait(ctx, o); err != nil {
		return nil, err
	}
	return n.c, nil
}

// wait waits for the connection. If all servers refuse it, because none listens at its
// address, something else does, or by TLS, the default time to wait is short: the address or a file is probably wrong. So
// it is if there is no login.
func (n *connection) wait(ctx context.Context, o *Options) error {
	times := []time.Duration{o.wait()}
	if o.Wait == 0 && !o.waitForConnection && o.wait() > refusedWait {
		times = []time.Duration{refusedWait, o.wait() - refusedWait}
	}
	for i, d := range times {
		wait, cancel := context.WithTimeoutCause(ctx, d, errWait)
		err := n.c.WaitConnected(wait)
		cancel()
		if err == nil {
			return nil
		}
		if i == len(times)-1 || ctx.Err() != nil || !errors.Is(err, errWait) || allRefuse(o, err) || o.security.login.Explain(err) != "" {
			return notConnected(ctx, o, err)
		}
	}
	return nil
}

// refusedWait is the time to wait for servers of which all refuse connections.
const refusedWait = time.Second

// allRefuse reports whether each of the servers refused a connection.
func allRefuse(o *Options, err error) bool {
	e, ok := errors.AsType[*client.ConnectError](err)
	hosts, _, _ := strings.Cut(o.Server, "/")
	if !ok || len(e.Servers) < strings.Count(hosts, ",")+1 {
		return false
	}
	for _, s := range e.Servers {
		if !errors.Is(s, syscall.ECONNREFUSED) && !errors.Is(s, client.ErrNotZooKeeper) && !refusedByTLS(s) {
			return false
		}
	}
	return true
}

// refusedByTLS reports whether one end has refused the other in a handshake.
func refusedByTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// errWait is the cause when waiting for a connection ends.
var errWait = errors.New("no server took the session")

// open makes the client, which begins to connect.
func (n *connection) open(ctx context.Context, o *Options, watcher func(client.Event)) error {
	if n.c != nil {
		return nil
	}
	opts, err := o.client(ctx, watcher)
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
	// A server that does not answer will expire the session.
	_ = n.c.Close(ctx)
	n.mu.Lock()
	n.c = nil
	n.mu.Unlock()
}

// closeWait is the limit for the server's confirmation of a close.
const closeWait = 3 * time.Second

// notConnected lists in one line the servers that were tried and the problem of each.
func notConnected(ctx context.Context, o *Options, err error) error {
	e, ok := errors.AsType[*client.ConnectError](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	if text := o.security.login.Explain(err); text != "" {
		return &wordedError{text: fmt.Sprintf("%v: %s", errNotConnected, text), err: e}
	}
	if !errors.Is(e.Err, errWait) {
		return &wordedError{text: fmt.Sprintf("%v: %v (connect opens a new session)", errNotConnected, e.Err), err: e}
	}
	var why []string
	for _, s := range e.Servers {
		why = append(why, flagNames.Replace(s.Error()))
	}
	if len(why) == 0 {
		why = []string{o.Server + ": no answer"}
	}
	within := fmt.Sprintf(" within %v", o.wait())
	if allRefuse(o, e) {
		within = ""
	}
	return &wordedError{text: fmt.Sprintf("Can't connect%s: %s", within, strings.Join(why, "; ")), err: e}
}

func parseAuth(s string) (client.Auth, error) {
	scheme, data, err := login.ParseAuth(s)
	if err != nil {
		return client.Auth{}, &UsageError{Text: err.Error()}
	}
	return client.Auth{Scheme: scheme, Data: data}, nil
}
