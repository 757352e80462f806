package ptytest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Style is the style of a cell.
type Style struct {
	Bold, Dim bool
	Color     int // 1 to 8 are red, green, ... as in SGR 31 to 37 and 90; 0 is the default
}

// Cell is one position of the screen. A rune that is two columns wide is followed by a cell
// with the rune 0.
type Cell struct {
	Rune  rune
	Style Style
}

// Screen is the contents of a terminal, including the lines that scrolled out.
type Screen struct {
	width, height int
	lines         [][]Cell // all, beginning with those that scrolled out
	row, col      int      // of the cursor, in the visible lines
	wrap          bool     // the last column is full: the next rune begins a new line
	style         Style
	pasting       bool   // bracketed paste is on
	rest          []byte // of a sequence that is not complete
	wide          func(rune) bool
}

// NewScreen returns an empty screen. wide reports which runes take two columns.
func NewScreen(width, height int, wide func(rune) bool) *Screen {
	s := &Screen{width: width, height: height, wide: wide}
	for range height {
		s.lines = append(s.lines, s.blank())
	}
	return s
}

func (s *Screen) blank() []Cell {
	line := make([]Cell, s.width)
	for i := range line {
		line[i].Rune = ' '
	}
	return line
}

// Resize cuts or extends the lines, as xterm does.
func (s *Screen) Resize(width, height int) {
	s.width, s.wrap = width, false
	for i, line := range s.lines {
		line = slices.Clone(line[:min(len(line), width)])
		for len(line) < width {
			line = append(line, Cell{Rune: ' '})
		}
		s.lines[i] = line
	}
	cursor := s.top() + s.row
	for len(s.lines) < height {
		s.lines = append(s.lines, s.blank())
	}
	s.height = height
	for cursor < s.top() { // lines below the cursor go first
		s.lines = s.lines[:len(s.lines)-1]
	}
	s.row, s.col = cursor-s.top(), min(s.col, width-1)
}

func (s *Screen) top() int { return len(s.lines) - s.height }

// Write handles p like a terminal.
func (s *Screen) Write(p []byte) (int, error) {
	in := append(s.rest, p...)
	for len(in) > 0 {
		n := s.step(in)
		if n == 0 {
			break
		}
		in = in[n:]
	}
	s.rest = bytes.Clone(in)
	return len(p), nil
}

// step handles the beginning of in, and returns its length: 0 if it is incomplete.
func (s *Screen) step(in []byte) int {
	switch c := in[0]; {
	case c == 0x1b:
		return s.escape(in)
	case c == '\r':
		s.col, s.wrap = 0, false
	case c == '\n':
		s.wrap = false
		s.lineFeed()
	case c == '\b':
		s.col, s.wrap = max(s.col-1, 0), false
	case c == '\t':
		s.col = min(s.col/8*8+8, s.width-1)
	case c == 0x07: // the bell
	case c < ' ':
		panic(fmt.Sprintf("ptytest: control character %#x", c))
	default:
		if !utf8.FullRune(in) {
			return 0
		}
		r, n := utf8.DecodeRune(in)
		s.put(r)
		return n
	}
	return 1
}

func (s *Screen) put(r rune) {
	n := 1
	if s.wide(r) {
		n = 2
	}
	if s.wrap || s.col+n > s.width {
		s.col, s.wrap = 0, false
		s.lineFeed()
	}
	line := s.lines[s.top()+s.row]
	line[s.col] = Cell{r, s.style}
	if n == 2 {
		line[s.col+1] = Cell{0, s.style}
	}
	s.col += n
	if s.col == s.width {
		s.col, s.wrap = s.width-1, true
	}
}

func (s *Screen) lineFeed() {
	if s.row++; s.row == s.height {
		s.row--
		s.lines = append(s.lines, s.blank())
	}
}

// escape handles a control sequence.
func (s *Screen) escape(in []byte) int {
	if len(in) < 2 {
		return 0
	}
	if in[1] != '[' {
		panic(fmt.Sprintf("ptytest: sequence ESC %q", in[1]))
	}
	i := bytes.IndexFunc(in[2:], func(r rune) bool { return r >= '@' && r <= '~' })
	if i < 0 {
		return 0
	}
	s.control(string(in[2:2+i]), in[2+i])
	return 3 + i
}

func (s *Screen) control(args string, final byte) {
	n, _ := strconv.Atoi(args) // the default is 1, or 0 for J and K
	steps := max(n, 1)
	switch final {
	case 'A':
		s.row = max(s.row-steps, 0)
	case 'B':
		s.row = min(s.row+steps, s.height-1)
	case 'C':
		s.col = min(s.col+steps, s.width-1)
	case 'D':
		s.col = max(s.col-steps, 0)
	case 'H':
		s.row, s.col = 0, 0
	case 'J':
		s.erase(n)
	case 'K':
		s.eraseLine(s.row, s.col)
	case 'm':
		s.sgr(args)
		return
	case 'h', 'l':
		if args == "?2004" {
			s.pasting = final == 'h'
		}
		return
	default:
		panic(fmt.Sprintf("ptytest: sequence CSI %s %c", args, final))
	}
	s.wrap = false
}

// erase erases everything below the cursor, or everything.
func (s *Screen) erase(n int) {
	first, col := s.row, s.col
	if n == 2 {
		first, col = 0, 0
	}
	s.eraseLine(first, col)
	for row := first + 1; row < s.height; row++ {
		s.eraseLine(row, 0)
	}
}

func (s *Screen) eraseLine(row, col int) {
	line := s.lines[s.top()+row]
	for i := col; i < s.width; i++ {
		line[i] = Cell{Rune: ' '}
	}
}

func (s *Screen) sgr(args string) {
	for arg := range strings.SplitSeq(args, ";") {
		switch n, _ := strconv.Atoi(arg); {
		case n == 0:
			s.style = Style{}
		case n == 1:
			s.style.Bold = true
		case n == 2:
			s.style.Dim = true
		case n >= 31 && n <= 37:
			s.style.Color = n - 30
		case n == 39:
			s.style.Color = 0
		case n == 90:
			s.style.Color = 8
		}
	}
}

// Lines returns all lines as text, including those that scrolled out, without blanks at their
// ends and without empty lines at the end.
func (s *Screen) Lines() []string {
	var lines []string
	for _, cells := range s.lines {
		lines = append(lines, text(cells))
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func text(cells []Cell) string {
	var b strings.Builder
	for _, c := range cells {
		if c.Rune != 0 {
			b.WriteRune(c.Rune)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// String returns the lines as one text.
func (s *Screen) String() string { return strings.Join(s.Lines(), "\n") }

// Line returns the line with the cursor, and the column of the cursor.
func (s *Screen) Line() (string, int) { return text(s.lines[s.top()+s.row]), s.col }

// Pasting reports whether the program has requested bracketed paste, as line editors do while
// they read a line.
func (s *Screen) Pasting() bool { return s.pasting }

// Row returns the line with the cursor, counted from the first that scrolled out.
func (s *Screen) Row() int { return s.top() + s.row }

// Cells returns all lines, cell by cell. The caller must not change them.
func (s *Screen) Cells() [][]Cell { return s.lines }
