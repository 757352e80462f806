package jute

import (
	"strings"
	"unicode/utf8"
)

// Text returns the text that Apache's server takes bytes of a client for: Java's new
// String(b, UTF_8). That is the bytes themselves if they are UTF-8. Otherwise U+FFFD stands
// for each longest beginning of a character that does not continue, and for each
// surrogate in three bytes, as Java's clients send characters beyond the BMP.
func Text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var text strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			size = malformed(b)
		}
		text.WriteRune(r)
		b = b[size:]
	}
	return text.String()
}

// malformed returns how many bytes one U+FFFD replaces, at the beginning of b, which is no
// character.
func malformed(b []byte) int {
	n, surrogate := 1, b[0] == 0xed
	for n < len(b) && b[n]&0xc0 == 0x80 && (surrogate && n < 3 || !utf8.FullRune(b[:n+1])) {
		n++
	}
	return n
}
