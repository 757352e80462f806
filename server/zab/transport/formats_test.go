package transport

import (
	"bytes"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/golden"
)

// TestFormats reads hellos and verdicts as they were sent once, without what newer ones have beside, and frames with their head.
func TestFormats(t *testing.T) {
	whole := func(b []byte, v any) (any, []byte, error) {
		if err := decodeRecord(b[4:], v); err != nil {
			return nil, nil, err
		}
		again, err := appendRecord(nil, v)
		return v, again, err
	}
	frame := func(sum bool) golden.Format {
		return func(b []byte) (any, []byte, error) {
			kind, body, err := newFrameReader(bytes.NewReader(b), sum, 1000, 1000).next()
			return struct {
				Kind uint8
				Body []byte
			}{kind, body}, appendFrame(nil, kind, body, sum), err
		}
	}
	golden.Run(t, "testdata/formats.golden", map[string]golden.Format{
		"hello":   func(b []byte) (any, []byte, error) { return whole(b, new(helloRecord)) },
		"verdict": func(b []byte) (any, []byte, error) { return whole(b, new(verdictRecord)) },
		"frame":   frame(false),
		"summed":  frame(true),
	})
}
