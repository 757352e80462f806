package shell

import (
	"bytes"
	"unicode/utf8"
)

// Keys other than text are represented by unassigned runes of the last private use plane, so
// that x/term passes them on unchanged.
const (
	keyFirst rune = 0x10F000 + iota
	keyLeft
	keyRight
	keyUp
	keyDown
	keyHome
	keyEnd
	keyWordLeft
	keyWordRight
	keyBackspace
	keyDelete
	keyKillWordLeft
	keyKillWordRight
	keyKillLeft
	keyKillRight
	keyYank
	keyTranspose
	keyTab
	keySearch
	keyCancel
	keyAccept // before each Enter
	keyInterrupt
	keyDone // Ctrl-D: the end, or a deletion
	keyLast

	// filler is the second column of a rune that is two columns wide: x/term counts each rune
	// as one column. It is never written to the terminal.
	filler rune = 0x10FFFD
)

// Characters that x/term handles.
const (
	enter       = '\r'
	clearScreen = 0x0c
)

// controls are the keys of control characters, as in emacs and readline.
var controls = map[byte]rune{
	0x01: keyHome, 0x02: keyLeft, 0x03: keyInterrupt, 0x04: keyDone, 0x05: keyEnd, 0x06: keyRight,
	0x07: keyCancel, 0x08: keyBackspace, 0x09: keyTab, 0x0b: keyKillRight, 0x0e: keyDown, 0x10: keyUp,
	0x12: keySearch, 0x14: keyTranspose, 0x15: keyKillLeft, 0x17: keyKillWordLeft, 0x19: keyYank, 0x7f: keyBackspace,
}

// escapes are the keys by the sequence that follows an ESC.
var escapes = map[string]rune{
	"[A": keyUp, "[B": keyDown, "[C": keyRight, "[D": keyLeft, "[H": keyHome, "[F": keyEnd,
	"OA": keyUp, "OB": keyDown, "OC": keyRight, "OD": keyLeft, "OH": keyHome, "OF": keyEnd,
	"[1~": keyHome, "[7~": keyHome, "[4~": keyEnd, "[8~": keyEnd, "[3~": keyDelete,
	"[1;5C": keyWordRight, "[1;5D": keyWordLeft, "[1;3C": keyWordRight, "[1;3D": keyWordLeft,
	"b": keyWordLeft, "f": keyWordRight, "d": keyKillWordRight, "\x7f": keyKillWordLeft, "\x08": keyKillWordLeft,
}

const (
	esc        = 0x1b
	pasteStart = "[200~"
	pasteEnd   = "\x1b[201~"
	// longestEscape is the limit for the length of a sequence.
	longestEscape = 16
)

// decoder converts the terminal's input to keys.
type decoder struct {
	pasting bool
	partial []byte // the beginning of an incomplete key
}

// decode returns the keys of the bytes, as text for x/term.
func (d *decoder) decode(in []byte) []byte {
	in = append(d.partial, in...)
	var out []byte
	for len(in) > 0 {
		n := 0
		out, n = d.one(out, in)
		if n == 0 {
			break
		}
		in = in[n:]
	}
	d.partial = bytes.Clone(in)
	return out
}

// one appends the first key of in, and returns how many bytes it took: 0 if some are missing.
func (d *decoder) one(out, in []byte) ([]byte, int) {
	c := in[0]
	switch {
	case d.pasting:
		return d.pasted(out, in)
	case c == esc:
		return d.escape(out, in)
	case c == enter || c == '\n':
		return append(utf8.AppendRune(out, keyAccept), enter), 1
	case c == 0x03: // an abandoned line ends, too
		return append(utf8.AppendRune(out, keyInterrupt), enter), 1
	case c == clearScreen:
		return append(out, c), 1
	case c < ' ' || c == 0x7f:
		if k, ok := controls[c]; ok {
			out = utf8.AppendRune(out, k)
		}
		return out, 1
	}
	return text(out, in)
}

// text appends the rune at the beginning of in. It drops invalid runes, and those that stand
// for keys.
func text(out, in []byte) ([]byte, int) {
	if !utf8.FullRune(in) {
		return out, 0
	}
	r, n := utf8.DecodeRune(in)
	if r == utf8.RuneError || r >= keyFirst {
		return out, n
	}
	return append(out, in[:n]...), n
}

// pasted appends a pasted character as text: a tabulator does not complete. The end of a line
// runs it, as if it were typed.
func (d *decoder) pasted(out, in []byte) ([]byte, int) {
	c := in[0]
	switch {
	case c == esc && len(in) < len(pasteEnd) && bytes.HasPrefix([]byte(pasteEnd), in):
		return out, 0
	case bytes.HasPrefix(in, []byte(pasteEnd)):
		d.pasting = false
		return out, len(pasteEnd)
	case c == '\r' && len(in) > 1 && in[1] == '\n':
		return append(utf8.AppendRune(out, keyAccept), enter), 2
	case c == '\r' || c == '\n':
		return append(utf8.AppendRune(out, keyAccept), enter), 1
	case c == '\t':
		return append(out, ' '), 1
	case c < ' ' || c == 0x7f:
		return out, 1
	}
	return text(out, in)
}

// escape appends the key of an escape sequence. Unknown ones are dropped.
func (d *decoder) escape(out, in []byte) ([]byte, int) {
	seq, ok := sequence(in[1:])
	switch {
	case !ok:
		return out, 0
	case string(seq) == pasteStart:
		d.pasting = true
	case escapes[string(seq)] != 0:
		out = utf8.AppendRune(out, escapes[string(seq)])
	}
	return out, 1 + len(seq)
}

// sequence returns the bytes of a sequence after its ESC: for [ and O all bytes up to one
// that ends a sequence, else one byte. A second ESC begins another sequence.
func sequence(in []byte) ([]byte, bool) {
	switch {
	case len(in) == 0:
		return nil, false
	case in[0] == esc:
		return nil, true
	case in[0] != '[' && in[0] != 'O':
		return in[:1], true
	}
	for i, c := range in[1:] {
		if c >= '@' && c <= '~' || c == esc || i == longestEscape {
			if c == esc {
				return in[:i+1], true
			}
			return in[:i+2], true
		}
	}
	return nil, false
}
