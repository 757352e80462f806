package results

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// EachLine calls set for each line "key value" of a file, without comments. An error gets the line's place.
func EachLine(file string, set func(key, value string) error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, _ := strings.Cut(line, " ")
		if err := set(key, strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	return nil
}

// Counts are what a run counted, in its order.
type Counts []Count

// Count is a number with its name.
type Count struct {
	Name   string
	Number int
}

// ParseCounts reads "acknowledged=40000 lost=0".
func ParseCounts(line string) (Counts, error) {
	var n Counts
	for word := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(word, "=")
		number, err := strconv.Atoi(value)
		if err != nil || name == "" {
			return nil, fmt.Errorf("%q are no counts: want such as \"acknowledged=40000 lost=0\"", line)
		}
		n = append(n, Count{name, number})
	}
	if len(n) == 0 {
		return nil, errors.New("it has counted nothing")
	}
	return n, nil
}

// Get returns the number with a name.
func (n Counts) Get(name string) (int, bool) {
	i := n.index(name)
	if i < 0 {
		return 0, false
	}
	return n[i].Number, true
}

func (n Counts) index(name string) int {
	return slices.IndexFunc(n, func(c Count) bool { return c.Name == name })
}

// Add adds the numbers of others to those with the same names.
func (n *Counts) Add(others Counts) {
	for _, c := range others {
		if i := n.index(c.Name); i >= 0 {
			(*n)[i].Number += c.Number
		} else {
			*n = append(*n, c)
		}
	}
}

// String returns what ParseCounts reads.
func (n Counts) String() string {
	var words []string
	for _, c := range n {
		words = append(words, fmt.Sprintf("%s=%d", c.Name, c.Number))
	}
	return strings.Join(words, " ")
}

// Prose returns the counts as a page has them: "acknowledged 40,000, lost 0".
func (n Counts) Prose() string {
	var words []string
	for _, c := range n {
		words = append(words, c.Name+" "+grouped(c.Number))
	}
	return strings.Join(words, ", ")
}

// grouped has a comma after each three digits.
func grouped(number int) string {
	text := strconv.Itoa(number)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Replace returns a page with other text between the lines begin and end.
func Replace(page []byte, begin, end, text string) ([]byte, error) {
	before, rest, begins := bytes.Cut(page, []byte(begin))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !begins || !ends {
		return nil, fmt.Errorf("no place for the tables: want lines %q and %q", begin, end)
	}
	return slices.Concat(before, []byte(begin), []byte(text), []byte(end), after), nil
}
