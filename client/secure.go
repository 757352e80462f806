package client

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

// dial opens a connection to a server at one of its addresses, with TLS if the options require it.
func (s *session) dial(ctx context.Context, server, addr string) (net.Conn, error) {
	nc, err := s.opts.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(server)
	above, err := s.secure(ctx, nc, host)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return above, nil
}

// secure adds TLS to a connection, if the options require it.
func (s *session) secure(ctx context.Context, nc net.Conn, host string) (net.Conn, error) {
	cfg, err := s.tlsConfig(host)
	if cfg == nil || err != nil {
		return nc, err
	}
	tc := tls.Client(nc, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		return nc, fmt.Errorf("TLS handshake: %w", explainTLS(err))
	}
	return tc, nil
}

// tlsConfig returns the configuration for a server, or nil for plain TCP.
func (s *session) tlsConfig(host string) (*tls.Config, error) {
	cfg := s.opts.TLS
	if s.opts.TLSFor != nil {
		var err error
		if cfg, err = s.opts.TLSFor(host); err != nil {
			return nil, fmt.Errorf("Options.TLSFor: %w", err)
		}
	}
	if cfg != nil && cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	return cfg, nil
}

// explainTLS adds advice to an error of TLS.
func explainTLS(err error) error {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("%w: the server does not speak TLS on this port: is it the secureClientPort?", err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%w: the server has closed the connection: is this port the secureClientPort?", err)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w: the certificate of its authority has to be in TLSFiles.CA or tls.Config.RootCAs", err)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("%w: list the server under a name of its certificate, or renew that with this name", err)
	}
	if bad, ok := errors.AsType[x509.CertificateInvalidError](err); ok && bad.Reason == x509.Expired {
		return fmt.Errorf("%w: renew the server's certificate", err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return fmt.Errorf("%w: the server refuses the client: it may want a certificate (TLSFiles.Cert), not out of date, "+
			"of an authority that it trusts; its log says more", err)
	}
	return err
}
