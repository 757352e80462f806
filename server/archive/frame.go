package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/zkd-project/zkd/internal/format"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/zab"
)

const (
	magic      = "zkdlog\r\n"
	headerSize = 48
	frameSize  = 28 // without data
	maxData    = 256 << 20

	kindEntry    = 0
	kindPosition = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged means that bytes of a segment or of a stream are wrong.
var ErrDamaged = errors.New("checksum or chain of entries is wrong")

// Header begins a segment or a stream.
type Header struct {
	History history.ID
	After   jute.Zxid // of the entry before the first
	Last    jute.Zxid // of the last entry; 0 in a stream
}

// Encoder encodes one segment or stream.
type Encoder struct{ crc uint32 }

// AppendHeader begins a segment or a stream.
func (e *Encoder) AppendHeader(b []byte, h *Header) []byte {
	from := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, format.Archive.Writes())
	b = append(b, h.History[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.After))
	e.crc = crc32.Checksum(b[from:], castagnoli)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Last))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

// AppendEntry appends the next entry.
func (e *Encoder) AppendEntry(b []byte, entry *zab.Entry) []byte {
	return e.frame(b, kindEntry, entry)
}

// AppendPosition says that all up to zxid was sent. Of a copy, behind is how long ago it had all that the servers have that
// it follows.
func (e *Encoder) AppendPosition(b []byte, zxid jute.Zxid, behind time.Duration) []byte {
	return e.frame(b, kindPosition, &zab.Entry{Zxid: zxid, Prev: jute.Zxid(behind.Milliseconds())})
}

func (e *Encoder) frame(b []byte, kind byte, entry *zab.Entry) []byte {
	from := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(entry.Data)))
	b = append(b, kind, byte(entry.Type), 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(entry.Zxid))
	b = binary.LittleEndian.AppendUint64(b, uint64(entry.Prev))
	e.crc = crc32.Update(crc32.Update(e.crc, castagnoli, b[from:]), castagnoli, entry.Data)
	b = binary.LittleEndian.AppendUint32(b, e.crc)
	return append(b, entry.Data...)
}

// Decoder reads a segment or a stream.
type Decoder struct {
	Header
	At     jute.Zxid     // of the last entry that was read
	Behind time.Duration // of the last position: see AppendPosition

	r   io.Reader
	crc uint32
}

// NewDecoder reads a header. The reader should have a buffer.
func NewDecoder(r io.Reader) (*Decoder, error) {
	var b [headerSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return nil, noEOF(err)
	}
	if string(b[:8]) != magic {
		return nil, fmt.Errorf("it does not begin as a log does: %w", ErrDamaged)
	}
	if crc32.Checksum(b[:44], castagnoli) != binary.LittleEndian.Uint32(b[44:]) {
		return nil, fmt.Errorf("header: %w", ErrDamaged)
	}
	if err := format.Archive.Check(binary.LittleEndian.Uint32(b[8:])); err != nil {
		return nil, err
	}
	d := &Decoder{r: r, crc: crc32.Checksum(b[:36], castagnoli)}
	copy(d.History[:], b[12:])
	d.After = jute.Zxid(binary.LittleEndian.Uint64(b[28:]))
	d.Last = jute.Zxid(binary.LittleEndian.Uint64(b[36:]))
	d.At = d.After
	return d, nil
}

// Next returns the next entry, or nil for a position. The caller owns the data. The error is
// io.EOF at the end of a segment, and where a stream ends after a frame.
func (d *Decoder) Next() (*zab.Entry, error) {
	var b [frameSize]byte
	if _, err := io.ReadFull(d.r, b[:]); err != nil {
		if d.Last != 0 && d.At != d.Last {
			err = noEOF(err)
		}
		return nil, err
	}
	n := binary.LittleEndian.Uint32(b[:])
	e := &zab.Entry{
		Zxid: jute.Zxid(binary.LittleEndian.Uint64(b[8:])),
		Prev: jute.Zxid(binary.LittleEndian.Uint64(b[16:])),
		Type: zab.EntryType(b[5]),
	}
	if n > maxData || b[4] > kindPosition || b[6] != 0 || b[7] != 0 {
		return nil, d.damaged()
	}
	var data bytes.Buffer // grows with what arrives, whatever the length says
	if _, err := io.CopyN(&data, d.r, int64(n)); err != nil {
		return nil, noEOF(err)
	}
	e.Data = data.Bytes()
	crc := crc32.Update(crc32.Update(d.crc, castagnoli, b[:24]), castagnoli, e.Data)
	if crc != binary.LittleEndian.Uint32(b[24:]) {
		return nil, d.damaged()
	}
	if d.crc = crc; b[4] == kindPosition {
		d.Behind = time.Duration(min(uint64(e.Prev), uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
		return nil, nil
	}
	if e.Prev != d.At || e.Zxid <= e.Prev || d.Last != 0 && e.Zxid > d.Last {
		return nil, d.damaged()
	}
	d.At = e.Zxid
	return e, nil
}

func (d *Decoder) damaged() error { return fmt.Errorf("after entry %v: %w", d.At, ErrDamaged) }

// noEOF turns the end of a file where more should be into an error that says so.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
