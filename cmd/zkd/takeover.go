package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/migrate/takeover"
	"github.com/zkd-project/zkd/server/config"
)

// newTakeover returns the command that makes a zkd ensemble of a running one of Apache's.
func newTakeover() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "takeover",
		Short: "Take over a running ensemble of Apache ZooKeeper",
		Long: "Move a running ensemble of Apache ZooKeeper to zkd with a short pause. Each member of the zkd\n" +
			"ensemble to be follows Apache's leader as an observer (takeover mirror), while Apache's\n" +
			"servers serve the clients. When these servers are stopped, takeover finish makes the copies\n" +
			"the data of the members. Up to then nothing on Apache's side changes: to give up, stop the\n" +
			"mirrors. See docs/moving.md.",
	}
	cmd.AddCommand(newMirror(), newTakeoverStatus(), newDecide(), newFinish())
	return cmd
}

func newMirror() *cobra.Command {
	var o takeover.Options
	var file, listen, jaasFile, jaasSection, service string
	cmd := &cobra.Command{
		Use:   "mirror --from HOST:PORT,... {--to DIR --sid ID | --config FILE}",
		Short: "Keep a copy of a running ensemble of Apache ZooKeeper",
		Long: "Join a running ensemble of Apache ZooKeeper, 3.4 to 3.9, as an observer, and keep an exact copy\n" +
			"of its state in DIR: znodes with all of their stats and ACLs, sessions, zxids. It needs no change\n" +
			"of Apache's configuration. It runs until it is interrupted; started again, it continues.\n\n" +
			"HOST:PORT is a quorum port: the first port of a server's line in zoo.cfg. Name those of all\n" +
			"servers. ID is the id that the zkd server will have; no server of Apache's may have it.\n\n" +
			"FILE is the zoo.cfg of the zkd server to be. Its dataDir, dataLogDir, id, initLimit and syncLimit are\n" +
			"taken, and with sslQuorum=true the link has TLS, with the keys of ssl.quorum.*.\n\n" +
			"Where Apache's servers log in to each other (quorum.auth.enableSasl), --jaas names their JAAS\n" +
			"file. Its section QuorumLearner must have a user and a password (DIGEST-MD5), or a keyTab and a\n" +
			"principal, or a ticketCache (Kerberos, as $KRB5_CONFIG or /etc/krb5.conf say).\n\n" +
			"With --listen, clients that accept a read-only server may read the copy meanwhile, as zkcli -r\n" +
			"does. FILE then says what else holds for them: ACLs, TLS, limits. Writes are refused.",
		Example: "  zkd takeover mirror --from zk1:2888,zk2:2888,zk3:2888 --to /var/lib/zkd --sid 101\n" +
			"  zkd takeover mirror --from zk1:2888,zk2:2888,zk3:2888 --config /etc/zkd/zoo.cfg",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.From) == 0 || (o.Dir == "") != (file != "") {
				return usageError{errors.New("takeover mirror needs --from HOST:PORT,... and either --to DIR or --config FILE")}
			}
			if file != "" {
				if err := configureMirror(&o, file); err != nil {
					return usageError{err}
				}
			}
			if listen != "" {
				if err := configureReaders(&o, file, listen); err != nil {
					return usageError{err}
				}
			}
			if jaasFile != "" {
				login, err := takeover.ReadLogin(jaasFile, jaasSection, service)
				if err != nil {
					return usageError{fmt.Errorf("--jaas: %w", err)}
				}
				o.Login = login
			}
			for _, addr := range o.From {
				if _, _, err := net.SplitHostPort(addr); err != nil {
					return usageError{fmt.Errorf("--from: %q: write HOST:PORT, with the quorum port", addr)}
				}
			}
			if o.ID == 255 {
				return usageError{errors.New("--sid: the id of a server is 1 to 254")}
			}
			if o.InitLimit <= 0 || o.SyncLimit <= 0 {
				return usageError{errors.New("--init-limit and --sync-limit must be longer than 0")}
			}
			log, lines := logTo(cmd.ErrOrStderr(), "", zap.InfoLevel)
			defer lines.Close()
			o.Logger = log
			ctx, stop := untilHangup(cmd.Context())
			defer stop()
			return takeover.Mirror(ctx, o)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&o.From, "from", nil, "quorum ports of Apache's servers, with commas")
	fl.StringVarP(&file, "config", "c", "", "zoo.cfg of the zkd server to be")
	fl.StringVar(&o.Dir, "to", "", "dataDir of the zkd server to be; empty at first")
	fl.StringVar(&o.LogDir, "to-log-dir", "", "its dataLogDir, if it is another directory")
	fl.Uint8Var(&o.ID, "sid", 0, "id of the zkd server to be, such as 101; needed at first")
	fl.DurationVar(&o.InitLimit, "init-limit", 30*time.Second, "time for the leader to send its state: initLimit times tickTime of Apache's servers")
	fl.StringVar(&jaasFile, "jaas", "", "JAAS `FILE` of Apache's servers, if they log in to each other")
	fl.StringVar(&jaasSection, "jaas-section", "QuorumLearner", "section of --jaas: quorum.auth.learner.saslLoginContext of Apache's servers")
	fl.StringVar(&service, "kerberos-service", "zkquorum/localhost", "`PRINCIPAL` of Apache's servers: their quorum.auth.kerberos.servicePrincipal; _HOST is the host in --from")
	fl.StringVar(&listen, "listen", "", "HOST:PORT where clients may read the copy; HOST may be empty, for all addresses")
	fl.DurationVar(&o.SyncLimit, "sync-limit", 10*time.Second, "time after which a silent leader is given up: syncLimit times tickTime")
	return cmd
}

