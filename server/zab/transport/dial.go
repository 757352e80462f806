package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
)

// nextAddress is how long a dial to one address of a peer may take before the next address
// is dialed as well.
const nextAddress = 250 * time.Millisecond

// connect dials a peer and does the handshake. The caller must drop the connection's raw in
// the end.
func (t *Transport) connect(ctx context.Context, p *peer, why purpose) (*conn, *handshake, error) {
	nc, host, err := t.dialAny(ctx, p.addrs())
	if err != nil {
		return nil, nil, err
	}
	if !t.hold(nc) {
		return nil, nil, ErrClosed
	}
	unhook := context.AfterFunc(ctx, func() { nc.Close() })
	hs, err := t.introduce(ctx, nc, host, p, why)
	if !unhook() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		t.drop(nc)
		return nil, nil, fmt.Errorf("%s: %w", nc.RemoteAddr(), err)
	}
	return p.timed(hs.nc, nc), hs, nil
}

// introduce does the TLS handshake, if configured, and then the transport's own.
func (t *Transport) introduce(ctx context.Context, nc net.Conn, host string, p *peer, why purpose) (*handshake, error) {
	if err := nc.SetDeadline(time.Now().Add(t.o.HandshakeTimeout + t.o.ProbeTimeout)); err != nil {
		return nil, err
	}
	setUserTimeout(nc, t.o.WriteTimeout+t.o.IdleTimeout)
	secured := nc
	if t.tls != nil && t.o.TLS.Mode != AcceptTLS {
		client := tls.Client(nc, t.dialTLS(host))
		err := client.HandshakeContext(ctx)
		t.tls.Observe(err)
		if err != nil {
			return nil, &reason{"certificate", "TLS: " + logText(err)}
		}
		secured = client
	}
	hs, err := t.dialHandshake(secured, p.id, why)
	if err != nil {
		return nil, err
	}
	return hs, nc.SetDeadline(time.Time{})
}

// dialed is the result of dialing the address with this index.
type dialed struct {
	at  int
	nc  net.Conn
	err error
}

// dialAny connects to the first of the addresses that answers, and returns the host it
// dialed. The dials start one after the other, each when all earlier ones have failed or
// are slow, so an address that swallows all packets delays no other. After RedialMax the
// first address is dialed again: the kernel repeats a lost SYN too seldom, and a name may
// have changed.
func (t *Transport) dialAny(ctx context.Context, addrs []string) (net.Conn, string, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.DialTimeout)
	defer cancel() // ends the other attempts
	results := make(chan dialed)
	errs := make([]error, len(addrs))
	for started, running := 0, 0; len(addrs) > 0; {
		at, wait := started%len(addrs), nextAddress
		switch {
		case running == 0 && at == 0 && started > 0:
			return nil, "", errors.Join(errs...)
		case running == 0:
			wait = 0
		case at == 0:
			wait = t.o.RedialMax
		}
		select {
		case r := <-results:
			if r.err == nil {
				host, _, _ := net.SplitHostPort(addrs[r.at])
				return r.nc, host, nil
			}
			running--
			errs[r.at] = r.err
		case <-time.After(wait):
			t.goroutines.Go(func() { t.attempt(ctx, at, addrs[at], results) })
			started, running = started+1, running+1
		case <-ctx.Done():
			return nil, "", errors.Join(append(errs, fmt.Errorf("connect to %s: %w", strings.Join(addrs, ", "), ctx.Err()))...)
		}
	}
	return nil, "", errors.New("no address")
}

// attempt dials an address. If the result is no longer wanted, it closes the connection.
func (t *Transport) attempt(ctx context.Context, at int, addr string, results chan<- dialed) {
	nc, err := t.dial(ctx, addr)
	select {
	case results <- dialed{at, nc, withShortage(err)}:
	case <-ctx.Done():
		if err == nil {
			nc.Close()
		}
	}
}

// withShortage says what this machine is short of, if an error means that.
func withShortage(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: no local port is free on this machine: see net.ipv4.ip_local_port_range, and what has so many connections", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: no descriptor is free: raise the limit of open files", err)
	}
	return err
}

func (t *Transport) dial(ctx context.Context, addr string) (net.Conn, error) {
	if t.o.DialFunc != nil {
		return t.o.DialFunc(ctx, "tcp", addr)
	}
	d := net.Dialer{KeepAliveConfig: t.keepAlive()}
	return d.DialContext(ctx, "tcp", addr)
}
