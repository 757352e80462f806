package shell

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnclosed means that a quote has no end.
var ErrUnclosed = errors.New("unclosed quote")

// blanks separate words.
const blanks = " \t\r\n"

// word is one word of a line.
type word struct {
	text  string // without quotes
	start int    // where it begins in the line, in bytes, with its quote
	quote byte   // that it begins with, or 0
	open  bool   // the line ends before the quote or the blank that ends it
}

// Split splits a line into words as zkCli.sh does: at blanks, except that what begins with '
// or " ends with the next of the same kind. Quotes inside a word are part of it. There is no
// escape character. The error, ErrUnclosed, quotes the place.
func Split(line string) ([]string, error) {
	var words []string
	for _, w := range scan(line) {
		if w.open && w.quote != 0 {
			return nil, fmt.Errorf("%w: %s has no second %c", ErrUnclosed, line[w.start:], w.quote)
		}
		words = append(words, w.text)
	}
	return words, nil
}

// scan finds the words of a line. Only the last one can be open.
func scan(line string) []word {
	var words []word
	for at := 0; ; {
		at += len(line[at:]) - len(strings.TrimLeft(line[at:], blanks))
		if at == len(line) {
			return words
		}
		w, end := scanWord(line, at)
		words = append(words, w)
		at = end
	}
}

// scanWord returns the word that begins at start, and where the rest of the line begins.
func scanWord(line string, start int) (w word, end int) {
	w = word{start: start}
	rest, stop := line[start:], blanks
	if q := rest[0]; q == '"' || q == '\'' {
		w.quote, rest, stop = q, rest[1:], string(q)
	}
	i := strings.IndexAny(rest, stop)
	if i < 0 {
		w.text, w.open = rest, true
		return w, len(line)
	}
	w.text = rest[:i]
	end = len(line) - len(rest) + i
	if w.quote != 0 {
		end++
	}
	return w, end
}

// quoteFor returns the quote that a word needs, 0 for none. It keeps an existing quote if
// possible.
func quoteFor(text string, have byte) (quote byte, ok bool) {
	switch {
	case strings.ContainsAny(text, "\n\r"):
		return 0, false // impossible on one line
	case have != 0 && !strings.Contains(text, string(have)):
		return have, true
	case text != "" && !strings.ContainsAny(text, blanks) && text[0] != '"' && text[0] != '\'':
		return 0, true
	case !strings.Contains(text, `"`):
		return '"', true
	default:
		return '\'', !strings.Contains(text, "'")
	}
}
