package command

import (
	"context"
	"io"
	"testing"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/testing/doclines"
)

// TestDocumentedLines parses the lines of zkcli in the documentation: flags, their values, and the number of arguments.
func TestDocumentedLines(t *testing.T) {
	doclines.Check(t, "../../..", "zkcli", func(args []string, atPrompt bool) error {
		a := New(Streams{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
		a.session = atPrompt
		for i := range a.commands {
			was := a.commands[i]
			a.commands[i].Setup = func(flags *cobra.Command) Run {
				was.setup(flags)
				return func(context.Context, *Call) error { return nil }
			}
		}
		root := a.root(&a.opts)
		root.RunE = func(*cobra.Command, []string) error { return nil } // a session
		return a.execute(t.Context(), root, &a.opts, args)
	})
}
