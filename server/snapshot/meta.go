package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/zkd-project/zkd/jute"
)

const formatVersion = 1

// Meta is what a snapshot says of itself.
type Meta struct {
	// Zxid is the last transaction that the snapshot contains.
	Zxid jute.Zxid `codec:"zxid"`
	// Epoch is the epoch in which it was taken.
	Epoch uint32 `codec:"epoch"`
	// Time is when it was taken, ms since the Unix epoch.
	Time int64 `codec:"time"`
	// Digest is a digest of the content, opaque here. The caller compares it
	// with that of the state that it has loaded.
	Digest []byte `codec:"digest"`
	// Extra is whatever else belongs to the state, by name: the cluster's id,
	// the ensemble's configuration, the table of epochs.
	Extra map[string][]byte `codec:"extra"`
}

// fits returns an error if the snapshot is not the one that ref names.
func (m *Meta) fits(ref *Ref) error {
	if m.Zxid != ref.Zxid || !slices.Equal(m.Digest, ref.Digest) {
		return fmt.Errorf("it is the snapshot of zxid %v with digest %x, not of %v with %x", m.Zxid, m.Digest, ref.Zxid, ref.Digest)
	}
	return nil
}

// SectionCount is the number of keys of a section.
type SectionCount struct {
	Name  string `codec:"name"`
	Count int64  `codec:"count"`
}

// complete is the value of meta/complete.
type complete struct {
	Sections []SectionCount `codec:"sections"` // in the order in which they were written
}

// encode returns the canonical msgpack form of v, which equal values share.
func encode(v any) ([]byte, error) {
	var b []byte
	h := &codec.MsgpackHandle{WriteExt: true}
	h.Canonical = true
	err := codec.NewEncoderBytes(&b, h).Encode(v)
	return b, err
}

// decode reads what encode wrote. The decoder allocates no more than a small
// multiple of b. It refuses b if it is not exactly what encode would write.
func decode(b []byte, v any) error {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.MaxInitLen = 1024
	if err := codec.NewDecoderBytes(b, h).Decode(v); err != nil {
		return err
	}
	again, err := encode(v)
	if err == nil && !bytes.Equal(again, b) {
		err = errors.New("not in canonical form")
	}
	return err
}

// metaBucket collects the entries of the bucket meta.
type metaBucket map[string][]byte

func (m metaBucket) read() (meta Meta, done complete, err error) {
	if f := m["format"]; !slices.Equal(f, []byte{formatVersion}) {
		return meta, done, fmt.Errorf("meta/format is %v, want version %d", f, formatVersion)
	}
	if m["complete"] == nil {
		return meta, done, errors.New("meta/complete is missing: the file was never finished")
	}
	if err = decode(m["info"], &meta); err != nil {
		return meta, done, fmt.Errorf("decode meta/info: %w", err)
	}
	if err = decode(m["complete"], &done); err != nil {
		return meta, done, fmt.Errorf("decode meta/complete: %w", err)
	}
	return meta, done, nil
}