// configureMirror takes the options of a mirror from the configuration of the server to be.
func configureMirror(o *takeover.Options, file string) error {
	cfg, _, err := config.Load(file)
	if err != nil {
		return err
	}
	if !cfg.Replicated() {
		return fmt.Errorf("%s has no server lines: a mirror is for a member of an ensemble", file)
	}
	o.Dir, o.LogDir, o.ID, o.SegmentSize = cfg.DataDir, cfg.DataLogDir, uint8(cfg.MyID), cfg.WALSegmentSize
	o.InitLimit, o.SyncLimit = cfg.InitLimit, cfg.SyncLimit
	if cfg.QuorumTLS.Dial {
		o.TLS = &cfg.QuorumTLS.Settings
	}
	return nil
}

// configureReaders lets clients read the copy at an address. Where the configuration has a port with TLS
// only, they need TLS.
func configureReaders(o *takeover.Options, file, listen string) error {
	host, text, err := net.SplitHostPort(listen)
	port, perr := strconv.ParseUint(text, 10, 16)
	if err != nil || perr != nil {
		return fmt.Errorf("--listen: %q: write HOST:PORT", listen)
	}
	load := func() (*config.Config, []config.Warning, error) { return config.Load(file) }
	if file == "" {
		load = func() (*config.Config, []config.Warning, error) {
			return config.Default(os.Getenv, config.Override("dataDir", o.Dir))
		}
	}
	cfg, _, err := load()
	if err != nil {
		return err
	}
	if cfg.ClientPort < 0 && cfg.ClientTLS.Port >= 0 {
		cfg.ClientTLS.Address, cfg.ClientTLS.Port = host, int(port)
	} else {
		cfg.ClientPortAddress, cfg.ClientPort, cfg.ClientTLS.Port = host, int(port), -1
	}
	o.Readers, o.Version = cfg, zooKeeperVersion()
	return nil
}

func newTakeoverStatus() *cobra.Command {
	return statusCommand("Show how far the copies in these directories are",
		"Show how far the copies in these directories are. They can be taken over when each is synced, its lag\n"+
			"is small, and no digest is wrong.", takeover.ReadStatus)
}

// apacheDisks are the flags for the data of stopped servers of Apache's.
func apacheDisks(fl *pflag.FlagSet, from, logDirs *[]string, single *bool) {
	fl.StringArrayVar(from, "from", nil, "dataDir of an Apache server; once for each server of a majority")
	fl.StringArrayVar(logDirs, "log-dir", nil, "its dataLogDir, if it is another directory; once for each --from")
	fl.BoolVar(single, "single", false, "accept the data of fewer servers than a majority, which may lack confirmed writes")
}

