package client

import (
	"errors"
	"fmt"
	"io"

	"github.com/zkd-project/zkd/jute"
)

// SASLMechanism is the client's end of one SASL exchange: see DigestMD5. If it
// has a String method, errors name it so.
//
// An error of Step fails the connection, and the next server is tried. If it
// wraps ErrAuthFailed it ends the session.
//
// Kerberos (GSSAPI, RFC 4752) needs a library, which this package does not
// import. With github.com/jcmturner/gokrb5/v8, and k made for each connection by
// Options.SASL with the server's name as k.host, it takes two steps:
//
//	func (k *kerberos) Step(challenge []byte) ([]byte, bool, error) {
//		if k.ticket == nil { // first: the ticket for the server
//			ticket, key, err := k.client.GetServiceTicket("zookeeper/" + k.host)
//			if err != nil {
//				return nil, false, err
//			}
//			k.ticket, k.key = &ticket, key
//			token, err := spnego.NewKRB5TokenAPREQ(k.client, ticket, key, []int{gssapi.ContextFlagInteg}, nil)
//			if err != nil {
//				return nil, false, err
//			}
//			b, err := token.Marshal()
//			return b, false, err
//		}
//		// Then the choice of a security layer: the server's offer comes wrapped,
//		// and the answer is that there is none.
//		var offer gssapi.WrapToken
//		if err := offer.Unmarshal(challenge, true); err != nil {
//			return nil, false, err
//		}
//		if _, err := offer.Verify(k.key, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil {
//			return nil, false, err
//		}
//		answer, err := gssapi.NewInitiatorWrapToken([]byte{1, 0, 0, 0}, k.key)
//		if err != nil {
//			return nil, false, err
//		}
//		b, err := answer.Marshal()
//		return b, true, err
//	}
type SASLMechanism interface {
	// Step takes the server's challenge, nil at first, and returns the answer,
	// which is sent even if it is empty. done tells that the exchange ends with
	// it: the server will confirm the answer, or refuse it, and its token is of no
	// interest any more. If the answer is nil, then nothing is sent, and the server
	// counts as authenticated, too.
	Step(challenge []byte) (answer []byte, done bool, err error)
}

// What a server says with a null token in place of a challenge.
var (
	errNoSASL = errors.New("the server has no SASL: give it a Server section in its JAAS configuration, " +
		"or set Options.SASLOptional")
	errSASLIgnored = errors.New("the server refused the SASL credentials, and serves the client as one without any " +
		"(zookeeper.allowSaslFailedClients): check the user's name and password")
)

// sasl authenticates the connection before it is used. wire.md section 17.
func (l *link) sasl(in *frames, host string) error {
	m, err := l.s.opts.SASL(host)
	if err != nil {
		return fmt.Errorf("SASL: %w", err)
	}
	if err := l.saslExchange(in, m); err != nil {
		if errors.Is(err, errNoSASL) && l.s.opts.SASLOptional {
			return nil
		}
		if named, ok := m.(fmt.Stringer); ok {
			return fmt.Errorf("SASL %v: %w", named, err)
		}
		return fmt.Errorf("SASL: %w", err)
	}
	return nil
}

func (l *link) saslExchange(in *frames, m SASLMechanism) error {
	var challenge []byte
	for xid := int32(1); ; xid++ {
		answer, done, err := m.Step(challenge)
		if err != nil {
			return err
		}
		if done && answer == nil {
			return nil
		}
		if challenge, err = l.saslSend(in, xid, answer); err != nil {
			return err
		}
		switch {
		case done:
			return nil
		case challenge == nil && xid == 1:
			return errNoSASL
		case challenge == nil:
			return errSASLIgnored
		}
	}
}

// saslSend sends one token and returns the server's.
func (l *link) saslSend(in *frames, xid int32, token []byte) ([]byte, error) {
	if token == nil {
		token = []byte{} // Apache takes no null
	}
	b, mark := jute.BeginFrame(nil)
	h := jute.RequestHeader{Xid: xid, Type: jute.OpSASL}
	r := jute.SASLToken{Token: token}
	if _, err := l.nc.Write(jute.EndFrame(r.Append(h.Append(b)), mark)); err != nil {
		return nil, fmt.Errorf("send token: %w", err)
	}
	frame, err := in.next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the server closed the connection instead of an answer")
		}
		return nil, err
	}
	return saslReply(frame, xid)
}

// saslReply reads the server's answer to a token. A null token is nil.
func saslReply(frame []byte, xid int32) ([]byte, error) {
	d := jute.NewDecoder(frame)
	var h jute.ReplyHeader
	var r jute.SASLToken
	h.Decode(&d)
	switch {
	case d.Err() != nil:
		return nil, fmt.Errorf("decode reply: %w", d.Err())
	case h.Xid != xid:
		return nil, fmt.Errorf("a reply with xid %d where that to xid %d was due", h.Xid, xid)
	case h.Err == ErrAuthFailed || h.Err == ErrSASLRequired:
		return nil, fmt.Errorf("%w: the server refused the credentials: check the user's name and password, "+
			"and the Server section of the server's JAAS configuration; the server's log says more", ErrAuthFailed)
	case h.Err != 0:
		return nil, h.Err
	}
	if r.Decode(&d); d.Err() != nil {
		return nil, fmt.Errorf("decode reply: %w", d.Err())
	}
	return r.Token, nil
}
