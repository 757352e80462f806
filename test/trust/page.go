package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/zkd-project/zkd/test/internal/results"
)

// The tables are between these lines of the page.
const (
	tablesBegin = "<!-- from test/trust/results: go run ./test/trust -write -->\n"
	tablesEnd   = "<!-- end -->\n"
)

// writePage replaces the tables of the page.
func writePage(root string) error {
	file := filepath.Join(root, page)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	now, err := withTables(root, text)
	if err != nil {
		return err
	}
	return os.WriteFile(file, now, 0o644)
}

// withTables returns the page with the tables that the results make.
func withTables(root string, text []byte) ([]byte, error) {
	when, err := readHabits(root)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("\n| promise | checked by |\n|---|---|\n")
	for _, p := range promises {
		var titles []string
		for _, name := range p.checked {
			titles = append(titles, checkOf(name).title)
		}
		fmt.Fprintf(&b, "| [%s](guarantees.md#%s) | %s |\n", p.name, strings.ReplaceAll(strings.ToLower(p.name), " ", "-"), strings.Join(titles, ", "))
	}
	b.WriteString("\n| check | what it does | how often | command | last figures |\n|---|---|---|---|---|\n")
	for _, c := range checks {
		o, err := readOutcome(filepath.Join(root, here, "results"), c.name)
		if err != nil {
			return nil, err
		}
		command := "make " + c.name
		if o != nil {
			command = o.command
		}
		cell := figures(o)
		if c.kept != "" {
			cell = c.kept
		}
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` | %s |\n", c.title, c.what, when.of(c), command, cell)
	}
	b.WriteString("\n")
	now, err := results.Replace(text, tablesBegin, tablesEnd, b.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", page, err)
	}
	return now, nil
}

// figures is an outcome in short.
func figures(o *outcome) string {
	if o == nil {
		return "none kept"
	}
	cell := o.verdict
	if len(o.counts) > 0 {
		cell += "; " + o.counts.Prose()
	}
	if o.took > 0 {
		cell += "; " + o.took.String()
	}
	return cell + "; " + o.date.Format(time.DateOnly) + ", " + o.version
}

// habits are the files that say when checks are run.
type habits struct{ commit, night string }

var nightly = regexp.MustCompile(`(?m)^nightly:.*\n((?:\t.*\n)+)`)

func readHabits(root string) (h habits, err error) {
	ci, err := os.ReadFile(filepath.Join(root, ".ci/run"))
	if err != nil {
		return h, err
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return h, err
	}
	m := nightly.FindSubmatch(makefile)
	if m == nil {
		return h, errors.New("the Makefile has no nightly")
	}
	return habits{made(string(ci)), made(string(m[1]))}, nil
}

// made are the lines that run targets.
func made(script string) string {
	var b strings.Builder
	for line := range strings.Lines(script) {
		if !strings.HasPrefix(line, "#") && (strings.Contains(strings.ToLower(line), "make") || strings.Contains(line, "$(TRUST)")) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// of says how often a check is run.
func (h habits) of(c check) string {
	runs := func(script, target string) bool {
		return target != "" && regexp.MustCompile(`(?m)[ "]`+target+`( |$)`).MatchString(script)
	}
	var often []string
	switch {
	case runs(h.commit, c.name):
		often = append(often, "each commit")
	case runs(h.commit, c.brief):
		often = append(often, "each commit, in short")
	}
	if runs(h.night, c.name) {
		often = append(often, "nightly")
	}
	if len(often) == 0 {
		return "by hand"
	}
	return strings.Join(often, "; ")
}
