package transport

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// Kinds of frames. The numbers are part of the protocol.
const (
	kindKeepAlive uint8 = 1
	kindProbe     uint8 = 2 // requests an echo
	kindEcho      uint8 = 3 // with the sender's wall clock, in ns; without it from earlier versions
	kindMessage   uint8 = 4 // a zab.Message without entries
	kindEntries   uint8 = 5 // a zab.Message whose entries alias the body
	kindApp       uint8 = 6
	kindCredit    uint8 = 7  // number of bulk bytes read since the connection began, in 8 bytes
	kindLong      uint8 = 8  // begins a frame that is cut into pieces: its length in 4 bytes, its kind
	kindPiece     uint8 = 9  // the next bytes of a long frame
	kindHeader    uint8 = 16 // of a stream
	kindData      uint8 = 17
	kindEnd       uint8 = 18
	kindAbort     uint8 = 19 // with the reason
	kindResult    uint8 = 20 // with the text of the error, empty for nil

	// bulk is a flag in the kind of a frame of the bulk lane. The receiver credits these frames,
	// and the data of streams.
	bulk uint8 = 0x80
	// asks is set in addition if the receiver should credit at once.
	asks uint8 = 0x40
)

const (
	frameHead  = 5 // length and kind
	frameTail  = 4 // checksum
	readBuffer = 64 << 10
	// pieceSize is the maximum size of a body in the bulk lane. Longer messages are cut, and
	// control frames go between the pieces.
	pieceSize = 16 << 10
	// firstPiece is the maximum first allocation for a frame, whatever its length field says.
	// More follows as bytes arrive. Batches of the core are about 1 MiB.
	firstPiece = 2 << 20
)

var (
	errFrameLength = &reason{"frame", "a frame's length is not possible"}
	errFrameSum    = &reason{"frame", "a frame's checksum is wrong: the network damaged it"}
	errFrameKind   = &reason{"frame", "a frame of unknown kind, or out of place"}
	errFrameLong   = &reason{"frame", "a message is longer than a frame may be"}
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// beginFrame appends the head of a frame. The caller appends the body and calls endFrame.
func beginFrame(b []byte, kind uint8) []byte { return append(b, 0, 0, 0, 0, kind) }

// endFrame completes the frame that begins at start.
func endFrame(b []byte, start int, sum bool) []byte {
	n := len(b) - start - 4
	if sum {
		n += frameTail
	}
	binary.BigEndian.PutUint32(b[start:], uint32(n))
	if sum {
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	}
	return b
}

// appendFrame appends a whole frame.
func appendFrame(b []byte, kind uint8, body []byte, sum bool) []byte {
	start := len(b)
	return endFrame(append(beginFrame(b, kind), body...), start, sum)
}

// frameReader splits its input into frames.
type frameReader struct {
	r    io.Reader
	sum  bool // frames have a checksum
	max  int  // maximum length of a frame
	buf  []byte
	have []byte // part of buf: read, not yet returned
	head [frameHead]byte
}

func newFrameReader(r io.Reader, sum bool, maxFrame, buffer int) *frameReader {
	return &frameReader{r: r, sum: sum, max: maxFrame, buf: make([]byte, buffer)}
}

// keeps reports whether the receiver of a body keeps it.
func keeps(kind uint8) bool {
	kind &^= bulk | asks
	return kind == kindEntries || kind == kindApp
}

// size returns how many bytes the frame has that was returned last.
func (f *frameReader) size() int { return 4 + int(binary.BigEndian.Uint32(f.head[:])) }

// drained reports whether everything read has been returned: the next frame needs another
// read.
func (f *frameReader) drained() bool { return len(f.have) == 0 }

// next returns the next frame. The body of a kind that the receiver keeps is newly
// allocated; other bodies are valid until the next call.
func (f *frameReader) next() (kind uint8, body []byte, err error) {
	if err := f.fill(frameHead); err != nil {
		return 0, nil, err
	}
	f.head = [frameHead]byte(f.have)
	n := int64(binary.BigEndian.Uint32(f.head[:])) - 1
	tail := 0
	if f.sum {
		tail = frameTail
	}
	if n < int64(tail) || n > int64(f.max) {
		return 0, nil, errFrameLength
	}
	kind = f.head[4]
	if size := frameHead + int(n); !keeps(kind) && size <= len(f.buf) {
		if err := f.fill(size); err != nil {
			return 0, nil, midFrame(err)
		}
		body = f.have[frameHead:size]
		f.have = f.have[size:]
	} else {
		f.have = f.have[frameHead:]
		if body, err = f.read(int(n)); err != nil {
			return 0, nil, midFrame(err)
		}
	}
	return kind, body[:len(body)-tail], f.check(body)
}

// check compares the checksum at the end of a body.
func (f *frameReader) check(body []byte) error {
	if !f.sum {
		return nil
	}
	at := len(body) - frameTail
	sum := crc32.Update(crc32.Checksum(f.head[:], castagnoli), castagnoli, body[:at])
	if sum != binary.BigEndian.Uint32(body[at:]) {
		return errFrameSum
	}
	return nil
}

// fill reads until have holds n bytes, n being at most the buffer's size. It returns an
// error unchanged if no byte of them was read.
func (f *frameReader) fill(n int) error {
	if len(f.have) >= n {
		return nil
	}
	f.have = f.buf[:copy(f.buf, f.have)]
	for len(f.have) < n {
		k, err := f.r.Read(f.have[len(f.have):cap(f.have)])
		f.have = f.have[:len(f.have)+k]
		if err != nil && len(f.have) < n {
			if len(f.have) > 0 {
				err = midFrame(err)
			}
			return err
		}
	}
	return nil
}

// read returns the next n bytes in newly allocated memory.
func (f *frameReader) read(n int) ([]byte, error) {
	b := make([]byte, min(n, firstPiece))
	for got := 0; ; b = append(b, make([]byte, min(n-got, got))...) {
		if err := f.readFull(b[got:]); err != nil {
			return nil, err
		}
		if got = len(b); got == n {
			return b, nil
		}
	}
}

func (f *frameReader) readFull(b []byte) error {
	k := copy(b, f.have)
	f.have = f.have[k:]
	if b = b[k:]; len(b) >= len(f.buf) {
		_, err := io.ReadFull(f.r, b)
		return err
	}
	if err := f.fill(len(b)); err != nil {
		return err
	}
	f.have = f.have[copy(b, f.have):]
	return nil
}

// midFrame converts the end of the connection within a frame to io.ErrUnexpectedEOF.
func midFrame(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
