package commands

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

type usageError struct{ error }

// TestStrict checks each command with commands below it, cobra's own among them.
func TestStrict(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"config check", ""},
		{"config", "prog config needs a command: check, deep"},
		{"config chek", `prog config has no command "chek": did you mean check?`},
		{"config deep", "prog config deep needs a command: down"},
		{"config deep x", `prog config deep has no command "x"; it has down`},
		{"help", ""},
		{"help config check", ""},
		{"help config x", `prog config has no command "x"; it has check, deep`},
		{"help x", `prog has no command "x"; it has completion, config, help`},
		{"completion", "prog completion needs a command: bash, fish, powershell, zsh"},
		{"completion bash", ""},
		{"completion x", `prog completion has no command "x"; it has bash, fish, powershell, zsh`},
	} {
		nothing := func(*cobra.Command, []string) {}
		root := &cobra.Command{Use: "prog", Run: nothing, SilenceErrors: true, SilenceUsage: true}
		config := &cobra.Command{Use: "config"}
		deep := &cobra.Command{Use: "deep"}
		deep.AddCommand(&cobra.Command{Use: "down", Run: nothing})
		config.AddCommand(&cobra.Command{Use: "check", Run: nothing}, deep)
		root.AddCommand(config)
		Strict(root, func(err error) error { return usageError{err} })
		root.SetArgs(strings.Fields(tt.args))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		got := ""
		if err := root.Execute(); err != nil {
			if _, usage := errors.AsType[usageError](err); !usage {
				t.Errorf("%s: %v is not about the usage", tt.args, err)
			}
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
}
