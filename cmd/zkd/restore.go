package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/migrate/moving"
	"github.com/zkd-project/zkd/server/history"
)

// newRestore returns the command that makes data of a backup.
func newRestore() *cobra.Command {
	var m moving.Restore
	var members, until, at string
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "restore --from FILE|DIR --to DIR",
		Short: "Make the data of a new server, or of a new ensemble, from a backup",
		Long: "Write the state in FILE, which zkcli backup has fetched, as the data of a server. With\n" +
			"--members, DIR gets a directory for each member of a new ensemble. It has another identity\n" +
			"than the one that was backed up: servers of the two refuse each other. Sessions in the\n" +
			"backup live until they expire. FILE is checked first, as by zkd verify.\n\n" +
			"--from may be a directory of zkcli backup follow, or the dataDir of a stopped server or a\n" +
			"copy of one, such as that of the last server that is left. With --until or --at the state is\n" +
			"that after a zxid or at a time, as far as its snapshots and log reach back. One member of an\n" +
			"ensemble may lack the last confirmed writes, and may have some that never were.",
		Example: "  zkd restore --from backup.db --to /var/lib/zkd\n" +
			"  zkd restore --from backup.db --members 1,2,3 --to new\n" +
			"  zkd restore --from /backup --members 1,2,3 --to new\n" +
			"  zkd restore --from /var/lib/zkd --at 2026-11-22T14:05:00Z --members 1,2,3 --to new",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if m.From == "" || m.To == "" {
				return usageError{errors.New("restore needs --from FILE or DIR, and --to DIR")}
			}
			if m.Members, err = parseMembers(members); err == nil {
				m.At, err = history.ParseMoment(until, at)
			}
			if err != nil {
				return usageError{err}
			}
			report, err := m.Run(cmd.Context())
			return out.report(cmd, report, err)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&m.From, "from", "", "the backup, a directory of backups, or a dataDir")
	fl.StringVar(&m.LogDir, "log-dir", "", "the dataLogDir of --from, if it is another directory")
	fl.StringVar(&until, "until", "", "the state after this zxid, in hex")
	fl.StringVar(&at, "at", "", "the state at this time, such as 2026-11-22T14:05:00Z")
	fl.StringVar(&m.To, "to", "", "dataDir to write; it must have no data")
	fl.StringVar(&m.ToLog, "to-log-dir", "", "dataLogDir to write, if it is another directory")
	fl.StringVar(&members, "members", "", "ids of the members of an ensemble, such as 1,2,3: DIR gets a directory for each")
	out.add(fl)
	return cmd
}
