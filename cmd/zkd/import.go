package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/moving"
	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/zab"
)

// newImport returns the command that moves data from Apache's servers to zkd.
func newImport() *cobra.Command {
	var m moving.Import
	var members, until string
	var check bool
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "import --from DATADIR [--log-dir DIR] --to DIR",
		Short: "Make the data of stopped Apache servers the data of zkd",
		Long: "Read the snapshots and logs of a stopped Apache ZooKeeper server, 3.4 to 3.9, and write\n" +
			"them as the data of zkd: znodes with all of their stats and ACLs, sequence counters, zxids,\n" +
			"sessions with their timeouts and passwords. Nothing is written into DATADIR.\n\n" +
			"Of an ensemble, name the directories of a majority of the servers: the most advanced one\n" +
			"is taken. --members writes the directories of all members of the new ensemble.",
		Example: "  zkd import --from /var/lib/zookeeper --to /var/lib/zkd\n" +
			"  zkd import --from zk1/data --from zk2/data --from zk3/data --members 1,2,3 --to new\n" +
			"  zkd import --from /var/lib/zookeeper --check",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if len(m.From) == 0 || (m.To == "") != check {
				return usageError{errors.New("import needs --from DATADIR, and either --to DIR or --check")}
			}
			if m.Members, err = parseMembers(members); err == nil {
				m.Until, err = parseUntil(until)
			}
			if err != nil {
				return usageError{err}
			}
			report, err := m.Run(cmd.Context())
			return out.report(cmd, report, err)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&m.From, "from", nil, "dataDir of an Apache server; several for several servers of an ensemble")
	fl.StringArrayVar(&m.LogDirs, "log-dir", nil, "its dataLogDir, if it is another directory; once for each --from")
	fl.StringVar(&m.To, "to", "", "dataDir to write; it must have no data")
	fl.StringVar(&m.ToLog, "to-log-dir", "", "dataLogDir to write, if it is another directory")
	fl.StringVar(&members, "members", "", "ids of the members of an ensemble, such as 1,2,3: DIR gets a directory for each")
	fl.BoolVar(&check, "check", false, "only read, and print what would be imported")
	fl.BoolVar(&m.Single, "single", false, "accept the data of fewer servers than a majority, which may lack confirmed writes")
	fl.StringVar(&until, "until", "", "import the state after this zxid, in hex, and not the last one")
	fl.BoolVar(&m.TrustEmpty, "trust-empty", false, "accept logs without any snapshot")
	fl.Uint32Var(&m.Epoch, "epoch", 0, "the epoch that the server has reached, if its files currentEpoch and acceptedEpoch are lost or wrong; with one --from")
	fl.BoolVar(&m.TTL353, "emulate-353-ttl", false, "the servers were of 3.5.3, or had emulate353TTLNodes: keep their znodes with a time to live")
	fl.BoolVar(&m.IgnoreDigest, "ignore-digest", false, "accept a tree that differs from the digests in the log")
	out.add(fl)
	return cmd
}

// newExport returns the command that moves data from zkd to Apache's servers.
func newExport() *cobra.Command {
	var e moving.Export
	var members, format, sessions string
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "export --format apache --from DIR [--log-dir DIR] --to DIR",
		Short: "Make the data of stopped zkd servers the data of Apache servers",
		Long: "Write the data of a stopped zkd server as a data directory of Apache ZooKeeper, 3.5 or\n" +
			"later: a snapshot with the same znodes, stats, ACLs, sessions and last zxid.\n\n" +
			"Of an ensemble, name the directories of a majority of the servers: the most advanced one\n" +
			"is taken. --members writes the directories of all servers of Apache's ensemble.",
		Example: "  zkd export --format apache --from /var/lib/zkd --to /var/lib/zookeeper\n" +
			"  zkd export --format apache --from zk1 --from zk2 --members 1,2,3 --to new",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch {
			case len(e.From) == 0 || e.To == "":
				err = errors.New("export needs --from DIR and --to DIR")
			case format != "apache":
				err = fmt.Errorf("--format: %q is not apache", format)
			case sessions != "keep" && sessions != "drop":
				err = fmt.Errorf("--sessions: %q is neither keep nor drop", sessions)
			default:
				e.DropSessions = sessions == "drop"
				e.Members, err = parseMembers(members)
			}
			if err != nil {
				return usageError{err}
			}
			report, err := e.Run(cmd.Context())
			return out.report(cmd, report, err)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&format, "format", "apache", "whose format: apache")
	fl.StringArrayVar(&e.From, "from", nil, "dataDir of a zkd server; several for several servers of an ensemble")
	fl.StringArrayVar(&e.LogDirs, "log-dir", nil, "its dataLogDir, if it is another directory; once for each --from")
	fl.StringVar(&e.To, "to", "", "dataDir to write; it must be empty")
	fl.StringVar(&members, "members", "", "ids of the servers of an ensemble, such as 1,2,3: DIR gets a directory for each")
	fl.BoolVar(&e.Single, "single", false, "accept the data of fewer servers than a majority, which may lack confirmed writes")
	fl.StringVar(&sessions, "sessions", "keep", "what becomes of sessions that zkd has opened: keep, or drop with their ephemerals")
	fl.BoolVar(&e.TTLEnabled, "ttl-enabled", false, "the Apache servers have extendedTypesEnabled=true, so znodes with a time to live may be written")
	out.add(fl)
	return cmd
}

func parseMembers(list string) (ids []zab.SID, err error) {
	for id := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.ParseUint(id, 10, 8)
		if err != nil || n == 0 || n > 254 {
			return nil, fmt.Errorf("--members: %q is no id of a server (1 to 254)", id)
		}
		ids = append(ids, zab.SIDOf(uint8(n)))
	}
	return ids, nil
}

func parseUntil(text string) (jute.Zxid, error) {
	m, err := history.ParseMoment(text, "")
	return m.Zxid, err
}
