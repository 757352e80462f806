package main

import (
	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server"
)

// newLog makes the commands that look at a log without a server.
func newLog() *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Look at the write-ahead log of a server"}
	cmd.AddCommand(&cobra.Command{
		Use:   "dump DIR",
		Short: "Print a line for each record of the log in dataLogDir DIR",
		Long: "Print a line for each segment and record of the log in dataLogDir DIR: what each\n" +
			"transaction did, without data. It changes nothing, and works on a damaged log and\n" +
			"on that of a running server.",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return server.DumpLog(cmd.OutOrStdout(), args[0])
		},
	})
	return cmd
}
