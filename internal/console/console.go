package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Is reports whether a stream is a file that is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// Writer returns a writer that escapes what is written to w, if w is a terminal. Otherwise it
// returns w itself, so a file or a pipe gets the bytes unchanged. Each write must be whole
// text; a character that is split between two writes is escaped.
func Writer(w io.Writer) io.Writer {
	if !Is(w) {
		return w
	}
	return escaping{w}
}

type escaping struct{ to io.Writer }

// Write writes p, escaped.
func (w escaping) Write(p []byte) (int, error) {
	if _, err := w.to.Write(Escape(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Escape returns p with everything escaped, as in a Go string, that a terminal may not show
// unchanged: control characters, characters that change the direction of the text, and bytes
// that are not UTF-8. Tabs and ends of lines stay. It returns p itself if there is nothing to
// escape.
func Escape(p []byte) []byte {
	var b []byte // the escaped form of p[:done]
	done := 0
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRune(p[i:])
		if !shown(p[i:], r, n) {
			b = append(b, p[done:i]...)
			b = escape(b, p[i:i+n], r)
			done = i + n
		}
		i += n
	}
	if done == 0 {
		return p
	}
	return append(b, p[done:]...)
}

// EscapeJSON returns encoded JSON with everything escaped that Escape escapes, in the way of JSON: an encoder escapes only what
// JSON does not allow. It returns p itself if there is nothing to escape.
func EscapeJSON(p []byte) []byte {
	var b []byte // the escaped form of p[:done]
	done := 0
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRune(p[i:])
		if r > '~' && !unicode.IsGraphic(r) {
			b = append(b, p[done:i]...)
			if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
				b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
			} else {
				b = fmt.Appendf(b, `\u%04x`, r)
			}
			done = i + n
		}
		i += n
	}
	if done == 0 {
		return p
	}
	return append(b, p[done:]...)
}

// Line returns s with everything escaped that could end a line, or that Escape escapes, tabs too:
// what a stranger has chosen makes no line and no field of its own.
func Line(s string) string {
	b := Escape([]byte(s))
	return lines.Replace(string(b))
}

var lines = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`)

// shown reports whether the first character r of p, which has n bytes, stays unchanged.
func shown(p []byte, r rune, n int) bool {
	switch r {
	case '\n', '\t':
		return true
	case '\r':
		return len(p) > 1 && p[1] == '\n'
	case utf8.RuneError:
		return n > 1
	}
	return unicode.IsGraphic(r)
}

func escape(b, char []byte, r rune) []byte {
	switch {
	case len(char) == 1:
		return fmt.Appendf(b, `\x%02x`, char[0])
	case r < 0x10000:
		return fmt.Appendf(b, `\u%04x`, r)
	}
	return fmt.Appendf(b, `\U%08x`, r)
}

// Raw returns the terminal of a Writer, for the program's own control sequences. It returns
// nil if w is no such writer.
func Raw(w io.Writer) io.Writer {
	if e, ok := w.(escaping); ok {
		return e.to
	}
	return nil
}
