package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/zkd-project/zkd/client/sasl"
	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/jute"
)

// ErrRefused is wrapped when the server closes a connection instead of
// answering the connect request. Its limit of connections per address is the
// usual reason (maxClientCnxns, 60 by default).
var ErrRefused = errors.New("server closed the connection during the handshake (is maxClientCnxns reached?)")

// session is an established session on its connection.
type session struct {
	nc      net.Conn
	id      jute.SessionID
	timeout time.Duration // as negotiated
	passwd  []byte        // resumes it on another connection
}

// hello is what the connect request asks for.
type hello struct {
	timeout  time.Duration // of the session, as requested
	patience time.Duration // until the connect response; 0: as long as timeout
	resume   *session      // nil: a new session
	zxid     int64         // last one seen
	security Security
}

// open connects to addr and establishes a session.
func open(ctx context.Context, addr string, h hello) (session, error) {
	if h.patience == 0 {
		h.patience = h.timeout
	}
	d := net.Dialer{Timeout: h.patience, KeepAlive: -1}
	if h.security.From != nil {
		d.LocalAddr = &net.TCPAddr{IP: h.security.From}
	}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return session{}, err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	s, err := secureAndConnect(nc, addr, h)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		nc.Close()
		return session{}, fmt.Errorf("open a session on %s: %w", addr, err)
	}
	return s, nil
}

// secureAndConnect does the handshake of TLS, if that is wanted, and then establishes a
// session.
func secureAndConnect(nc net.Conn, addr string, h hello) (session, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return session{}, err
	}
	if h.security.TLS == nil {
		return handshake(nc, host, h)
	}
	config, err := h.security.TLS(host)
	if err != nil {
		return session{}, err
	}
	return handshake(tls.Client(nc, config), host, h)
}

// saslReply is the size of the largest frame that a login needs.
const saslReply = 8 << 10

// handshake establishes a session on nc, and logs in if that is wanted. If it fails, the caller
// closes nc.
func handshake(nc net.Conn, host string, h hello) (session, error) {
	if err := nc.SetDeadline(time.Now().Add(h.patience)); err != nil {
		return session{}, err
	}
	if _, err := nc.Write(appendConnect(make([]byte, 0, 64), h)); err != nil {
		return session{}, fmt.Errorf("write connect request: %w", err)
	}
	most := 124
	if h.security.SASL != nil {
		most = saslReply
	}
	in := newFrames(nc, most)
	reply, err := nextFrame(in)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = ErrRefused
		}
		return session{}, fmt.Errorf("read connect response: %w", err)
	}
	s := session{nc: nc}
	if err := s.established(reply); err != nil {
		return session{}, err
	}
	if begin := h.security.SASL; begin != nil {
		if err := sasl.Authenticate(sasl.Conn{Writer: nc, Next: func() ([]byte, error) { return nextFrame(in) }, TLS: h.security.TLS != nil}, host, begin, false); err != nil {
			return session{}, err
		}
	}
	for _, auth := range h.security.Auth {
		if err := authenticate(nc, in, auth); err != nil {
			return session{}, err
		}
	}
	if n := in.Buffered(); n > 0 {
		return session{}, fmt.Errorf("%w: %d bytes after the session is established", ErrProtocol, n)
	}
	in.Release()
	return s, nc.SetDeadline(time.Time{})
}

// authenticate gives the session an identity.
func authenticate(nc net.Conn, in *frames.Reader, auth Auth) error {
	body := jute.AuthRequest{Scheme: auth.Scheme, Auth: auth.Data}
	request := body.Append(beginFrame(nil, jute.XidAuth))
	endFrame(request, 0, jute.OpAuth)
	if _, err := nc.Write(request); err != nil {
		return fmt.Errorf("write auth request: %w", err)
	}
	reply, err := nextFrame(in)
	if err != nil {
		return fmt.Errorf("read auth response: %w", err)
	}
	var header jute.ReplyHeader
	d := jute.NewAliasDecoder(reply)
	header.Decode(&d)
	switch {
	case d.Err() != nil || header.Xid != jute.XidAuth:
		return fmt.Errorf("%w: no answer to auth, but %x", ErrProtocol, reply)
	case header.Err != 0:
		return fmt.Errorf("the server refuses the identity of scheme %q: %w", auth.Scheme, header.Err)
	}
	return nil
}

// appendConnect appends the connect request.
func appendConnect(b []byte, h hello) []byte {
	id, passwd := jute.SessionID(0), make([]byte, 16)
	if h.resume != nil {
		id, passwd = h.resume.id, h.resume.passwd
	}
	b = jute.AppendInt32(b, int32(45)) // length of the frame
	b = jute.AppendInt32(b, int32(0))  // protocol version
	b = jute.AppendInt64(b, h.zxid)
	b = jute.AppendInt32(b, int32(h.timeout.Milliseconds()))
	b = jute.AppendInt64(b, int64(id))
	b = jute.AppendBuffer(b, passwd)
	return jute.AppendBool(b, false) // not read-only
}

// established takes the session from a connect response.
func (s *session) established(reply []byte) error {
	d := jute.NewAliasDecoder(reply)
	d.Int32() // protocol version
	ms := d.Int32()
	s.id = jute.SessionID(d.Int64())
	passwd := d.Buffer()
	d.Bool() // read-only
	switch {
	case d.Err() != nil:
		return fmt.Errorf("decode connect response: %w", d.Err())
	case len(d.Rest()) != 0:
		return fmt.Errorf("connect response has %d bytes too many", len(d.Rest()))
	case s.id == 0 || ms <= 0:
		return fmt.Errorf("connect: %w", jute.ErrSessionExpired)
	case len(passwd) != 16:
		return fmt.Errorf("connect response has a password of %d bytes, want 16", len(passwd))
	}
	s.timeout = time.Duration(ms) * time.Millisecond
	s.passwd = slices.Clone(passwd)
	return nil
}

func newFrames(r io.Reader, most int) *frames.Reader {
	return frames.New(r, most, "as zkbench expects")
}

// nextFrame returns the payload of the next frame, valid until the next call.
// io.EOF means that the stream ended between two frames.
func nextFrame(in *frames.Reader) ([]byte, error) {
	frame, err := in.AwaitFrame()
	switch _, wrong := errors.AsType[*frames.LengthError](err); {
	case wrong:
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	case err == io.EOF && in.Buffered() > 0:
		return nil, io.ErrUnexpectedEOF
	}
	return frame, err
}
