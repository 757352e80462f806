package apachelink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/zkd-project/zkd/jute"
)

// The packets of a login: QuorumAuthPacket of Apache's zookeeper.jute.
const (
	authMagic      = 0x5f2435013501edcc
	authInProgress = 0
	authSuccess    = 1
	authError      = -1
	maxToken       = 4096
)

// ErrRefused means that the leader does not know the user, or that the password is wrong.
var ErrRefused = errors.New("the server refused the login: compare user and password, or the principal, with its section QuorumServer; its log says more")

// Mechanism is the client's side of a login by SASL. It is that of package client/sasl.
type Mechanism interface {
	Step(challenge []byte) (answer []byte, done bool, err error)
}

// Login logs in to the server at the other end of a link that was just made.
func Login(link io.ReadWriter, m Mechanism) error {
	var token []byte
	for success := false; ; {
		answer, done, err := m.Step(token)
		switch {
		case err != nil:
			return err
		case success && done && answer == nil:
			return nil
		case success || done && answer == nil:
			return errEnd
		}
		if err := sendToken(link, answer); err != nil {
			return err
		}
		if token, success, err = readToken(link); err != nil {
			return err
		}
		if done && !success {
			return errEnd
		}
		if done {
			return nil
		}
	}
}

var errEnd = errors.New("the server ended the login too early or too late")

func sendToken(w io.Writer, token []byte) error {
	b := binary.BigEndian.AppendUint64(nil, authMagic)
	_, err := w.Write(jute.AppendBuffer(jute.AppendInt32(b, int32(authInProgress)), token))
	return err
}

// readToken returns the server's next token, and whether it accepts the login.
func readToken(r io.Reader) (token []byte, success bool, err error) {
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, false, fmt.Errorf("no answer to the login: %w: does the server have SASL (quorum.auth.enableSasl)?", err)
	}
	if magic := binary.BigEndian.Uint64(head[:]); magic != authMagic {
		return nil, false, errors.New("no answer to the login, but something else: the server has no SASL")
	}
	n := int32(binary.BigEndian.Uint32(head[12:]))
	if n > maxToken {
		return nil, false, fmt.Errorf("a token of %d bytes", n)
	}
	token = make([]byte, max(n, 0))
	if _, err := io.ReadFull(r, token); err != nil {
		return nil, false, err
	}
	switch status := int32(binary.BigEndian.Uint32(head[8:])); status {
	case authInProgress, authSuccess:
		return token, status == authSuccess, nil
	case authError:
		return nil, false, ErrRefused
	default:
		return nil, false, fmt.Errorf("status %d in a login", status)
	}
}
