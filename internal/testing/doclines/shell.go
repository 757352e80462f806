package doclines

import "strings"

// split returns the commands of a line of the shell, each as its words. It knows quotes, comments, redirections, what
// separates commands, and substitutions, which are the word 1.
func split(line string) [][]string {
	s := scanner{line: line}
	for s.at < len(s.line) {
		s.next()
	}
	s.endCommand()
	return s.commands
}

type scanner struct {
	line     string
	at       int
	word     strings.Builder
	inWord   bool // a word has begun, which may be empty
	skips    bool // the next word is the target of a redirection
	words    []string
	commands [][]string
}

// next takes one character, or a quoted or substituted text.
func (s *scanner) next() {
	c := s.line[s.at]
	s.at++
	switch c {
	case ' ', '\t':
		s.endWord()
	case '#':
		if s.inWord {
			s.add("#")
		} else {
			s.at = len(s.line)
		}
	case '\'', '"', '`':
		text, _, _ := strings.Cut(s.line[s.at:], string(c))
		s.at = min(s.at+len(text)+1, len(s.line))
		s.add(text)
	case '\\':
		s.add(s.line[s.at:min(s.at+1, len(s.line))])
		s.at = min(s.at+1, len(s.line))
	case '$':
		if strings.HasPrefix(s.line[s.at:], "(") {
			s.parenthesis()
		} else {
			s.add("$")
		}
	case '<', '>':
		if strings.HasPrefix(s.line[s.at:], "(") {
			s.parenthesis()
			return
		}
		if w := s.word.String(); w == "1" || w == "2" {
			s.word.Reset()
			s.inWord = false
		}
		s.endWord()
		s.at += len(s.line[s.at:]) - len(strings.TrimLeft(s.line[s.at:], "<>&"))
		s.skips = true
	case '|', '&', ';':
		s.endCommand()
	default:
		s.add(string([]byte{c}))
	}
}

// parenthesis skips one with what is in it.
func (s *scanner) parenthesis() {
	depth := 0
	for ; s.at < len(s.line); s.at++ {
		switch s.line[s.at] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				s.at++
				s.add("1")
				return
			}
		}
	}
}

func (s *scanner) add(text string) {
	s.word.WriteString(text)
	s.inWord = true
}

func (s *scanner) endWord() {
	if s.inWord && !s.skips {
		s.words = append(s.words, s.word.String())
	}
	if s.inWord {
		s.skips = false
	}
	s.word.Reset()
	s.inWord = false
}

func (s *scanner) endCommand() {
	s.endWord()
	if len(s.words) > 0 {
		s.commands = append(s.commands, s.words)
	}
	s.words = nil
}
