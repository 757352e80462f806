package command

import (
	"context"

	"github.com/spf13/cobra"
)

func quitCommand() Command {
	return Command{
		Name: "quit", Short: "End the session, with its ephemeral nodes and watches",
		Setup: func(*cobra.Command) Run {
			return func(context.Context, *Call) error { return ErrQuit }
		},
	}
}
