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

const (
	// Window is how many bytes of a stream may be sent that the other side has not read.
	Window = 16 << 10
	// MaxStreams is how many streams a connection may have.
	MaxStreams = 4096
	// maxWhose is the longest text of an open.
	maxWhose = 256
)

// The kinds of frames.
const (
	kindOpen byte = iota + 1
	kindData
	kindCredit
	kindEnd
	kindQuit
	kindPings
	kindPongs
	kindUnpinged
)

const (
	headerLen = 1 + 4 + 4
	idLen     = 4 // of a stream, in a frame about many
)

// header is what a frame begins with.
type header struct {
	kind   byte
	stream uint32
	length int
}

func (h *header) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, h.kind), h.stream)
	return binary.BigEndian.AppendUint32(b, uint32(h.length))
}

// decodeHeader decodes the header of a frame. An error means that no frame of this kind has this length.
func decodeHeader(b [headerLen]byte) (header, error) {
	h := header{kind: b[0], stream: binary.BigEndian.Uint32(b[1:])}
	length := binary.BigEndian.Uint32(b[5:])
	least, most := uint32(0), uint32(0)
	switch h.kind {
	case kindOpen:
		most = maxWhose
	case kindData:
		least, most = 1, Window
	case kindCredit:
		least, most = 4, 4
	case kindEnd, kindQuit:
	case kindPings, kindPongs, kindUnpinged:
		least, most = idLen, MaxStreams*idLen
	default:
		return h, fmt.Errorf("a frame of the unknown kind %d", h.kind)
	}
	if length < least || length > most || h.kind >= kindPings && length%idLen != 0 {
		return h, fmt.Errorf("a frame of kind %d with %d bytes, want %d to %d", h.kind, length, least, most)
	}
	h.length = int(length)
	return h, nil
}

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
