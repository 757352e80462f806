package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// pieces hands out its input in pieces of random sizes.
type pieces struct {
	r    *rand.Rand
	left []byte
	most int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 1+p.r.IntN(p.most))], p.left)
	p.left = p.left[n:]
	return n, nil
}

// dumbFrames splits its input into frames, the slow way: until the end, or what is
// no frame.
func dumbFrames(in []byte, most int) (all [][]byte) {
	for len(in) >= 4 {
		n := int(int32(binary.BigEndian.Uint32(in)))
		if n < 0 || n > most || n > len(in)-4 {
			return all
		}
		all, in = append(all, in[4:4+n]), in[4+n:]
	}
	return all
}

// checkFrames reads in, in pieces of at most that size, and compares.
func checkFrames(t *testing.T, in []byte, most, piece int, seed uint64) {
	t.Helper()
	want := dumbFrames(in, most)
	f := New(&pieces{rand.New(rand.NewPCG(seed, 7)), in, piece}, most, "most")
	for i, w := range want {
		got, err := f.AwaitFrame()
		if err != nil || !bytes.Equal(got, w) {
			t.Fatalf("seed %d: frame %d is %d bytes, %v; want %d", seed, i, len(got), err, len(w))
		}
	}
	if got, err := f.AwaitFrame(); err == nil {
		t.Fatalf("seed %d: at the end %d bytes", seed, len(got))
	}
}

// Frames are the same, however they are cut into pieces: across the sizes at which
// the buffer moves, grows and shrinks.
func TestFramesInPieces(t *testing.T) {
	for seed := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, 7))
		var in []byte
		pattern := make([]byte, 2<<20)
		for i := range pattern {
			pattern[i] = byte(i * 7)
		}
		for i := range 20 {
			size := []int{r.IntN(20), r.IntN(1000), 64<<10 - 4 + r.IntN(9) - 4, r.IntN(200 << 10), 1<<20 + r.IntN(100<<10)}[r.IntN(5)]
			if size > 1<<20 && r.IntN(3) > 0 {
				size = r.IntN(50)
			}
			in = binary.BigEndian.AppendUint32(in, uint32(size))
			in = append(in, pattern[i:i+size]...)
		}
		in = in[:len(in)-r.IntN(3)]
		checkFrames(t, in, 8<<20, []int{500, 5000, 1 << 17, 1 << 22}[seed%4], seed)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2}, 1)
	f.Add([]byte("HTTP/1.1 400 Bad Request"), 3)
	f.Add([]byte{255, 255, 255, 255}, 2)
	f.Add([]byte{0, 0, 16, 1, 0}, 2)
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		checkFrames(t, in, 4096, 1+max(piece, -piece)%64, uint64(len(in)))
	})
}

func TestFrameReaderRefusesImpossibleLengths(t *testing.T) {
	for _, length := range []uint32{101, 0x7fffffff, 0x80000000, 0xffffffff} {
		f := New(bytes.NewReader(binary.BigEndian.AppendUint32(nil, length)), 100, "most")
		_, err := f.AwaitFrame()
		if _, ok := errors.AsType[*LengthError](err); !ok {
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
			f := New(bytes.NewReader(append(frame, make([]byte, size)...)), limit, "most")
			got, err := f.AwaitFrame()
			if _, refused := errors.AsType[*LengthError](err); refused != (size > limit) || !refused && len(got) != size {
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
	f := New(io.MultiReader(readers...), 1<<20, "most")
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
	f := New(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, 1<<20), make([]byte, come)...)), 1<<20, "most")
	if _, err := f.AwaitFrame(); err != io.EOF || f.Buffered() != 4+come || cap(f.buf) > 4*come {
		t.Errorf("%d bytes are kept in %d: %v", f.Buffered(), cap(f.buf), err)
	}
}

// A large reply is no reason to keep its memory.
func TestFramesGiveMemoryBack(t *testing.T) {
	var in []byte
	for _, size := range []int{5 << 20, 10, 10} {
		in = append(binary.BigEndian.AppendUint32(in, uint32(size)), make([]byte, size)...)
	}
	f := New(iotest.HalfReader(bytes.NewReader(in)), 8<<20, "most")
	for range 3 {
		if _, err := f.AwaitFrame(); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.buf) > 1<<20 {
		t.Errorf("the buffer has %d bytes", len(f.buf))
	}
}
