package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/history"
)

// newHistory returns the command that shows what a log says of a znode.
func newHistory() *cobra.Command {
	var from string
	var below bool
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "history --from DIR PATH",
		Short: "Show who changed a znode, and when",
		Long: "Print a line for each change of the znode at PATH: time, zxid, session, operation and size,\n" +
			"as far as the log in DIR reaches back, and then how far that is. DIR is a dataLogDir (the\n" +
			"dataDir, if there is no other one); its server may run. The last entries may not be\n" +
			"confirmed by the other servers. zkcli history does the same with what zkcli backup follow\n" +
			"has copied. In JSON, each change is a line.",
		Example: "  zkd history --from /var/lib/zkd /app/config\n" +
			"  zkd history --from /var/lib/zkd -R -o json /app",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if from == "" {
				return usageError{errors.New("history needs --from DIR")}
			}
			changes, spans, err := data.LogHistory(from, args[0], below)
			w := cmd.OutOrStdout()
			for i := range changes {
				if out.json {
					if err := json.NewEncoder(w).Encode(changes[i].JSON()); err != nil {
						return err
					}
				} else if _, err := fmt.Fprintln(w, changes[i].String()); err != nil {
					return err
				}
			}
			if err == nil {
				_, err = fmt.Fprintln(cmd.ErrOrStderr(), history.Known(spans))
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&from, "from", "", "a dataLogDir")
	fl.BoolVarP(&below, "recursive", "R", false, "also what is below PATH")
	out.add(fl)
	return cmd
}
