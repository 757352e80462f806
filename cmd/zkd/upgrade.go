package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/data"
)

// askPeerTimeout is how long another server may take to say which versions it speaks.
const askPeerTimeout = 5 * time.Second

// newUpgradeCheck returns the command that is run with a new version before its first start.
func newUpgradeCheck() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "upgrade-check [FILE]",
		Short: "Say, before the first start of this version, whether it fits and can be undone",
		Long: "Say, before the first start of this version, what it does to the data that an earlier one has\n" +
			"written, and whether it can be linked with the other servers of the ensemble, which it asks.\n" +
			"It changes nothing, and the earlier version may run. It exits 0 if the upgrade can be rolled out\n" +
			"server by server and its first start can be undone, else 1 after saying why not.",
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && f.config == "" && f.dataDir == "" {
				args = []string{localConfig(os.Getenv)}
			}
			cfg, _, err := f.load(cmd, args)
			if err != nil {
				return usageError{err}
			}
			return upgradeCheck(cmd.Context(), cmd.OutOrStdout(), cfg)
		},
	}
	f.addSettings(cmd)
	return cmd
}

func upgradeCheck(ctx context.Context, w io.Writer, cfg *config.Config) error {
	found, err := data.Formats(ctx, cfg)
	if err != nil {
		return err
	}
	printFormats(w, found)
	transactions := found[len(found)-1]
	needs, most := transactions.Found, transactions.Range().Most
	var problems []string
	final := func(text string) {
		fmt.Fprintln(w, text)
		problems = append(problems, text)
	}
	older := false
	for _, f := range found {
		if older = older || f.Older(); f.Older() {
			final(fmt.Sprintf("%s: this version writes a newer one, which the version that wrote the data can't read. Going back needs a copy of the directories from before.", f))
		}
	}
	if !older {
		fmt.Fprintln(w, "The first start changes no format of the data.")
	}
	if needs != 0 && needs < most {
		when := "once all servers of the ensemble read them"
		if !cfg.Replicated() {
			when = "from the first session on"
		}
		fmt.Fprintf(w, "Transactions of formats above %d, up to %d, are written %s. A version that does not read them can't come back after that.\n", needs, most, when)
	}
	for i := range cfg.Members.Servers {
		peer := &cfg.Members.Servers[i]
		if !cfg.Replicated() || peer.ID == cfg.MyID {
			continue
		}
		if text, fits := askPeer(ctx, cfg, peer, needs); fits {
			fmt.Fprintln(w, text)
		} else {
			final(text)
		}
	}
	if len(problems) > 0 {
		return errors.New("the upgrade can't be rolled out server by server, or can't be undone: see above")
	}
	return nil
}

// askPeer says whether this version can be linked with another server.
func askPeer(ctx context.Context, cfg *config.Config, peer *config.Server, needs uint32) (text string, fits bool) {
	ctx, cancel := context.WithTimeout(ctx, askPeerTimeout)
	defer cancel()
	name := fmt.Sprintf("server %d, at %s: ", peer.ID, peer.Addrs[0])
	switch v, mismatch, err := server.AskPeer(ctx, cfg, peer, needs); {
	case err != nil:
		return name + "it does not say which versions it speaks: " + strings.TrimSpace(err.Error()), false
	case mismatch != "":
		return name + "it can't be linked with this version, so all servers must be stopped before the first one is upgraded: " + mismatch, false
	default:
		return fmt.Sprintf("%sit can be linked with this version: it speaks protocol %d, and reads transactions up to format %d", name, v.Most, v.Reads), true
	}
}

// printFormats prints a table of the formats of the data.
func printFormats(w io.Writer, found []data.Format) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FORMAT\tON DISK\tWRITTEN BY THIS VERSION\tREAD BY IT")
	for _, f := range found {
		r, disk := f.Range(), "none"
		if f.Found != 0 {
			disk = fmt.Sprint(f.Found)
		}
		writes := fmt.Sprint(r.Writes)
		if f.Waits() {
			writes = fmt.Sprintf("up to %d", r.Most)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d to %d\n", f.Format, disk, writes, r.Least, r.Most)
	}
	_ = t.Flush() // of w, which is the output of a command
}
