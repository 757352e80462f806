package console

import (
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Width returns the columns of the terminal that w is, or that a Writer writes to; 0 if it is none.
func Width(w io.Writer) int {
	if raw := Raw(w); raw != nil {
		w = raw
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	switch {
	case err != nil:
		return 0
	case width == 0:
		return 80 // the terminal does not report it
	}
	return width
}

// Wrap breaks the lines of a program's help at blanks, so that none is longer than the width, but for single long
// words. Paragraphs are filled again. A line of two columns, such as a flag and what it does, keeps its columns if
// the second one gets half of the width; otherwise that begins on a line of its own. Width 0 changes nothing.
func Wrap(text string, width int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); {
		n := 1
		for i+n < len(lines) && plainText(lines[i]) && plainText(lines[i+n]) {
			n++
		}
		if block := strings.Join(lines[i:i+n], ""); fits(block, width) {
			b.WriteString(block)
		} else if n > 1 {
			fill(&b, "", "", block, width)
		} else {
			wrapLine(&b, strings.TrimSuffix(block, "\n"), width)
		}
		i += n
	}
	return b.String()
}

// plainText reports whether a line is one of a paragraph.
func plainText(line string) bool { return line != "" && line[0] != '\n' && line[0] != ' ' }

func fits(block string, width int) bool {
	for line := range strings.Lines(block) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > width {
			return false
		}
	}
	return true
}

// columns splits a line into its indentation, the first column, the gap, and the second column.
var columns = regexp.MustCompile(`^( *)(.*?)( {2,}|\t)(.*)$`)

func wrapLine(b *strings.Builder, line string, width int) {
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	m := columns.FindStringSubmatch(line[len(indent):])
	hang := indent
	if indent != "" {
		hang += "  "
	}
	if m == nil {
		fill(b, indent, hang, line, width)
		return
	}
	first, second := m[2], m[4]
	if at := utf8.RuneCountInString(indent + first + m[3]); at <= width/2 {
		fill(b, indent+first+m[3], strings.Repeat(" ", at), second, width)
		return
	}
	fill(b, indent, hang, first, width)
	fill(b, indent+"    ", indent+"    ", second, width)
}

// fill writes the words of a text in lines. The first one begins with head, the others with indent.
func fill(b *strings.Builder, head, indent, text string, width int) {
	line, empty := head, true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line+" "+word) > width {
			b.WriteString(line + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
