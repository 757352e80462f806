package client

import (
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/jute"
)

// SASLMechanism is the client's end of one SASL exchange.
type SASLMechanism interface {
	// Step takes the server's challenge, nil at first, and returns the answer.
	// done tells that the client has nothing more to send after it.
	Step(challenge []byte) (response []byte, done bool, err error)
}

// sasl authenticates the connection before it is used.
func (l *link) sasl(in *frames, host string) error {
	m, err := l.s.opts.SASL(host)
	if err != nil {
		return fmt.Errorf("SASL: %w", err)
	}
	_ = m
	return errors.Join(jute.ErrAuthFailed)
}
