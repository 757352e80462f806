package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/internal/moving"
)

// newRestore returns the command that makes data of a backup.
func newRestore() *cobra.Command {
	var m moving.Restore
	var members string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "restore --from FILE --to DIR",
		Short: "Make the data of a new server, or of a new ensemble, from a backup",
		Long: "Write the state in FILE, which zkcli backup has fetched, as the data of a server. With\n" +
			"--members, DIR gets a directory for each member of a new ensemble. It has another identity\n" +
			"than the one that was backed up: servers of the two refuse each other. Sessions in the\n" +
			"backup live until they expire. FILE is checked first, as by zkd verify.",
		Example: "  zkd restore --from backup.db --to /var/lib/zkd\n" +
			"  zkd restore --from backup.db --members 1,2,3 --to new",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if m.From == "" || m.To == "" {
				return usageError{errors.New("restore needs --from FILE and --to DIR")}
			}
			if m.Members, err = parseMembers(members); err != nil {
				return usageError{err}
			}
			report, err := m.Run(cmd.Context())
			if report != nil {
				err = errors.Join(printReport(cmd.OutOrStdout(), report, asJSON), err)
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&m.From, "from", "", "the backup")
	fl.StringVar(&m.To, "to", "", "dataDir to write; it must have no data")
	fl.StringVar(&m.ToLog, "to-log-dir", "", "dataLogDir to write, if it is another directory")
	fl.StringVar(&members, "members", "", "ids of the members of an ensemble, such as 1,2,3: DIR gets a directory for each")
	fl.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}
