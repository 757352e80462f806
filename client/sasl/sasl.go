package sasl

import (
	"errors"
	"fmt"
	"io"

	"github.com/zkd-project/zkd/jute"
)

// Mechanism is the client's side of one SASL exchange: see DigestMD5. If it has a
// String method, errors use it to name the mechanism.
//
// An error of Step fails the connection, and the client tries the next server. An
// error that wraps jute.ErrAuthFailed ends the session.
//
// SCRAM is in package client/sasl/scram, Kerberos in client/sasl/kerberos.
type Mechanism interface {
	// Step takes the server's challenge, which is nil the first time, and returns
	// the answer, which is sent even if it is empty. done means that this answer
	// ends the exchange: the server confirms or refuses it, and the token in its
	// reply is ignored. If done is true and the answer is nil, nothing is sent, and
	// the server counts as authenticated as well.
	Step(challenge []byte) (answer []byte, done bool, err error)
}

// The reasons why a login fails that are the server's.
var (
	// ErrNoSASL means that the server has no SASL: it answers with a null token instead of a
	// challenge.
	ErrNoSASL = errors.New("the server has no SASL: give it users (with Apache's server, a Server section in its JAAS " +
		"configuration), or connect without")
	// ErrRefused means that the server refused the credentials.
	ErrRefused = errors.New("the server refused the credentials")
)

var (
	errNeedsTLS = errors.New("the password would be sent in plain text: set Options.Secure")
	errIgnored  = fmt.Errorf("%w, and serves the client as one without any (zookeeper.allowSaslFailedClients): check the user's name and password", ErrRefused)
)

// Conn is a connection on which nothing but the connect request and its answer have
// been exchanged.
type Conn struct {
	io.Writer
	// Next returns the payload of the next frame from the server.
	Next func() ([]byte, error)
	// TLS means that the connection has TLS. Without it, Plain fails.
	TLS bool
}

// Authenticate runs the exchange of the mechanism that begin returns for the server.
// If optional is true, it returns nil for a server that has no SASL. The frames are
// described in section 17 of docs/dev/spec/wire.md.
func Authenticate(c Conn, server string, begin func(server string) (Mechanism, error), optional bool) error {
	m, err := begin(server)
	if err != nil {
		return fmt.Errorf("SASL: %w", err)
	}
	if _, needed := m.(interface{ needsTLS() }); needed && !c.TLS {
		return fmt.Errorf("SASL %v: %w", m, errNeedsTLS)
	}
	err = c.exchange(m)
	if err == nil || optional && errors.Is(err, ErrNoSASL) {
		return nil
	}
	if named, ok := m.(fmt.Stringer); ok {
		return fmt.Errorf("SASL %v: %w", named, err)
	}
	return fmt.Errorf("SASL: %w", err)
}

func (c Conn) exchange(m Mechanism) error {
	var challenge []byte
	for xid := int32(1); ; xid++ {
		answer, done, err := m.Step(challenge)
		if err != nil {
			return err
		}
		if done && answer == nil {
			return nil
		}
		if challenge, err = c.send(xid, answer); err != nil {
			return err
		}
		switch {
		case done:
			return nil
		case challenge == nil && xid == 1:
			return ErrNoSASL
		case challenge == nil:
			return errIgnored
		}
	}
}

// send sends one token and returns the server's.
func (c Conn) send(xid int32, token []byte) ([]byte, error) {
	if token == nil {
		token = []byte{} // Apache takes no null
	}
	b, mark := jute.BeginFrame(nil)
	h := jute.RequestHeader{Xid: xid, Type: jute.OpSASL}
	r := jute.SASLToken{Token: token}
	if _, err := c.Write(jute.EndFrame(r.Append(h.Append(b)), mark)); err != nil {
		return nil, fmt.Errorf("send token: %w", err)
	}
	frame, err := c.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the server closed the connection instead of an answer")
		}
		return nil, err
	}
	return readReply(frame, xid)
}

// readReply reads the server's answer to a token. A null token is nil.
func readReply(frame []byte, xid int32) ([]byte, error) {
	d := jute.NewDecoder(frame)
	var h jute.ReplyHeader
	var r jute.SASLToken
	h.Decode(&d)
	switch {
	case d.Err() != nil:
		return nil, fmt.Errorf("decode reply: %w", d.Err())
	case h.Xid != xid:
		return nil, fmt.Errorf("a reply with xid %d where that to xid %d was due", h.Xid, xid)
	case h.Err == jute.ErrAuthFailed || h.Err == jute.ErrSessionClosedRequireSASL:
		return nil, fmt.Errorf("%w: %w: check the user's name and password, "+
			"and the Server section of the server's JAAS configuration; the server's log says more", jute.ErrAuthFailed, ErrRefused)
	case h.Err != 0:
		return nil, h.Err
	}
	if r.Decode(&d); d.Err() != nil {
		return nil, fmt.Errorf("decode reply: %w", d.Err())
	}
	return r.Token, nil
}
