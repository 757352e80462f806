package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/test/internal/results"
)

const passed = "passed"

// outcome is how a program fared on a kind of server: a file of results/.
type outcome struct {
	program, title, version string
	kind, on                string // the server, and its version
	under                   string // faults
	verdict                 string // passed, or why not
	counts                  results.Counts
	times                   []string // of the faults, until all worked again
	repeated                []string // tests that passed at another try
	used                    string   // by the servers
	took                    time.Duration
	date                    time.Time
}

func (o *outcome) text() string {
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%-9s %s", key, value))) }
	line("program", o.program)
	line("version", o.version)
	line("on", o.on)
	line("under", o.under)
	line("outcome", o.verdict)
	line("counts", o.counts.String())
	line("faults", strings.Join(o.times, ", "))
	if len(o.repeated) > 0 {
		line("repeated", strings.Join(o.repeated, " "))
	}
	line("servers", o.used)
	line("took", o.took.String())
	line("date", o.date.Format(time.DateOnly))
	return b.String()
}

func (o *outcome) save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(resultFile(dir, o.program, o.kind), []byte(o.text()), 0o644)
}

// resultFile is where the outcome of a program on a kind of server is kept.
func resultFile(dir, name, kind string) string {
	return filepath.Join(dir, name+"-"+kind+".txt")
}

// readOutcome returns what is known of a program on a kind of server, or nil.
func readOutcome(dir, name, kind string) (*outcome, error) {
	o := &outcome{program: name, kind: kind}
	err := results.EachLine(resultFile(dir, name, kind), func(key, value string) (err error) {
		switch key {
		case "version":
			o.version = value
		case "on":
			o.on = value
		case "under":
			o.under = value
		case "outcome":
			o.verdict = value
		case "counts":
			if value != "" {
				o.counts, err = results.ParseCounts(value)
			}
		case "date":
			o.date, err = time.Parse(time.DateOnly, value)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return o, err
}

// The tables are between these lines of a page.
const (
	tablesBegin = "<!-- from test/world/results: go run ./test/world -write -->\n"
	tablesEnd   = "<!-- end -->\n"
)

// writePage replaces the tables of a page.
func writePage(root, page string) error {
	file := filepath.Join(root, page)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	now, err := withTables(root, page, text)
	if err != nil {
		return err
	}
	return os.WriteFile(file, now, 0o644)
}

// withTables returns the page, which has this text, with the tables that the results make.
func withTables(root, page string, text []byte) ([]byte, error) {
	programs, err := readPrograms(filepath.Join(root, here, "programs"))
	if err != nil {
		return nil, err
	}
	made, err := tables(programs, filepath.Join(root, here, "results"), page == longPage)
	if err != nil {
		return nil, err
	}
	now, err := results.Replace(text, tablesBegin, tablesEnd, made)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", page, err)
	}
	return now, nil
}

// tables are one for each group, in the order of names, and a list of the programs that have no outcome yet. If they are not long,
// programs with the same outcomes share a row.
func tables(programs []*program, dir string, long bool) (string, error) {
	head := "| programs | under | on zkd | on Apache 3.9.5 |\n|---|---|---|---|\n"
	if long {
		head = "| program | what runs | under it | on zkd | on Apache ZooKeeper 3.9.5 |\n|---|---|---|---|---|\n"
	}
	groups := make(map[string][][]string) // rows, as cells
	var unknown []string
	for _, p := range programs {
		row, err := rowOf(p, dir, long)
		if err != nil {
			return "", err
		}
		if row == nil {
			unknown = append(unknown, p.title+" "+p.version)
			continue
		}
		rows := groups[p.group]
		i := slices.IndexFunc(rows, func(r []string) bool { return !long && slices.Equal(r[1:], row[1:]) })
		if i >= 0 {
			rows[i][0] += "; " + row[0]
			continue
		}
		groups[p.group] = append(rows, row)
	}
	var b strings.Builder
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(&b, "\n### %s\n\n%s", group, head)
		for _, row := range groups[group] {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
	}
	if len(unknown) > 0 {
		fmt.Fprintf(&b, "\nDeclared and not run yet: %s.\n", strings.Join(unknown, "; "))
	}
	return b.String() + "\n", nil
}

// rowOf returns the cells of the program's row, or nil if it has no outcome.
func rowOf(p *program, dir string, long bool) ([]string, error) {
	cells := []string{p.title + " " + p.version}
	if long {
		cells = append(cells, p.what)
	}
	cells = append(cells, inShort(p.under()))
	ran := false
	for _, kind := range p.columns() {
		o, err := readOutcome(dir, p.name, kind)
		if err != nil {
			return nil, err
		}
		cell := cellOf(p, o)
		ran = ran || cell != notRun
		if !long { // the verdict alone
			cell, _, _ = strings.Cut(cell, ";")
			cell, _, _ = strings.Cut(cell, ":")
		}
		cells = append(cells, cell)
	}
	if !ran {
		return nil, nil
	}
	return cells, nil
}

// inShort returns the faults as the page's introduction names them: those that most programs go through have a word.
func inShort(faults string) string {
	const servers = "leader killed, follower killed, no quorum for 5 s, rolling restart, member added and removed"
	const moved = "moved to the other kind of servers"
	switch faults {
	case servers:
		return "servers"
	case servers + ", a part of the program killed":
		return "all"
	case moved + ", " + moved:
		return "moved twice"
	}
	return faults
}

// notRun is the cell of a program that has no outcome.
const notRun = "not run"

// cellOf is the outcome in short. One of another version of the program says nothing about this one.
func cellOf(p *program, o *outcome) string {
	if o == nil || o.version != p.version {
		return notRun
	}
	cell := o.verdict
	if done := first(o.counts); len(done) > 0 {
		cell += "; " + done.Prose()
	}
	return strings.ReplaceAll(cell, "|", "\\|") + "; " + o.date.Format(time.DateOnly)
}
