package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

// chunkReader returns its data in pieces of random size.
type chunkReader struct {
	data []byte
	rng  *rand.Rand
}

func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(r.data), 1+r.rng.IntN(9000))
	copy(p, r.data[:n])
	r.data = r.data[n:]
	return n, nil
}

func TestFrameReaderCutsAnyStream(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var stream []byte
		var want [][]byte
		for range 60 {
			size := rng.IntN(200)
			if rng.IntN(10) == 0 {
				size = rng.IntN(200_000)
			}
			frame := make([]byte, size)
			for i := range frame {
				frame[i] = byte(rng.Uint32())
			}
			want = append(want, frame)
			stream = binary.BigEndian.AppendUint32(stream, uint32(size))
			stream = append(stream, frame...)
		}
		f := New(&chunkReader{stream, rng}, 200_000)
		for i, w := range want {
			got, err := f.AwaitFrame()
			if err != nil || !bytes.Equal(got, w) {
				t.Fatalf("seed %d frame %d: %d bytes, %v; want %d bytes", seed, i, len(got), err, len(w))
			}
		}
		if _, err := f.AwaitFrame(); err != io.EOF {
			t.Fatalf("seed %d: after the last frame: %v", seed, err)
		}
	}
}

func TestFrameReaderRefusesImpossibleLengths(t *testing.T) {
	for _, length := range []uint32{101, 0x7fffffff, 0x80000000, 0xffffffff} {
		f := New(bytes.NewReader(binary.BigEndian.AppendUint32(nil, length)), 100)
		_, err := f.AwaitFrame()
		if _, ok := errors.AsType[errLength](err); !ok {
			t.Errorf("length %#x: %v", length, err)
		}
	}
}

// TestLargestFrame: a request of jute.maxbuffer bytes is read, and a longer one ends its connection, whatever the limit.
func TestLargestFrame(t *testing.T) {
	const usual, most = 0xfffff, 64 << 20 // of jute.maxbuffer
	for _, limit := range []int{usual, most} {
		for _, size := range []int{limit, limit + 1} {
			frame := binary.BigEndian.AppendUint32(nil, uint32(size))
			f := New(bytes.NewReader(append(frame, make([]byte, size)...)), limit)
			got, err := f.AwaitFrame()
			if _, refused := errors.AsType[errLength](err); refused != (size > limit) || !refused && len(got) != size {
				t.Errorf("a request of %d bytes with a limit of %d: %d bytes, %v", size, limit, len(got), err)
			}
		}
	}
}

// TestFrameReaderShrinks checks that a connection that was busy and is now idle does not
// keep its large buffer.
func TestFrameReaderShrinks(t *testing.T) {
	big := binary.BigEndian.AppendUint32(nil, 500_000)
	big = append(big, make([]byte, 500_000)...)
	small := append(binary.BigEndian.AppendUint32(nil, 8), make([]byte, 8)...)
	readers := []io.Reader{bytes.NewReader(big)}
	for range 40 {
		readers = append(readers, bytes.NewReader(small))
	}
	f := New(io.MultiReader(readers...), 1<<20)
	for range 41 {
		if _, err := f.AwaitFrame(); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.buf) != idleBuffer {
		t.Errorf("buffer has %d bytes after 40 small frames, want %d", len(f.buf), idleBuffer)
	}
}

// TestAnnouncedFrame reads the beginning of a large request, which takes no more memory than has come: clients that send no more could use up that of the host.
func TestAnnouncedFrame(t *testing.T) {
	const come = 2 << 10
	f := New(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, 1<<20), make([]byte, come)...)), 1<<20)
	if _, err := f.AwaitFrame(); err != io.EOF || f.Buffered() != 4+come || cap(f.buf) > 4*come {
		t.Errorf("%d bytes are kept in %d: %v", f.Buffered(), cap(f.buf), err)
	}
}
