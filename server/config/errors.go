package config

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/internal/console"
)

// CommandLine is the File of a setting made with Override.
const CommandLine = "command line"

// WhileRunning is the File of a setting made with SetWhileRunning.
const WhileRunning = "set while the server runs"

// Origin is the place where a setting was made.
type Origin struct {
	File string // file name, CommandLine, or "" for a default
	Line int    // 1 for the first line; 0 where there are no lines
}

// String renders o as "file:line", "command line" or "default".
func (o Origin) String() string {
	switch {
	case o.File == "":
		return "default"
	case o.Line == 0:
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// Warning is a remark on a setting. It does not stop the server.
type Warning struct {
	Origin
	Key  string // the key as written, "" if the remark is about no single key
	Text string // the problem and what to do
}

// String renders w on one line.
func (w Warning) String() string {
	return console.Line(place(w.Origin, w.Key) + w.Text)
}

// Error is an error in a setting. It stops the server.
type Error struct {
	Origin
	Key   string // the key as written, "" if the error is about no single key
	Value string // the value that was refused, "" if a value is missing
	Text  string // what is wrong and what is allowed
}

// Error renders e on one line.
func (e *Error) Error() string {
	if e.Value == "" {
		return console.Line(place(e.Origin, e.Key) + e.Text)
	}
	return console.Line(fmt.Sprintf("%s%q: %s", place(e.Origin, e.Key), e.Value, e.Text))
}

// Errors are all errors of a configuration, in the order of its lines.
type Errors []*Error

// Error renders es with one error per line.
func (es Errors) Error() string {
	var b strings.Builder
	for i, e := range es {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Error())
	}
	return b.String()
}

// Unwrap lets errors.As find a single Error.
func (es Errors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

func place(o Origin, key string) string {
	var b strings.Builder
	if o.File != "" {
		b.WriteString(o.String() + ": ")
	}
	if key != "" {
		b.WriteString(key + ": ")
	}
	return b.String()
}
