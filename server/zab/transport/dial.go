package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// nextAddress is how long an address of a peer is tried alone before the next
// one is tried as well.
const nextAddress = 250 * time.Millisecond

// connect dials a peer and does the handshake. The connection's raw is to be
// dropped in the end.
func (t *Transport) connect(ctx context.Context, p *peer, why purpose) (*conn, Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.DialTimeout+t.o.ProbeTimeout)
	defer cancel()
	nc, host, err := t.dialAny(ctx, p.addrs())
	if err != nil {
		return nil, Hello{}, err
	}
	if !t.hold(nc) {
		return nil, Hello{}, ErrClosed
	}
	unhook := context.AfterFunc(ctx, func() { nc.Close() })
	secured, h, err := t.introduce(ctx, nc, host, p, why)
	if !unhook() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		t.drop(nc)
		return nil, Hello{}, fmt.Errorf("%s: %w", nc.RemoteAddr(), err)
	}
	return p.timed(secured, nc), h, nil
}

// introduce does the TLS handshake, if there is to be one, and our own.
func (t *Transport) introduce(ctx context.Context, nc net.Conn, host string, p *peer, why purpose) (net.Conn, Hello, error) {
	deadline, _ := ctx.Deadline()
	if err := nc.SetDeadline(deadline); err != nil {
		return nil, Hello{}, err
	}
	setUserTimeout(nc, t.o.WriteTimeout+t.o.IdleTimeout)
	secured := nc
	if t.keys != nil && t.keys.mode != AcceptTLS {
		client := tls.Client(nc, t.keys.client(host))
		if err := client.HandshakeContext(ctx); err != nil {
			return nil, Hello{}, &reason{"certificate", "TLS: " + plain(err)}
		}
		secured = client
	}
	h, err := t.dialHandshake(secured, p.id, why)
	if err != nil {
		return nil, Hello{}, err
	}
	return secured, h, nc.SetDeadline(time.Time{})
}

// dialAny connects to the first of the addresses that answers, and returns the
// host it dialed. They are started one after the other, each when the one before
// has failed or is slow, so that one that swallows all packets delays nobody.
func (t *Transport) dialAny(ctx context.Context, addrs []string) (net.Conn, string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the other attempts
	type result struct {
		nc   net.Conn
		host string
		err  error
	}
	results := make(chan result)
	start := func(addr string) {
		t.goroutines.Go(func() {
			nc, err := t.dial(ctx, addr)
			host, _, _ := net.SplitHostPort(addr)
			select {
			case results <- result{nc, host, err}:
			case <-ctx.Done():
				if err == nil {
					nc.Close()
				}
			}
		})
	}
	var errs []error
	for next, running := 0, 0; next < len(addrs) || running > 0; {
		var later <-chan time.Time
		if next < len(addrs) {
			if running == 0 {
				start(addrs[next])
				next, running = next+1, running+1
				continue
			}
			later = time.After(nextAddress)
		}
		select {
		case r := <-results:
			if r.err == nil {
				return r.nc, r.host, nil
			}
			running--
			errs = append(errs, r.err)
		case <-later:
			start(addrs[next])
			next, running = next+1, running+1
		case <-ctx.Done():
			return nil, "", errors.Join(append(errs, context.Cause(ctx))...)
		}
	}
	return nil, "", errors.Join(errs...)
}

func (t *Transport) dial(ctx context.Context, addr string) (net.Conn, error) {
	if t.o.DialFunc != nil {
		return t.o.DialFunc(ctx, "tcp", addr)
	}
	d := net.Dialer{KeepAliveConfig: t.keepAlive()}
	return d.DialContext(ctx, "tcp", addr)
}
