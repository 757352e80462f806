package jaas

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// kind is a character of the syntax, or one of these.
type kind rune

const (
	endOfFile kind = -1
	word      kind = -2 // or a quoted string
)

type token struct {
	kind kind
	text string // of a word
	line int
}

// scanner cuts a text into tokens, as Java's StreamTokenizer does when ConfigFile has
// configured it.
type scanner struct {
	text string // what is left
	line int
}

func (s *scanner) scan() (token, error) {
	if err := s.skip(); err != nil {
		return token{line: s.line}, err
	}
	t := token{kind: endOfFile, line: s.line}
	if s.text == "" {
		return t, nil
	}
	switch c := s.text[0]; {
	case strings.IndexByte("{};=", c) >= 0:
		t.kind = kind(c)
		s.text = s.text[1:]
		return t, nil
	case c == '"':
		var err error
		t.kind = word
		t.text, err = s.quoted()
		return t, err
	}
	end := strings.IndexFunc(s.text, func(r rune) bool { return !inWord(r) })
	if end < 0 {
		end = len(s.text)
	}
	if end == 0 {
		r, _ := utf8.DecodeRuneInString(s.text)
		if r == utf8.RuneError {
			return t, errors.New("the file must be in UTF-8")
		}
		return t, fmt.Errorf("%q has no meaning here: quote the word that it belongs to", r)
	}
	t.kind, t.text, s.text = word, s.text[:end], s.text[end:]
	return t, nil
}

// inWord reports whether a word without quotes may have this letter.
func inWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("$_-*.", r) || r >= 0xa0 && r != utf8.RuneError
}

// skip drops white space and comments. A single slash begins one, too.
func (s *scanner) skip() error {
	for s.text != "" {
		switch {
		case s.text[0] <= ' ':
			if s.text[0] == '\n' {
				s.line++
			}
			s.text = s.text[1:]
		case strings.HasPrefix(s.text, "/*"):
			end := strings.Index(s.text[2:], "*/")
			if end < 0 {
				return errors.New("the comment has no end")
			}
			s.line += strings.Count(s.text[:end+4], "\n")
			s.text = s.text[end+4:]
		case s.text[0] == '/':
			end := strings.IndexByte(s.text, '\n')
			if end < 0 {
				end = len(s.text)
			}
			s.text = s.text[end:]
		default:
			return nil
		}
	}
	return nil
}

// quoted reads a string in double quotes, which may not contain the end of the line.
func (s *scanner) quoted() (string, error) {
	var b []byte
	for i := 1; i < len(s.text); i++ {
		c := s.text[i]
		switch c {
		case '"':
			s.text = s.text[i+1:]
			if !utf8.Valid(b) {
				return "", errors.New("the file must be in UTF-8")
			}
			return string(b), nil
		case '\n', '\r':
			return "", errNoQuote
		case '\\':
			r, n := unescape(s.text[i+1:])
			if n == 0 {
				return "", errNoQuote
			}
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		b = append(b, c)
	}
	return "", errNoQuote
}

var errNoQuote = errors.New("a quoted string has no end on its line")

// unescape returns the letter for which the text after a backslash stands, and the length
// of that text: 0 if there is none.
func unescape(s string) (rune, int) {
	if s == "" || s[0] == '\n' || s[0] == '\r' {
		return 0, 0
	}
	if s[0] >= '0' && s[0] <= '7' {
		most := 3
		if s[0] > '3' {
			most = 2 // the largest is \377
		}
		r, n := rune(0), 0
		for n < min(most, len(s)) && s[n] >= '0' && s[n] <= '7' {
			r = r<<3 | rune(s[n]-'0')
			n++
		}
		return r, n
	}
	if i := strings.IndexByte("abfnrtv", s[0]); i >= 0 {
		return rune("\a\b\f\n\r\t\v"[i]), 1
	}
	return utf8.DecodeRuneInString(s)
}
