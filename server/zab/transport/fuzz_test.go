package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
)

// slowFrames is the dumb twin of frameReader: it keeps everything in memory.
func slowFrames(b []byte, sum bool, maxFrame int) (kinds []uint8, bodies [][]byte, failed bool) {
	for len(b) >= frameHead {
		n := int(binary.BigEndian.Uint32(b)) + 4
		tail := 0
		if sum {
			tail = frameTail
		}
		if n < frameHead+tail || n-frameHead > maxFrame || n > len(b) {
			return kinds, bodies, true
		}
		body := b[frameHead : n-tail]
		if sum && !bytes.Equal(appendFrame(nil, b[4], body, true), b[:n]) {
			return kinds, bodies, true
		}
		kinds, bodies = append(kinds, b[4]), append(bodies, body)
		b = b[n:]
	}
	return kinds, bodies, len(b) > 0
}

func FuzzFrames(f *testing.F) {
	for _, sum := range []bool{true, false} {
		var b []byte
		for kind := range uint8(8) {
			b = appendFrame(b, kind, bytes.Repeat([]byte{kind}, int(kind)*7), sum)
		}
		f.Add(b, sum, uint8(0))
		f.Add(b[:len(b)-3], sum, uint8(1))
		f.Add([]byte{0xff, 0xff, 0xff, 0xff, kindEntries}, sum, uint8(0))
		f.Add([]byte{0x03, 0xff, 0xff, 0xff, kindApp}, sum, uint8(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, sum bool, pieces uint8) {
		const maxFrame = 64 << 20
		kinds, bodies, failed := slowFrames(b, sum, maxFrame)
		var r io.Reader = bytes.NewReader(b)
		if pieces%2 == 1 {
			r = iotest.OneByteReader(r)
		}
		frames := newFrameReader(r, sum, maxFrame, 64)
		for i := 0; ; i++ {
			kind, body, err := frames.next()
			if err != nil {
				if i != len(kinds) || (err != io.EOF) != failed {
					t.Fatalf("after %d of %d frames: %v, want failure: %t", i, len(kinds), err, failed)
				}
				return
			}
			if i >= len(kinds) || kind != kinds[i] || !bytes.Equal(body, bodies[i]) {
				t.Fatalf("frame %d: got kind %d, %q", i, kind, body)
			}
			if keeps(kind) && cap(body) > 2*len(b)+firstPiece {
				t.Fatalf("frame %d: %d bytes of memory", i, cap(body))
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	h := validHello()
	good, err := appendRecord([]byte(magic), &h)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:20])
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	verdict, err := appendRecord(nil, &verdictRecord{Cause: "id", Text: "unknown", Proof: make([]byte, 32)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(verdict)
	f.Add([]byte(magic + "\x00\x00\x00\x06\x81\xa5nonce\xc6\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v verdictRecord
		_, _ = readRecord(bytes.NewReader(b), &v)
		h, rec, err := readHello(bytes.NewReader(b))
		if err != nil {
			return
		}
		if len(rec) > mostHello {
			t.Fatalf("a hello of %d bytes", len(rec))
		}
		_, _ = h.introduction()
		again, err := appendRecord([]byte(magic), &h)
		if err != nil {
			t.Fatal(err)
		}
		h2, _, err := readHello(bytes.NewReader(again))
		if err != nil || h2.From != h.From || h2.To != h.To || h2.Boot != h.Boot || !bytes.Equal(h2.Nonce, h.Nonce) {
			t.Fatalf("%+v became %+v, %v", h, h2, err)
		}
	})
}

// FuzzStranger checks that a hello read byte by byte gets the same verdict.
func FuzzStranger(f *testing.F) {
	f.Add([]byte(magic))
	f.Add([]byte("ruok"))
	f.Add([]byte("\x00\x00\x00\x0b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:min(len(b), len(magic))]
		if is := stranger(b) == ""; len(b) == len(magic) && is != (string(b) == magic) {
			t.Fatalf("%q: %t", b, is)
		}
	})
}

// TestLyingLength checks how much memory a length alone can make a reader allocate.
func TestLyingLength(t *testing.T) {
	head := []byte{0x03, 0xff, 0xff, 0xff, kindEntries} // 64 MiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	frames := newFrameReader(bytes.NewReader(head), true, 64<<20, 1<<10)
	if _, _, err := frames.next(); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2*firstPiece {
		t.Errorf("%d bytes allocated for a frame that never came", n)
	}
}
