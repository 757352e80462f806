package commands

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

type usageError struct{ error }

// TestRoot checks a root that does nothing itself.
func TestRoot(t *testing.T) {
	for args, want := range map[string]string{"": "", "help": "", "x": `unknown command "x" for "prog", which has completion, help, run`} {
		root := &cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(&cobra.Command{Use: "run", Run: func(*cobra.Command, []string) {}})
		Strict(root, func(err error) error { return usageError{err} })
		root.SetArgs(strings.Fields(args))
		root.SetOut(io.Discard)
		got := ""
		if err := root.Execute(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
}

// TestStrict checks each command with commands below it, cobra's own among them.
func TestStrict(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"config check", ""},
		{"config", "prog config needs a command: check, deep"},
		{"config chek", `unknown command "chek" for "prog config": did you mean check?`},
		{"config deep", "prog config deep needs a command: down"},
		{"config deep x", `unknown command "x" for "prog config deep", which has down`},
		{"help", ""},
		{"help config check", ""},
		{"help config x", `unknown command "x" for "prog config", which has check, deep`},
		{"help x", `unknown command "x" for "prog", which has completion, config, help`},
		{"completion", "prog completion needs a command: bash, fish, powershell, zsh"},
		{"completion bash", ""},
		{"completion x", `unknown command "x" for "prog completion", which has bash, fish, powershell, zsh`},
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

// TestServerFlag checks that a server that is named by a flag is refused, with what to write.
func TestServerFlag(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"status -h zk1:2181", "-h is no flag for a server: write prog status zk1:2181"},
		{"status -h zk1", "-h is no flag for a server: write prog status zk1"},
		{"status -h=zk1", "-h=zk1 is no flag for a server: write prog status zk1"},
		{"status --server zk1:2181,zk2:2181/app", "--server is no flag for a server: write prog status zk1:2181,zk2:2181/app"},
		{"status -server zk1:2181", "-server is no flag for a server: write prog status zk1:2181"},
		{"status -H zk1", "-H is no flag for a server: write prog status zk1"},
		{"-h zk1:2181", "-h is no flag for a server: write zk1:2181 as the argument of a command: load, status"},
		{"check -h zk1:2181", "-h is no flag for a server: write zk1:2181 as the argument of a command: load, status"},
		{"load -s 5 zk1:2181", ""},
		{"check -h zoo.cfg", ""},
		{"-h", ""},
		{"-h status", ""},
		{"status -h", ""},
		{"status -h --strict", ""},
		{"status -- -h zk1:2181", ""},
	} {
		nothing := func(*cobra.Command, []string) {}
		root := &cobra.Command{Use: "prog", Run: nothing, SilenceErrors: true, SilenceUsage: true}
		status := &cobra.Command{Use: "status [HOST:PORT...]", Run: nothing}
		status.Flags().Bool("strict", false, "")
		load := &cobra.Command{Use: "load [SERVER]", Run: nothing}
		load.Flags().IntP("size", "s", 0, "")
		root.AddCommand(status, load, &cobra.Command{Use: "check [FILE]", Run: nothing})
		root.SetOut(io.Discard)
		got := ""
		err := Execute(t.Context(), root, strings.Fields(tt.args), func(err error) error { return usageError{err} })
		if err != nil {
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

// TestVersion asks for the version, whatever the root's arguments are, and runs the root otherwise.
func TestVersion(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--version", "prog 1\n"}, {"-v", "prog 1\n"}, {"--version x y", "prog 1\n"}, {"x", "ran"}, {"x y", "error"},
	} {
		var out strings.Builder
		root := &cobra.Command{Use: "prog", Args: cobra.MaximumNArgs(1), SilenceErrors: true, SilenceUsage: true,
			RunE: func(c *cobra.Command, _ []string) error { c.Print("ran"); return nil }}
		Version(root, "prog 1\n")
		root.SetArgs(strings.Fields(tt.args))
		root.SetOut(&out)
		root.SetErr(&out)
		if err := root.Execute(); err != nil {
			out.WriteString("error")
		}
		if out.String() != tt.want {
			t.Errorf("%q: got %q, want %q", tt.args, &out, tt.want)
		}
	}
}
