package ptytest

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	tests := []struct {
		name, in, want string
		col            int
	}{
		{"text", "ab\r\ncd", "ab\ncd", 2},
		{"the last column is filled before the line wraps", "abcdefgh", "abcdefgh", 7},
		{"wrap", "abcdefghi", "abcdefgh\ni", 1},
		{"a wide rune does not fit into the last column", "abcdefg日", "abcdefg\n日", 2},
		{"over what is there", "abc\rx\x1b[Cy", "xby", 3},
		{"erase to the right", "abc\x1b[2D\x1b[K", "a", 1},
		{"erase below", "ab\r\ncd\x1b[A\x1b[J", "ab", 2},
		{"scroll", "1\r\n2\r\n3\r\n4", "1\n2\n3\n4", 1},
		{"up stops at the first visible line", "1\r\n2\r\n3\r\n4\x1b[9A\rx", "1\nx\n3\n4", 1},
		{"a sequence in pieces", "ab\x1b|[1|D|c", "ac", 2},
	}
	for _, tt := range tests {
		s := NewScreen(8, 3, func(r rune) bool { return r > 0x2000 })
		for piece := range strings.SplitSeq(tt.in, "|") {
			_, _ = s.Write([]byte(piece)) // it never fails
		}
		if _, col := s.Line(); s.String() != tt.want || col != tt.col {
			t.Errorf("%s: %q shows %q with the cursor in column %d, want %q, %d", tt.name, tt.in, s.String(), col, tt.want, tt.col)
		}
	}
}

func TestSVG(t *testing.T) {
	s := NewScreen(20, 3, func(rune) bool { return false })
	_, _ = s.Write([]byte("\x1b[32m<a & b>\x1b[0m c"))
	svg := s.SVG("t")
	if !strings.Contains(svg, palette[2]+`">&lt;a &amp; b&gt;</text>`) {
		t.Errorf("no green text in\n%s", svg)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
}
