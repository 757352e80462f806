package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// Greeting is what a connection begins with, in both directions. As the length of a request it would be 2 GB.
var Greeting = [4]byte{'z', 'm', 'u', 'x'}

// version is what follows the greeting. A server answers with the version that it speaks.
const version = 1

// ErrPlain is that the other side does not carry streams.
var ErrPlain = errors.New("the server takes one session for each connection")

// greeting is what both sides begin with.
func greeting() []byte { return binary.BigEndian.AppendUint32(Greeting[:], version) }

// Greet sends the greeting, and takes the answer. An error that is ErrPlain means that the other side does not carry
// streams. The caller sets deadlines.
func Greet(nc net.Conn) error {
	if _, err := nc.Write(greeting()); err != nil {
		return err
	}
	return takeGreeting(nc)
}

// takeGreeting reads the greeting of the other side.
func takeGreeting(r io.Reader) error {
	var b [8]byte
	_, err := io.ReadFull(r, b[:])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET): // a reset if the server has not read all of the greeting
		return ErrPlain
	case err != nil:
		return err
	}
	if [4]byte(b[:]) != Greeting || binary.BigEndian.Uint32(b[4:]) != version {
		return fmt.Errorf("%w: its greeting is %q", ErrPlain, b)
	}
	return nil
}
