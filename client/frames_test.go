package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
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
func dumbFrames(in []byte, most int) (all [][]byte, clean bool) {
	for len(in) >= 4 {
		n := int(int32(binary.BigEndian.Uint32(in)))
		if n < 0 || n > most || n > len(in)-4 {
			return all, false
		}
		all, in = append(all, in[4:4+n]), in[4+n:]
	}
	return all, true
}

// checkFrames reads in, in pieces of at most that size, and compares.
func checkFrames(t *testing.T, in []byte, most, piece int, seed uint64) {
	t.Helper()
	want, clean := dumbFrames(in, most)
	f := newFrames(&pieces{seeded(seed), in, piece}, most)
	for i, w := range want {
		got, err := f.next()
		if err != nil || !bytes.Equal(got, w) {
			t.Fatalf("seed %d: frame %d is %d bytes, %v; want %d", seed, i, len(got), err, len(w))
		}
	}
	if got, err := f.next(); err == nil || (err == io.EOF) != clean {
		t.Fatalf("seed %d: at the end %d bytes, %v; the end is clean: %v", seed, len(got), err, clean)
	}
}

// Frames are the same, however they are cut into pieces: across the sizes at which
// the buffer moves, grows and shrinks.
func TestFramesInPieces(t *testing.T) {
	for seed := range uint64(16) {
		r := seeded(seed)
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

// A large reply is no reason to keep its memory.
func TestFramesGiveMemoryBack(t *testing.T) {
	var in []byte
	for _, size := range []int{5 << 20, 10, 10} {
		in = append(binary.BigEndian.AppendUint32(in, uint32(size)), make([]byte, size)...)
	}
	f := newFrames(iotest.HalfReader(bytes.NewReader(in)), 8<<20)
	for range 3 {
		if _, err := f.next(); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.buf) > 1<<20 {
		t.Errorf("the buffer has %d bytes", len(f.buf))
	}
}

func TestFrameErrors(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "EOF"},
		{"\x00\x00", "EOF"},
		{"\x00\x00\x00\x05abc", "unexpected EOF"},
		{"\x00\x00\x10\x01", "limit is 4096"},
		{"\xff\xff\xff\xff", "does not speak ZooKeeper's protocol"},
		{"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n", `does not speak ZooKeeper's protocol: it says "HTTP/1.1 400 Bad Request"`},
		{"HTTP/1.1 400 Bad Request\r\n", `"HTTP/1.1 400 Bad`},
	} {
		if _, err := newFrames(strings.NewReader(tt.in), 4096).next(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.in, err, tt.want)
		}
	}
	broken := errors.New("broken pipe")
	if _, err := newFrames(iotest.ErrReader(broken), 4096).next(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// A length is believed as far as bytes come.
func TestFrameThatIsAnnouncedOnly(t *testing.T) {
	f := newFrames(bytes.NewReader([]byte{0x0f, 0xff, 0xff, 0xff, 1, 2, 3}), 256<<20)
	if _, err := f.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("next = %v", err)
	}
	if len(f.buf) > 1<<20 {
		t.Errorf("the buffer has %d bytes for 7 that came", len(f.buf))
	}
}
