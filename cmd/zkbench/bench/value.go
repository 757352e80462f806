package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/zkd-project/zkd/jute"
)

// A value identifies the write that made it: eight bytes of key, eight of version, then
// incompressible bytes. Values shorter than these sixteen bytes are cut off.
const valueHeader = 16

// values makes the values of one size and recognizes them.
type values struct {
	size int
	fill []byte // what follows the header
}

func newValues(size int, rng *rand.Rand) *values {
	v := &values{size: size, fill: make([]byte, max(0, size-valueHeader))}
	for i := range v.fill {
		v.fill[i] = byte(rng.Uint32())
	}
	return v
}

func (v *values) header(key int64, version int32) (h [valueHeader]byte) {
	binary.BigEndian.PutUint64(h[:], uint64(key))
	binary.BigEndian.PutUint64(h[8:], uint64(version))
	return h
}

// append appends the value as a jute buffer.
func (v *values) append(b []byte, key int64, version int32) []byte {
	h := v.header(key, version)
	b = jute.AppendInt32(b, int32(v.size))
	b = append(b, h[:min(v.size, valueHeader)]...)
	return append(b, v.fill...)
}

// check compares data with the value that version of key must have.
func (v *values) check(data []byte, key int64, version int32) error {
	if len(data) != v.size {
		return fmt.Errorf("value has %d bytes, want %d", len(data), v.size)
	}
	h := v.header(key, version)
	n := min(v.size, valueHeader)
	if !bytes.Equal(data[:n], h[:n]) {
		return fmt.Errorf("value starts with %x, not with key %d and version %d", data[:n], key, version)
	}
	if !bytes.Equal(data[n:], v.fill) {
		return fmt.Errorf("value differs from what was written, after its first %d bytes", n)
	}
	return nil
}
