package doclines

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/commands"
)

// Cobra returns a function that parses a line with the commands of a program, and runs nothing.
func Cobra(newRoot func() *cobra.Command) func(args []string, atPrompt bool) error {
	return func(args []string, _ bool) error {
		root := newRoot()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		idle(root)
		return commands.Execute(context.Background(), root, args, func(err error) error { return err })
	}
}

// idle makes commands do nothing, but for those that only refuse words which name no command below them.
func idle(c *cobra.Command) {
	if !c.HasSubCommands() || strings.Contains(c.Use, " ") {
		c.Run, c.RunE = nil, func(*cobra.Command, []string) error { return nil }
	}
	for _, below := range c.Commands() {
		idle(below)
	}
}
