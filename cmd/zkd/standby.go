package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/standby"
	"github.com/zkd-project/zkd/server/archive/source"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/secure"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/zab"
)

// newStandby returns the command that keeps a copy of an ensemble, which can take its place.
func newStandby() *cobra.Command {
	var of, authFile string
	var rate int64
	var compress bool
	cmd := &cobra.Command{
		Use:   "standby --of URL,... FILE",
		Short: "Keep a copy of another ensemble, to take its place when that is lost",
		Long: "Follow the log of a running ensemble of zkd, and keep an exact copy of its state: znodes with all of\n" +
			"their stats and ACLs, sessions, zxids. The ensemble waits for nothing of it. It runs until it is\n" +
			"interrupted; started again, it continues. Run it on each server of another site, and standby\n" +
			"promote makes them an ensemble of their own. See docs/sites.md.\n\n" +
			"URL is that of an AdminServer (admin.serverPort), such as http://zk1:8080. Name those of all\n" +
			"servers: if one fails, another one is followed, and one that does not lead before the leader. They\n" +
			"want a caller with all permissions on /: --auth-file names a file with a line such as\n" +
			"digest:super:secret. With https, the keys of ssl.quorum.* are shown and checked.\n\n" +
			"FILE is the zoo.cfg of the member to be: dataDir, dataLogDir, its id, and server lines that name the\n" +
			"standbys. Clients that accept a read-only server may read the copy at its clientPort, and other\n" +
			"standbys may follow it at its admin.serverPort, where zkd.api and zkd.console show the copy.",
		Example: "  zkd standby --of http://zk1:8080,http://zk2:8080 --auth-file /etc/zkd/auth /etc/zkd/zoo.cfg\n" +
			"  zkd standby status /var/lib/zkd\n" +
			"  zkd standby promote --accept-data-loss-after 0x2000033e7 /etc/zkd/zoo.cfg",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			log, lines := logTo(cmd.ErrOrStderr(), "", zap.InfoLevel)
			defer lines.Close()
			o := standby.Options{Logger: log, Version: zooKeeperVersion()}
			cfg, err := standbyConfig(args[0])
			if err == nil {
				o.Place, o.Readers = placeOf(cfg), cfg
				o.Of, err = standbySource(cfg, of, authFile, rate, log)
			}
			if err == nil {
				o.Of.Compress = compress
			}
			if err != nil {
				return usageError{err}
			}
			o.Serve = func(pages http.Handler, view func() *show.View) (func(), error) {
				reg := prometheus.NewRegistry()
				reg.MustRegister(show.NewCollector(o.Version, view))
				return serveHTTP(cfg, "", reg, pages, log)
			}
			self, _, err := asksMembers(cfg, log)
			if err != nil {
				return usageError{err}
			}
			if self != nil { // it is the only one: the members of the ensemble are others
				defer self.Close()
				o.Ensemble = self.Look
			}
			ctx, stop := untilHangup(cmd.Context())
			defer stop()
			return standby.Run(ctx, o)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&of, "of", "", "URLs of the AdminServers of the ensemble, with commas")
	fl.StringVar(&authFile, "auth-file", "", "`FILE` with a line SCHEME:DATA for the AdminServers; its mode should be 0600")
	fl.BoolVar(&compress, "compress", false, "have what is read sent compressed, for a slow line")
	fl.Int64Var(&rate, "rate-kb", 0, "read at most this many kilobytes a second; 0 is no limit")
	cmd.AddCommand(newStandbyStatus(), newPromote())
	return cmd
}

// standbyConfig reads the zoo.cfg of the member that a standby is to be.
func standbyConfig(file string) (*config.Config, error) {
	cfg, _, err := config.Load(file)
	if err == nil && !cfg.Replicated() {
		err = fmt.Errorf("%s describes no ensemble: a standby is a member of one to be, and a single server line needs standaloneEnabled=false", file)
	}
	return cfg, err
}

func placeOf(cfg *config.Config) data.Place {
	return data.Place{DataDir: cfg.DataDir, LogDir: cfg.DataLogDir, Server: zab.SID(cfg.MyID), SegmentSize: cfg.WALSegmentSize}
}

