package main

import (
	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server/data"
)

// newLog returns the commands that inspect a log without a server.
func newLog() *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Look at the write-ahead log of a server"}
	cmd.AddCommand(&cobra.Command{
		Use:   "dump PATH",
		Short: "Print a line for each record of a log",
		Long: "Print a line for each segment and record of the log at PATH: what each transaction\n" +
			"did, without data. PATH is dataLogDir, its directory journal, or one segment. It\n" +
			"changes nothing, and works on a damaged log and on that of a running server.",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return data.DumpLog(cmd.OutOrStdout(), args[0])
		},
	})
	return cmd
}
