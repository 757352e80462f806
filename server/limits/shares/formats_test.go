package shares

import (
	"testing"

	"github.com/zkd-project/zkd/internal/testing/golden"
)

// TestFormats reads reports and answers as they were sent once.
func TestFormats(t *testing.T) {
	golden.Run(t, "testdata/formats.golden", map[string]golden.Format{
		"uses": func(b []byte) (any, []byte, error) {
			list, err := DecodeUses(b)
			return list, AppendUses(nil, list), err
		},
		"shares": func(b []byte) (any, []byte, error) {
			list, err := DecodeShares(b)
			return list, AppendShares(nil, list), err
		},
	})
}
