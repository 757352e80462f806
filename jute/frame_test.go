package jute

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// TestReadFrame cuts two frames at each byte: the end is io.EOF only between frames.
func TestReadFrame(t *testing.T) {
	b, mark := BeginFrame(nil)
	b = EndFrame(append(b, "first"...), mark)
	between := len(b)
	b, mark = BeginFrame(b)
	b = EndFrame(b, mark) // empty
	for n := range len(b) + 1 {
		r := bytes.NewReader(b[:n])
		var got []string
		var err error
		for err == nil {
			var payload []byte
			if payload, err = ReadFrame(r, 5); err == nil {
				got = append(got, string(payload))
			}
		}
		whole := n == 0 || n == between || n == len(b)
		if want := map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[whole]; err != want {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
		if n >= between && got[0] != "first" || n == len(b) && got[1] != "" {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
	if _, err := ReadFrame(bytes.NewReader(b), 4); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a frame of 5 bytes of at most 4: %v", err)
	}
}
