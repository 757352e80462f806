package main

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/pflag"
)

// outputFlag is the flag --output: whether a result is a text for people or JSON.
type outputFlag struct{ json bool }

func (o *outputFlag) add(fl *pflag.FlagSet) {
	fl.VarP(o, "output", "o", "form of the output: text or json")
}

// String implements pflag.Value.
func (o *outputFlag) String() string {
	if o.json {
		return "json"
	}
	return "text"
}

// Set implements pflag.Value.
func (o *outputFlag) Set(form string) error {
	if form != "text" && form != "json" {
		return errors.New("there are text and json")
	}
	o.json = form == "json"
	return nil
}

// Type implements pflag.Value.
func (*outputFlag) Type() string { return "form" }

// write writes a result.
func (o *outputFlag) write(w io.Writer, result interface{ Text() string }) error {
	if o.json {
		return writeJSON(w, result)
	}
	_, err := io.WriteString(w, result.Text())
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
