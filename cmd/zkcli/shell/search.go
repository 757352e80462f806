package shell

import (
	"fmt"
	"strings"
)

// recall walks through the history, with the arrows or by a search, during the input of one
// line.
type recall struct {
	lines []string // oldest first
	at    int      // the line that is shown; len(lines) is the one being typed
	typed string   // that one

	searching bool
	query     []rune
	failed    bool
}

// start begins with a new line.
func (r *recall) start(lines []string) { *r = recall{lines: lines, at: len(lines)} }

// step goes up (-1) or down (1), and returns what to show.
func (r *recall) step(current string, by int) (string, bool) {
	to := r.at + by
	if to < 0 || to > len(r.lines) {
		return "", false
	}
	if r.at == len(r.lines) {
		r.typed = current
	}
	r.at = to
	if to == len(r.lines) {
		return r.typed, true
	}
	return r.lines[to], true
}

// prompt is shown in place of the prompt while searching.
func (r *recall) prompt() string {
	state := ""
	if r.failed {
		state = "failing "
	}
	return fmt.Sprintf("(%ssearch)`%s': ", state, string(r.query))
}

// searchKey handles a key while searching. It returns false if the key ends the search and
// then has its usual effect.
func (r *recall) searchKey(b *buffer, key rune) bool {
	switch {
	case key == keySearch:
		r.find(b, r.at-1)
	case key == keyBackspace:
		r.query = r.query[:max(0, len(r.query)-1)]
		r.find(b, len(r.lines)-1)
	case key == keyCancel:
		r.searching = false
		r.at = len(r.lines)
		b.set(r.typed)
	case key >= ' ' && key < keyFirst:
		r.query = append(r.query, key)
		r.find(b, min(r.at, len(r.lines)-1))
	default:
		r.searching = false
		return false
	}
	return true
}

// begin begins to search.
func (r *recall) begin(b *buffer) {
	if r.at == len(r.lines) {
		r.typed = b.String()
	}
	r.searching, r.query, r.failed = true, nil, false
}

// find shows the next line at or before from that contains the query, with the cursor at the
// query.
func (r *recall) find(b *buffer, from int) {
	query := string(r.query)
	r.failed = false
	if query == "" {
		return
	}
	for i := from; i >= 0; i-- {
		if at := strings.LastIndex(r.lines[i], query); at >= 0 {
			r.at = i
			b.set(r.lines[i])
			b.pos = len([]rune(r.lines[i][:at]))
			return
		}
	}
	r.failed = true
}
