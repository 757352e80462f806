package line

import (
	"bytes"
	"slices"
	"testing"
)

// TestLongBuffer checks that a buffer has the appended bytes, in order, in at most a
// third more memory than its length.
func TestLongBuffer(t *testing.T) {
	for _, size := range []int{100, 5_000, 100_000, 250_000, bufferFull, 1_000_000, 5_000_000} {
		var o Buffer
		var want []byte
		for i := 0; len(want) < 20<<20; i++ {
			frame := bytes.Repeat([]byte{byte(i)}, size)
			want = append(want, frame...)
			o.b = append(o.chunk(), frame...)
		}
		held := cap(o.b)
		for _, b := range o.full {
			held += cap(b)
		}
		if got := slices.Concat(append(o.full, o.b)...); !bytes.Equal(got, want) || o.Len() != len(want) {
			t.Errorf("frames of %d bytes: there are %d bytes (it says %d), want the same %d", size, len(got), o.Len(), len(want))
		}
		if most := len(want)*4/3 + 2*bufferPooled; held > most {
			t.Errorf("frames of %d bytes: %d bytes hold %d, want at most %d", size, held, len(want), most)
		}
	}
}