// standbySource returns the servers that the flags name.
func standbySource(cfg *config.Config, of, authFile string, rate int64, log *zap.Logger) (*source.Servers, error) {
	s := &source.Servers{Rate: rate << 10}
	secured := false
	for one := range strings.SplitSeq(of, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("--of: %q is no URL of an AdminServer: it should look like http://zk1:8080", one)
		}
		secured = secured || u.Scheme == "https"
		s.Admins = append(s.Admins, strings.TrimSuffix(u.String(), "/"))
	}
	if authFile != "" {
		b, err := os.ReadFile(authFile)
		if err != nil {
			return nil, fmt.Errorf("--auth-file: %w", err)
		}
		s.Auth = strings.Fields(string(b))
	}
	if secured {
		keys, err := secure.New(cfg.QuorumTLS.Settings, "quorum", log)
		if err != nil {
			return nil, err
		}
		s.HTTP = &http.Client{Transport: &http.Transport{DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			keys.Tick()
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{Config: keys.Peer(host)}).DialContext(ctx, network, addr)
		}}}
	}
	return s, nil
}

func newStandbyStatus() *cobra.Command {
	return statusCommand("Show how far the standbys in these directories are", "", standby.ReadStatus)
}

func newPromote() *cobra.Command {
	var p standby.Promote
	var out outputFlag
	var since, after string
	cmd := &cobra.Command{
		Use:   "promote {--retired-since ZXID | --accept-data-loss-after ZXID} [--member MEMBER...] FILE",
		Short: "Make a standby a member of an ensemble of its own",
		Long: "Make the copy of a standby, which must be stopped, the data of a member of an ensemble of its own. It\n" +
			"has the same tree and sessions, and another identity: servers of the two ensembles refuse each other.\n" +
			"Sessions keep their passwords, and have their whole timeout from the start of the ensemble.\n\n" +
			"If the other ensemble is retired (zkcli member retire), --retired-since has the zxid that this has\n" +
			"printed: the copy must have it, and then it has everything. If it is lost, --accept-data-loss-after\n" +
			"has the end of the copy: what was acknowledged after it is given up, and the other ensemble must not\n" +
			"serve clients any more, as nothing else keeps the two apart. Without either flag the command says\n" +
			"what the copy has, and changes nothing.\n\n" +
			"With several standbys, name all that are promoted as standby status shows them (member), and run\n" +
			"the command with the same --member on each server. Their copies must end at the same zxid; the\n" +
			"others begin with empty directories, as new members. FILE is that of standby. An interrupted\n" +
			"command may be repeated.",
		Example: "  zkd standby promote --retired-since 0x2000033e5 /etc/zkd/zoo.cfg\n" +
			"  zkd standby promote --accept-data-loss-after 0x2000033e7 --member 4:ab12...:0x2000033e7 \\\n" +
			"      --member 5:cd34...:0x2000033e7 /etc/zkd/zoo.cfg",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := standbyConfig(args[0])
			if err == nil {
				p.RetiredSince, err = zxidFlag("retired-since", since)
			}
			if err == nil {
				p.LossAfter, err = zxidFlag(flagLoss, after)
			}
			if err != nil {
				return usageError{err}
			}
			log, lines := logTo(cmd.ErrOrStderr(), "", zap.WarnLevel)
			defer lines.Close()
			p.Place, p.Logger = placeOf(cfg), log
			r, err := p.Run(cmd.Context())
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), r)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&since, "retired-since", "", "`ZXID` that zkcli member retire has printed")
	fl.StringVar(&after, flagLoss, "", "`ZXID` at which the copy ends, if the other ensemble is lost")
	cmd.MarkFlagsMutuallyExclusive("retired-since", flagLoss)
	fl.StringArrayVar(&p.Members, "member", nil, "a standby that is promoted, ID:INCARNATION:ZXID; once for each")
	out.add(fl)
	return cmd
}

// flagLoss gives up what was acknowledged after a zxid.
const flagLoss = "accept-data-loss-after"

// zxidFlag reads the value of a flag; 0 if it is not given.
func zxidFlag(name, text string) (jute.Zxid, error) {
	if text == "" {
		return 0, nil
	}
	z, err := strconv.ParseInt(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil || z <= 0 {
		return 0, fmt.Errorf("--%s: %q is no zxid, such as 0x2000033e7", name, text)
	}
	return jute.Zxid(z), nil
}
