package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
)

// Format is a form of the output.
type Format int

// The formats.
const (
	FormatText  Format = iota // as zkCli.sh
	FormatJSON                // a document on a line for each result
	FormatTable               // aligned columns with a heading
	FormatRaw                 // only what was requested: bytes, or one name per line
)

var formatNames = []string{"text", "json", "table", "raw"}

// String returns the name.
func (f *Format) String() string { return formatNames[*f] }

// Type names the value in help.
func (f *Format) Type() string { return "format" }

// Set reads a name.
func (f *Format) Set(s string) error {
	for i, name := range formatNames {
		if s == name {
			*f = Format(i)
			return nil
		}
	}
	return fmt.Errorf("it should be one of %s", strings.Join(formatNames, ", "))
}

// Output is a result in all its forms. A missing form defaults to Text.
type Output struct {
	Text string // lines, for stdout
	Note string // one line, for stderr: what zkCli.sh says there
	Data any    // for JSON
	Raw  []byte
	// Table's first row is the heading.
	Table [][]string
	// Part of a table: the heading has been written.
	Continued bool
}

// Emit writes a result in the selected form.
func (c *Call) Emit(o Output) error {
	c.App.barrier()
	switch format := c.Options.Format; {
	case format == FormatJSON && o.Data != nil:
		return c.App.emitJSON(o.Data)
	case format == FormatTable && o.Table != nil:
		return c.App.write(table(o.Table, o.Continued))
	case format == FormatRaw && o.Raw != nil:
		return c.App.write(o.Raw)
	}
	if o.Note != "" && (c.Options.Format == FormatText || o.Text == "") {
		c.App.say("%s", o.Note)
	}
	if o.Text == "" {
		return nil
	}
	return c.App.write([]byte(strings.TrimSuffix(o.Text, "\n") + "\n"))
}

func (a *App) emitJSON(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	return a.write(b.Bytes())
}

func (a *App) write(b []byte) error { return written(a.out.Write(b)) }

// written returns the error of a write of a result.
func written(_ int, err error) error {
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

func table(rows [][]string, continued bool) []byte {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	if continued {
		rows = rows[1:]
	}
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush() // into memory
	return b.Bytes()
}

// lines joins the lines. It returns a non-nil result even for none, because that is a result,
// too.
func lines(list []string) []byte {
	b := []byte{}
	for _, s := range list {
		b = append(append(b, s...), '\n')
	}
	return b
}
