package shell

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/zkd-project/zkd/internal/console"
)

// Candidate is a possible completion of a word.
type Candidate struct {
	Text  string // the whole word, without quotes
	Label string // shown in lists instead of Text
	Help  string // one line; may be empty
	// Open is set if more can follow in the same word, such as the children of a znode:
	// completion does not end the word.
	Open bool
}

// label returns the text of a candidate in a list.
func (c Candidate) label() string {
	if c.Label != "" {
		return c.Label
	}
	return c.Text
}

// visible reports whether a terminal shows s unchanged on one line.
func visible(s string) bool {
	return !strings.ContainsAny(s, "\n\t") && string(console.Escape([]byte(s))) == s
}

// place is the word that is being completed.
type place struct {
	words   []string // before it
	current string   // the part of it before the cursor
	start   int      // where it begins in the line, in bytes
	quote   byte     // that it begins with
}

// placeOf finds the word that ends at the end of the line.
func placeOf(line string) place {
	p := place{start: len(line)}
	words := scan(line)
	if n := len(words); n > 0 && words[n-1].open {
		w := words[n-1]
		p.current, p.start, p.quote = w.text, w.start, w.quote
		words = words[:n-1]
	}
	for _, w := range words {
		p.words = append(p.words, w.text)
	}
	return p
}

// write returns the word in the form for the line: what is before the cursor, and the quote after it that ends
// an open word, so that the line is right if nothing follows. It returns false if no quotes allow it.
func (p place) write(text string, open bool) (before, after string, ok bool) {
	q, ok := quoteFor(text, p.quote)
	quote := ""
	if q != 0 {
		quote = string(q)
	}
	if open {
		return quote + text, quote, ok
	}
	return quote + text + quote + " ", "", ok
}

// complete inserts what is certain into the line: the only candidate, or the common beginning
// of all. It returns false if that adds nothing.
func (b *buffer) complete(p place, all []Candidate) bool {
	if len(all) == 0 {
		return false
	}
	text, open := all[0].Text, all[0].Open
	if len(all) > 1 {
		text, open = common(all), true
		if len(text) <= len(p.current) {
			return false
		}
	}
	written, end, ok := p.write(text, open)
	if !ok {
		return false
	}
	rest := b.text[b.pos:]
	if p.quote != 0 && len(rest) > 0 && rest[0] == rune(p.quote) {
		rest = rest[1:] // write ends the word
	}
	if !open && len(rest) > 0 && rest[0] == ' ' {
		written = strings.TrimSuffix(written, " ") // there is a blank already
	}
	before := []rune(string(b.text[:b.pos])[:p.start] + written)
	b.text, b.pos = slices.Concat(before, []rune(end), rest), len(before)
	return true
}

// typed inserts a rune that somebody has typed. A quote that is there already, because a completion has put it
// after the cursor, is stepped over.
func (b *buffer) typed(r rune) {
	if b.pos < len(b.text) && b.text[b.pos] == r && (r == '"' || r == '\'') &&
		rune(placeOf(string(b.text[:b.pos])).quote) == r {
		b.pos++
		return
	}
	b.insert(r)
}

// common returns the common beginning of all texts.
func common(all []Candidate) string {
	prefix := all[0].Text
	for _, c := range all[1:] {
		for !strings.HasPrefix(c.Text, prefix) {
			_, n := utf8.DecodeLastRuneInString(prefix)
			prefix = prefix[:len(prefix)-n]
		}
	}
	return prefix
}

const (
	dim   = "\x1b[2m"
	reset = "\x1b[0m"
	gap   = 2 // columns between those of a list
)

// list writes candidates in columns, or one per line if they have help. It shows as many as
// fit on most of the screen, and counts the rest.
func list(all []Candidate, width, height int, colors bool) string {
	rows := max(height-3, 4)
	for _, c := range all {
		if c.Help != "" {
			return listHelp(all, width, rows, colors)
		}
	}
	return listColumns(all, width, rows)
}

func listHelp(all []Candidate, width, rows int, colors bool) string {
	shown, more := all[:min(len(all), rows)], ""
	if len(all) > rows {
		shown = all[:rows-1]
		more = andMore(len(all) - len(shown))
	}
	col := 0
	for _, c := range shown {
		col = max(col, displayWidth(c.label()))
	}
	var s strings.Builder
	for _, c := range shown {
		help := Cut(c.Help, width-col-gap-1)
		if colors && help != "" {
			help = dim + help + reset
		}
		s.WriteString(strings.TrimRight(pad(c.label(), col+gap)+help, " ") + "\n")
	}
	return s.String() + more
}

func listColumns(all []Candidate, width, rows int) string {
	widest := 0
	for _, c := range all[:min(len(all), rows*width)] {
		widest = max(widest, min(displayWidth(c.label()), width-1))
	}
	columns := max(1, width/(widest+gap))
	shown, more := all, ""
	if len(all) > columns*rows {
		shown = all[:columns*(rows-1)]
		more = andMore(len(all) - len(shown))
	}
	lines := (len(shown) + columns - 1) / columns
	var s strings.Builder
	for i := range lines {
		var line strings.Builder
		for j := i; j < len(shown); j += lines {
			line.WriteString(pad(Cut(shown[j].label(), width-1), widest+gap))
		}
		s.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return s.String() + more
}

func andMore(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return "… and " + digits + " more\n"
}

// displayWidth is how many columns a terminal needs for s.
func displayWidth(s string) int {
	n := 0
	for _, r := range s {
		n++
		if wide(r) {
			n++
		}
	}
	return n
}

func pad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-displayWidth(s))) }

// Cut shortens s to the width.
func Cut(s string, width int) string {
	if displayWidth(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		n += displayWidth(string(r))
		if n >= width {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}
