package layout

import (
	"bytes"
	"errors"
)

// Result is the outcome of a task.
type Result struct {
	Failed bool
	Text   []byte // the result, or why the task failed
}

// The data of a status node begin with one of these, so that it can be read by eye.
var (
	done   = []byte("done: ")
	failed = []byte("failed: ")
)

// Encode returns the data of the status node.
func (r Result) Encode() []byte {
	if r.Failed {
		return append(bytes.Clone(failed), r.Text...)
	}
	return append(bytes.Clone(done), r.Text...)
}

// ParseResult reads the data of a status node.
func ParseResult(data []byte) (Result, error) {
	if text, ok := bytes.CutPrefix(data, done); ok {
		return Result{Text: text}, nil
	}
	if text, ok := bytes.CutPrefix(data, failed); ok {
		return Result{Failed: true, Text: text}, nil
	}
	return Result{}, errors.New("data of a status begin with neither \"done: \" nor \"failed: \"")
}
