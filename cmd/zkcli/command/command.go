package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
)

// Command is one command of zkcli.
type Command struct {
	Name     string // as Apache spells it; other cases are accepted
	Synopsis string // the text after the name: "[-s] [-w] path"
	Short    string // one line, without a full stop
	Long     string // sentences; may be empty
	Examples []Example
	// Args are the kinds of the arguments. The first Required ones are required; the last may
	// be repeated if Repeat is set.
	Args     []Arg
	Required int
	Repeat   bool
	// Session is set if the command makes sense only in a session.
	Session bool
	// Run performs a command without flags. Setup defines the flags of another one, and returns what it does.
	Run   Run
	Setup func(flags *cobra.Command) Run
}

// Example is a command line and what it is for.
type Example struct {
	Line string `json:"line"`
	Does string `json:"does"`
}

// Arg is one argument: its name in messages, and what it is.
type Arg struct {
	Name  string
	Kind  Kind
	Words []string // the values, of kind Word
}

// Kind determines how an argument or the value of a flag is completed.
type Kind int

// The kinds.
const (
	Text Kind = iota // anything
	Path             // a znode
	Host             // host:port
	File             // of the local file system
	Word             // one of a few words
	Name             // of a command
)

// Run performs a command.
type Run func(ctx context.Context, c *Call) error

// withClient returns a Run that begins by connecting.
func withClient(run func(ctx context.Context, c *Call, zk *client.Client) error) Run {
	return func(ctx context.Context, c *Call) error {
		zk, err := c.Client(ctx)
		if err != nil {
			return err
		}
		return run(ctx, c, zk)
	}
}

// setup defines the flags of the command, and returns what it does.
func (c *Command) setup(flags *cobra.Command) Run {
	if c.Setup == nil {
		return c.Run
	}
	return c.Setup(flags)
}

// Call is one run of a command.
type Call struct {
	App     *App
	Command *Command
	Args    []string // without flags
	Options Options
}

// Arg returns the argument at i, or "" if there are fewer.
func (c *Call) Arg(i int) string {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return ""
}

// Client returns the connected client. Its error is one line that lists the servers and the
// problem of each.
func (c *Call) Client(ctx context.Context) (*client.Client, error) { return c.App.Client(ctx) }

// Usage returns an error that explains a mistake in the command line.
func (c *Call) Usage(format string, args ...any) error {
	return &UsageError{Command: c.Command.Name, Usage: c.Command.usage(), Text: fmt.Sprintf(format, args...)}
}

func (c *Command) usage() string { return strings.TrimSpace(c.Name + " " + c.Synopsis) }

// check reports too few or too many arguments.
func (c *Call) check() error {
	have, args := len(c.Args), c.Command.Args
	switch {
	case have < c.Command.Required:
		return c.Usage("%s is missing", args[have].Name)
	case have > len(args) && !c.Command.Repeat:
		return c.Usage("%q is one argument too many (put quotes around what has spaces)", c.Args[len(args)])
	}
	return nil
}

// pathOnly are the arguments of the commands that take only a path.
func pathOnly() []Arg { return []Arg{{Name: "path", Kind: Path}} }

// boolFlag defines a flag without a value.
func boolFlag(flags *cobra.Command, long, short, help string) *bool {
	return flags.Flags().BoolP(long, short, false, help)
}

// stringFlag defines a flag whose value can be completed by kind.
func stringFlag(flags *cobra.Command, long, short, value, help string, kind Kind, words ...string) *string {
	v := flags.Flags().StringP(long, short, value, help)
	annotate(flags, long, kind, words)
	return v
}

// versionFlag defines -v: the version that the node must have.
func versionFlag(flags *cobra.Command, what string) *int32 {
	return flags.Flags().Int32P("version", "v", client.AnyVersion, what+" must have this `version`; -1 is any")
}