func newDecide() *cobra.Command {
	var d takeover.Decide
	var out outputFlag
	cmd := &cobra.Command{
		Use:   "decide --from DATADIR... --member MEMBER... --decision FILE DIR",
		Short: "Decide how copies on several machines become a zkd ensemble",
		Long: "Decide how copies on several machines become a zkd ensemble, after the servers of Apache's ensemble\n" +
			"were stopped, followers before the leader. DIR is the copy of this machine. Name the other ones as\n" +
			"takeover status shows them (member), and the data directories of a majority of Apache's servers.\n\n" +
			"FILE gets the decision, with the last transactions and the secret of the ensemble. Bring it to each\n" +
			"machine, and run takeover finish --decision FILE DIR there and here. This command makes no copy\n" +
			"a member: up to the first takeover finish nothing is lost by starting Apache's servers again. If\n" +
			"they are, remove FILE.",
		Example: "  zkd takeover decide --from zk1/data --from zk2/data --member 102:ab12...:0x1000033e7 \\\n" +
			"      --member 103:cd34...:0x1000033e7 --decision decision /var/lib/zkd",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if len(d.From) == 0 || d.File == "" {
				return usageError{errors.New("takeover decide needs --from DATADIR, once for each server of a majority, and --decision FILE")}
			}
			log, lines := logTo(cmd.ErrOrStderr(), "", zap.WarnLevel)
			defer lines.Close()
			d.Dir, d.Logger = dirs[0], log
			r, err := d.Run(cmd.Context())
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), r)
		},
	}
	fl := cmd.Flags()
	apacheDisks(fl, &d.From, &d.LogDirs, &d.Single)
	fl.StringArrayVar(&d.Others, "member", nil, "another member, ID:INCARNATION:ZXID; once for each")
	fl.StringVar(&d.File, "decision", "", "file to write; it must not exist")
	fl.StringVar(&d.LogDir, "to-log-dir", "", "dataLogDir of the copy, if it is another directory")
	out.add(fl)
	return cmd
}

func newFinish() *cobra.Command {
	var f takeover.Finish
	var out outputFlag
	var after string
	cmd := &cobra.Command{
		Use:   "finish {--from DATADIR... | --decision FILE [--from DATADIR...] | --accept-data-loss-after ZXID} DIR...",
		Short: "Make the copies of a stopped ensemble the data of a zkd ensemble",
		Long: "Make the copies in these directories the data of the members of a zkd ensemble, after the servers\n" +
			"of Apache's ensemble were stopped, followers before the leader. Name the data directories of a\n" +
			"majority of Apache's servers: the last transactions may be on their disks only. They are not\n" +
			"changed. The mirrors must be stopped, and end with equal data.\n\n" +
			"With --decision, DIR is one of the copies of an ensemble that takeover decide has decided about, and\n" +
			"--from names those data directories of Apache's servers that this machine has: the command refuses if\n" +
			"these servers have run since the decision. It looks at those that were named for the decision, too.\n\n" +
			"If all of Apache's servers are lost, name neither. Without --accept-data-loss-after the command says\n" +
			"where the copies end, and changes nothing. Copies that end elsewhere are left out: these servers\n" +
			"begin with empty directories, as new members.\n\n" +
			"Until the command says that it has decided, nothing is lost by starting Apache's servers again.\n" +
			"Afterwards zkd export is the way back. An interrupted command may be repeated.",
		Example: "  zkd takeover finish --from zk1/data --from zk2/data --from zk3/data new/101 new/102 new/103\n" +
			"  zkd takeover finish --decision decision --from /var/lib/zookeeper /var/lib/zkd",
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if after != "" && len(f.From)+len(f.Decision) > 0 {
				return usageError{errors.New("--accept-data-loss-after is for servers that are lost, without --from or --decision")}
			}
			var err error
			if f.LossAfter, err = zxidFlag(flagLoss, after); err != nil {
				return usageError{err}
			}
			log, lines := logTo(cmd.ErrOrStderr(), "", zap.WarnLevel)
			defer lines.Close()
			f.Dirs, f.Logger = dirs, log
			r, err := f.Run(cmd.Context())
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), r)
		},
	}
	fl := cmd.Flags()
	apacheDisks(fl, &f.From, &f.LogDirs, &f.Single)
	fl.StringVar(&f.Decision, "decision", "", "file of zkd takeover decide")
	fl.StringVar(&after, flagLoss, "", "`ZXID` at which the copies end, if Apache's servers are lost")
	fl.StringArrayVar(&f.ToLogs, "to-log-dir", nil, "dataLogDir of a copy, if it is another directory; once for each DIR")
	out.add(fl)
	return cmd
}
