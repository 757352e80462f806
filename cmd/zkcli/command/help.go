package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/cmd/zkcli/shell"
	"github.com/zkd-project/zkd/internal/console"
)

func helpCommand() Command {
	return Command{
		Name: "help", Synopsis: "[command]", Short: "Explain zkcli, or a command with examples",
		Examples: []Example{{"help", "all commands"}, {"help ls", "the flags of ls, and examples"}},
		Args:     []Arg{{Name: "command", Kind: Name}},
		Run: func(_ context.Context, c *Call) error {
			name := c.Arg(0)
			if name == "" {
				return c.Emit(Output{Text: c.App.wrap(c.App.helpAll()), Data: c.App.helpDocs(c.App.commands)})
			}
			spec := c.App.find(name)
			if spec == nil {
				return &UnknownCommandError{Name: name, Nearest: nearest(name, c.App.names())}
			}
			return c.Emit(Output{Text: c.App.wrap(c.App.helpOf(spec)), Data: c.App.helpDocs([]Command{*spec})})
		},
	}
}

// helpFlag is what --help prints.
func (a *App) helpFlag(cmd *cobra.Command, _ []string) {
	text := a.helpAll()
	switch spec := a.find(cmd.Name()); {
	case spec != nil && cmd.HasParent():
		text = a.helpOf(spec)
	case cmd.HasParent(): // completion is a command of cobra
		text = cmd.Long + "\n\n" + cmd.UsageString()
	}
	fmt.Fprint(a.out, a.wrap(text))
}

// wrap breaks the lines of a help by the terminal's width, if there is one.
func (a *App) wrap(text string) string { return console.Wrap(text, a.columns()) }

// columns is the width of the terminal, or 0.
func (a *App) columns() int { return shell.Width(a.out.writer(), a.getenv) }

func (a *App) names() []string {
	names := make([]string, len(a.commands))
	for i, c := range a.commands {
		names[i] = c.Name
	}
	return names
}

func (a *App) helpAll() string {
	var b strings.Builder
	if !a.session {
		fmt.Fprintf(&b, "Usage: %s\n\n", rootUsage)
		b.WriteString("A shell for ZooKeeper servers. Without a command it is interactive, or runs the\n" +
			"lines of stdin.\n\nFlags:\n")
		opts := defaults(func(string) string { return "" })
		root := &cobra.Command{Use: "zkcli"}
		opts.flags(root, false)
		if a.columns() > 0 {
			b.WriteString(root.PersistentFlags().FlagUsages()) // wrap breaks its lines
		} else {
			b.WriteString(root.PersistentFlags().FlagUsagesWrapped(100))
		}
		b.WriteString("\nCommands:\n")
	}
	width := 0
	for _, c := range a.commands {
		width = max(width, len(c.Name))
	}
	for _, c := range a.commands {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, c.Name, c.Short)
	}
	b.WriteString("\nhelp COMMAND explains a command and has examples.\n")
	return b.String()
}

func (a *App) helpOf(c *Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s.\n", c.usage(), c.Short)
	if c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", c.Long)
	}
	cmd := &cobra.Command{Use: c.Name}
	c.setup(cmd)
	if usages := cmd.Flags().FlagUsages(); usages != "" {
		fmt.Fprintf(&b, "\nFlags:\n%s", usages)
	}
	if len(c.Examples) > 0 {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.examples())
	}
	return b.String()
}

// examples returns a line for each example, or "".
func (c *Command) examples() string {
	width := 0
	for _, e := range c.Examples {
		width = max(width, len(e.Line))
	}
	var lines []string
	for _, e := range c.Examples {
		lines = append(lines, fmt.Sprintf("  %-*s   # %s", width, e.Line, e.Does))
	}
	return strings.Join(lines, "\n")
}

// helpDoc is a command's help in JSON.
type helpDoc struct {
	Name     string    `json:"name"`
	Usage    string    `json:"usage"`
	Short    string    `json:"short"`
	Long     string    `json:"long,omitempty"`
	Examples []Example `json:"examples,omitempty"`
}

func (a *App) helpDocs(list []Command) []helpDoc {
	var docs []helpDoc
	for i := range list {
		c := &list[i]
		docs = append(docs, helpDoc{c.Name, c.usage(), c.Short, c.Long, c.Examples})
	}
	return docs
}
