package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkd-project/zkd/migrate/moving"
)

// outputFlag is the flag --output: whether a result is a text for people or JSON. It implements pflag.Value.
type outputFlag struct{ json bool }

func (o *outputFlag) add(fl *pflag.FlagSet) {
	fl.VarP(o, "output", "o", "form of the output: text or json")
}

func (o *outputFlag) String() string {
	if o.json {
		return "json"
	}
	return "text"
}

func (o *outputFlag) Set(form string) error {
	if form != "text" && form != "json" {
		return errors.New("there are text and json")
	}
	o.json = form == "json"
	return nil
}

func (*outputFlag) Type() string { return "form" }

func (o *outputFlag) write(w io.Writer, result interface{ Text() string }) error {
	if o.json {
		return writeJSON(w, result)
	}
	_, err := io.WriteString(w, result.Text())
	return err
}

// report writes what a move of data has done, also if it has failed.
func (o *outputFlag) report(cmd *cobra.Command, r *moving.Report, err error) error {
	if r == nil {
		return err
	}
	return errors.Join(o.write(cmd.OutOrStdout(), r), err)
}

// statusCommand returns a command that shows what is going on in directories.
func statusCommand[S interface{ Text() string }](short, long string, read func(dir string) (S, error)) *cobra.Command {
	var out outputFlag
	cmd := &cobra.Command{
		Use: "status DIR...", Short: short, Long: long,
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			var list []S
			var texts []string
			for _, dir := range dirs {
				s, err := read(dir)
				if err != nil {
					return err
				}
				list, texts = append(list, s), append(texts, s.Text())
			}
			if out.json {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			_, err := io.WriteString(cmd.OutOrStdout(), strings.Join(texts, "\n"))
			return err
		},
	}
	out.add(cmd.Flags())
	return cmd
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
