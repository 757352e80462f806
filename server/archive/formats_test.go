package archive

import (
	"bytes"
	"io"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/golden"
	"github.com/zkd-project/zkd/server/zab"
)

// TestFormats reads a segment of a backup and the stream of a log, with positions, as they were written once.
func TestFormats(t *testing.T) {
	type content struct {
		Header  Header
		Entries []*zab.Entry // nil is a position
	}
	read := func(b []byte) (any, []byte, error) {
		d, err := NewDecoder(bytes.NewReader(b))
		if err != nil {
			return nil, nil, err
		}
		c := content{Header: d.Header}
		var enc Encoder
		again := enc.AppendHeader(nil, &d.Header)
		for {
			e, err := d.Next()
			if err == io.EOF {
				return c, again, nil
			}
			if err != nil {
				return nil, nil, err
			}
			c.Entries = append(c.Entries, e)
			if e == nil {
				again = enc.AppendPosition(again, d.At, d.Behind)
			} else {
				again = enc.AppendEntry(again, e)
			}
		}
	}
	golden.Run(t, "testdata/formats.golden", map[string]golden.Format{"segment": read, "stream": read})
}
