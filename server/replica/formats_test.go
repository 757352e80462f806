package replica

import (
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/golden"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// TestFormats reads frames as they were written once, without the epoch at their begin.
func TestFormats(t *testing.T) {
	golden.Run(t, "testdata/formats.golden", map[string]golden.Format{
		"submissions": func(b []byte) (any, []byte, error) {
			list, err := decodeSubmissions(nil, b, time.Second)
			return list, appendSubmissions(nil, list), err
		},
		"barriers": func(b []byte) (any, []byte, error) {
			list, err := decodeBarriers(nil, b)
			var again []byte
			for i := range list {
				again = appendBarrier(again, &list[i])
			}
			return list, again, err
		},
		"touches": func(b []byte) (any, []byte, error) {
			beat, list, err := decodeReport(nil, b)
			again := beginReport(nil, beat)
			for _, x := range list {
				again = appendTouch(again, x)
			}
			return struct {
				Beat    uint64
				Touches []Touch
			}{beat, list}, again, err
		},
		"digest": func(b []byte) (any, []byte, error) {
			zxid, d, err := decodeDigest(b)
			return struct {
				Zxid   jute.Zxid
				Digest datatree.Digest
			}{zxid, d}, appendDigest(nil, zxid, d), err
		},
		"confirmed": func(b []byte) (any, []byte, error) {
			list, err := decodeConfirmed(nil, b)
			var again []byte
			for _, x := range list {
				again = appendConfirmed(again, x)
			}
			return list, again, err
		},
		"fence": func(b []byte) (any, []byte, error) {
			service, err := decodeFence(b)
			return service, appendFence(nil, service), err
		},
	})
}
