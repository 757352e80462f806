package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// maxLine is the largest number of runes of a line: enough to type the largest data that a
// server accepts by default.
const maxLine = 1 << 20

// buffer is a line that is being typed.
type buffer struct {
	text   []rune
	pos    int    // of the cursor: 0 to len(text)
	killed []rune // what Ctrl-Y inserts
}

func (b *buffer) set(text string) {
	b.text = []rune(text)
	b.pos = len(b.text)
}

func (b *buffer) String() string { return string(b.text) }

// insert puts runes where the cursor is.
func (b *buffer) insert(runes ...rune) {
	if len(b.text)+len(runes) > maxLine {
		return
	}
	b.text = append(b.text[:b.pos:b.pos], append(runes[:len(runes):len(runes)], b.text[b.pos:]...)...)
	b.pos += len(runes)
}

// remove removes the runes from i to j.
func (b *buffer) remove(i, j int) {
	b.text = append(b.text[:i:i], b.text[j:]...)
	b.pos = i
}

// kill removes runes and keeps them for Ctrl-Y.
func (b *buffer) kill(i, j int) {
	if i < j {
		b.killed = append([]rune(nil), b.text[i:j]...)
		b.remove(i, j)
	}
}

// edit performs the action of a key. It returns false for a key that edits nothing.
func (b *buffer) edit(key rune) bool {
	switch key {
	case keyLeft:
		b.pos = max(b.pos-1, 0)
	case keyRight:
		b.pos = min(b.pos+1, len(b.text))
	case keyHome:
		b.pos = 0
	case keyEnd:
		b.pos = len(b.text)
	case keyWordLeft:
		b.pos = b.wordLeft()
	case keyWordRight:
		b.pos = b.wordRight()
	case keyBackspace:
		b.remove(max(b.pos-1, 0), b.pos)
	case keyDelete:
		b.remove(b.pos, min(b.pos+1, len(b.text)))
	case keyTranspose:
		b.transpose()
	default:
		return b.editKills(key)
	}
	return true
}

// editKills performs the action of a key that is related to Ctrl-Y.
func (b *buffer) editKills(key rune) bool {
	switch key {
	case keyKillWordLeft:
		b.kill(b.wordLeft(), b.pos)
	case keyKillWordRight:
		b.kill(b.pos, b.wordRight())
	case keyKillLeft:
		b.kill(0, b.pos)
	case keyKillRight:
		b.kill(b.pos, len(b.text))
	case keyYank:
		b.insert(b.killed...)
	default:
		return false
	}
	return true
}

// wordLeft and wordRight return the position of the cursor after a move by a word: over
// blanks and slashes, then over the text between them. So one step in a path is one element.
func (b *buffer) wordLeft() int {
	i := b.pos
	for i > 0 && between(b.text[i-1]) {
		i--
	}
	for i > 0 && !between(b.text[i-1]) {
		i--
	}
	return i
}

func (b *buffer) wordRight() int {
	i := b.pos
	for i < len(b.text) && between(b.text[i]) {
		i++
	}
	for i < len(b.text) && !between(b.text[i]) {
		i++
	}
	return i
}

func between(r rune) bool { return unicode.IsSpace(r) || r == '/' }

// transpose swaps the runes around the cursor, or the last two at the end.
func (b *buffer) transpose() {
	if b.pos == 0 || len(b.text) < 2 {
		return
	}
	i := min(b.pos, len(b.text)-1)
	b.text[i-1], b.text[i] = b.text[i], b.text[i-1]
	b.pos = i + 1
}

// columns returns the line in the form for x/term, one rune for each column, and the cursor
// in bytes.
func (b *buffer) columns() (line string, pos int) {
	var s strings.Builder
	for i, r := range b.text {
		if i == b.pos {
			pos = s.Len()
		}
		s.WriteRune(r)
		if wide(r) {
			s.WriteRune(filler)
		}
	}
	if b.pos == len(b.text) {
		pos = s.Len()
	}
	return s.String(), pos
}

// fromColumns is the reverse of columns.
func (b *buffer) fromColumns(line string, pos int) {
	b.text, b.pos = []rune(unfill(line)), utf8.RuneCountInString(unfill(line[:pos]))
}

func unfill(line string) string { return strings.ReplaceAll(line, string(filler), "") }

// wide reports whether a terminal shows a rune in two columns.
func wide(r rune) bool {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return true
	}
	return false
}
