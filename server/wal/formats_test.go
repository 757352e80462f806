package wal

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/golden"
)

// TestFormats reads the header of a segment, and a record of each kind, as they were written once.
func TestFormats(t *testing.T) {
	const salt = 0x5a5a
	formats := map[string]golden.Format{
		"header": func(b []byte) (any, []byte, error) {
			h, err := decodeHeader(b)
			return h, h.encode(), err
		},
		"reference": func(b []byte) (any, []byte, error) {
			ref, err := decodeSnapRef(0x300000009, b)
			return ref, ref.Record().Payload, err
		},
	}
	for k := Append; k <= lastKind; k++ {
		formats[k.String()] = func(b []byte) (any, []byte, error) {
			var f frame
			if err := f.decode(b, salt); err != nil {
				return nil, nil, err
			}
			if f.Kind != k {
				return nil, nil, fmt.Errorf("it is of kind %v", f.Kind)
			}
			again, _ := appendFrame(nil, salt, &f)
			return f, again, nil
		}
	}
	golden.Run(t, "testdata/formats.golden", formats)
}
