package datadirs

import (
	"testing"

	"github.com/zkd-project/zkd/internal/testing/golden"
)

// TestFormats reads what names a log and a directory as it was written once.
func TestFormats(t *testing.T) {
	golden.Run(t, "testdata/formats.golden", map[string]golden.Format{
		"identity": func(b []byte) (any, []byte, error) {
			id, err := DecodeIdentity(b)
			return id, id.Encode(), err
		},
		"owner": func(b []byte) (any, []byte, error) {
			o, err := DecodeOwner(b)
			return o, o.Encode(), err
		},
	})
}
