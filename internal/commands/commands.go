package commands

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/console"
)

// Strict makes each command below root that has commands of its own, but does nothing itself, refuse
// every other word, and none at all; root alone shows its help then. usage makes of an error one about the
// usage. Help is as wide as the terminal.
func Strict(root *cobra.Command, usage func(error) error) {
	root.SetHelpFunc(wrapped(root.HelpFunc()))
	root.SetHelpCommand(help(root, usage))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		strict(c, usage)
	}
	if root.Runnable() {
		return
	}
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(root *cobra.Command, args []string) error {
		if len(args) == 0 {
			return root.Help()
		}
		return usage(noCommand(root, args[0]))
	}
}

// wrapped is a help function whose lines fit on the terminal.
func wrapped(help func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		var text strings.Builder
		c.SetOut(&text)
		help(c, args)
		c.SetOut(out)
		fmt.Fprint(out, console.Wrap(text.String(), console.Width(out)))
	}
}

func strict(c *cobra.Command, usage func(error) error) {
	for _, below := range c.Commands() {
		strict(below, usage)
	}
	if !c.HasSubCommands() || c.Runnable() {
		return
	}
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(fmt.Errorf("%s needs a command: %s", c.CommandPath(), strings.Join(names(c), ", ")))
		}
		return usage(noCommand(c, args[0]))
	}
}

// noCommand is the error for a word that is no command of c.
func noCommand(c *cobra.Command, word string) error {
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(word); len(near) > 0 {
		return fmt.Errorf("unknown command %q for %q: did you mean %s?", word, c.CommandPath(), strings.Join(near, ", or "))
	}
	return fmt.Errorf("unknown command %q for %q, which has %s", word, c.CommandPath(), strings.Join(names(c), ", "))
}

func names(c *cobra.Command) (list []string) {
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() || below.Name() == "help" {
			list = append(list, below.Name())
		}
	}
	return list
}

// help is cobra's command help, except for words that name no command.
func help(root *cobra.Command, usage func(error) error) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			at := root
			for _, word := range args {
				next := find(at, word)
				if next == nil {
					return usage(noCommand(at, word))
				}
				at = next
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

func find(c *cobra.Command, word string) *cobra.Command {
	for _, below := range c.Commands() {
		if below.Name() == word || below.HasAlias(word) {
			return below
		}
	}
	return nil
}
