package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/zkd-project/zkd/test/internal/results"
)

const passed = "passed"

// outcome is what the last run of a check found: a file of results/.
type outcome struct {
	command string
	verdict string // passed or failed
	counts  results.Counts
	took    time.Duration
	date    time.Time
	version string // of zkd
}

// countsMark stands before counts, wherever in a line.
const countsMark = "counts: "

// count reads what a run prints.
func (o *outcome) count(output io.Reader) error {
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		if _, text, ok := strings.Cut(line, countsMark); ok {
			n, err := results.ParseCounts(text)
			if err != nil {
				return err
			}
			o.counts.Add(n)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func (o *outcome) text() string {
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%-8s %s", key, value))) }
	line("command", o.command)
	line("outcome", o.verdict)
	line("counts", o.counts.String())
	line("took", o.took.String())
	line("date", o.date.Format(time.DateOnly))
	line("version", o.version)
	return b.String()
}

// resultFile is where the outcome of a check is kept.
func resultFile(dir, name string) string { return filepath.Join(dir, name+".txt") }

// readOutcome returns what is known of a check, or nil.
func readOutcome(dir, name string) (*outcome, error) {
	o := new(outcome)
	err := results.EachLine(resultFile(dir, name), func(key, value string) (err error) {
		switch key {
		case "command":
			o.command = value
		case "outcome":
			o.verdict = value
		case "counts":
			if value != "" {
				o.counts, err = results.ParseCounts(value)
			}
		case "took":
			o.took, err = time.ParseDuration(value)
		case "date":
			o.date, err = time.Parse(time.DateOnly, value)
		case "version":
			o.version = value
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return o, err
}
