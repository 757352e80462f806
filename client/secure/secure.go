package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// TLS returns a value for client.Options.Secure. An empty ServerName of the configuration means
// the server's host name.
func TLS(config *tls.Config) func(ctx context.Context, nc net.Conn, host string) (net.Conn, error) {
	return For(func(string) (*tls.Config, error) { return config, nil })
}

// For is like [TLS] with a configuration for each connection, of which it gets the server's host
// name. Without a configuration the connection stays as it is.
func For(config func(host string) (*tls.Config, error)) func(ctx context.Context, nc net.Conn, host string) (net.Conn, error) {
	return func(ctx context.Context, nc net.Conn, host string) (net.Conn, error) {
		c, err := config(host)
		if c == nil || err != nil {
			return nc, err
		}
		if c.ServerName == "" {
			c = c.Clone()
			c.ServerName = host
		}
		above := conn{tls.Client(nc, c)}
		if err := above.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS handshake: %w", explainHandshake(err))
		}
		return above, nil
	}
}

// conn explains why the server has refused the client, which with TLS 1.3 it says only after the
// handshake.
type conn struct{ *tls.Conn }

// Read reads from the connection.
func (c conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		err = explainRefusal(err)
	}
	return n, err
}

func explainRefusal(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return fmt.Errorf("%w: the server refuses the client: it may want a certificate (secure.Files.Cert), not out of date, "+
			"of an authority that it trusts; its log says more", err)
	}
	return err
}

// explainHandshake adds advice to the error of a handshake.
func explainHandshake(err error) error {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("%w: the server does not speak TLS on this port: is it the secureClientPort?", err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%w: the server has closed the connection: is this port the secureClientPort?", err)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w: the certificate of its authority has to be in secure.Files.CA or tls.Config.RootCAs", err)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("%w: list the server under a name of its certificate, or renew that with this name", err)
	}
	if bad, ok := errors.AsType[x509.CertificateInvalidError](err); ok && bad.Reason == x509.Expired {
		return fmt.Errorf("%w: renew the server's certificate", err)
	}
	return explainRefusal(err)
}
