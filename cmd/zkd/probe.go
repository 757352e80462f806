package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/cmd/zkcli/servers"
	"github.com/zkd-project/zkd/server/config"
)

// probe is a question to one server, for platforms whose probes run a command.
type probe struct {
	name    string // also of the admin page, with a z
	short   string
	timeout time.Duration
	// word judges the answer to srvr, where there is no admin page.
	word func(v *servers.View) error
}

// newProbes returns the commands ready and live.
func newProbes() []*cobra.Command {
	return []*cobra.Command{
		newProbe(probe{
			name: "ready", short: "Tell by the exit code whether a server serves clients now", timeout: 5 * time.Second,
			word: func(v *servers.View) error {
				switch {
				case v.Err != nil:
					return errors.New(problem(v))
				case !v.Serves():
					return errors.New("no quorum is reached: only read-only clients are served")
				}
				return nil
			},
		}),
		newProbe(probe{
			// Longer than a server waits for its own parts.
			name: "live", short: "Tell by the exit code whether a server makes progress", timeout: 15 * time.Second,
			word: func(v *servers.View) error {
				if v.Err != nil && !v.Reachable {
					return errors.New(problem(v))
				}
				return nil
			},
		}),
	}
}

func newProbe(p probe) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   p.name + " [HOST:PORT | URL]",
		Short: p.short,
		Long: p.short + ", 0 or 1. It prints a line.\n\n" +
			"Without an argument the server of a configuration is asked: that of --config, or else\n" +
			installedConfig + ". If it has an AdminServer without TLS, its page /" + p.name + "z answers. Otherwise\n" +
			"the four-letter word srvr does, which knows less: it can't tell that a disk hangs. A port\n" +
			"with TLS alone is asked with the server's own certificate.\n" +
			"HOST:PORT is a client port, and URL the address of an AdminServer.",
		Example: "  zkd " + p.name + "\n  zkd " + p.name + " --config zoo.cfg\n  zkd " + p.name + " http://localhost:8080",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, asker, err := probeTarget(file, args)
			if err != nil {
				return usageError{err}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), p.timeout)
			defer cancel()
			note, err := p.ask(ctx, asker, at)
			if err != nil {
				return fmt.Errorf("%s is not %s: %w", at, p.name, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is %s%s\n", at, p.name, note)
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", localConfig(os.Getenv), "configuration of the server to ask, if none is named")
	cmd.Flags().DurationVar(&p.timeout, "timeout", p.timeout, "wait so long for the answer")
	return cmd
}

// probeTarget returns the server to ask: the URL of an AdminServer, or a client port.
func probeTarget(file string, args []string) (string, servers.Asker, error) {
	if len(args) == 0 {
		if cfg, _, err := config.Load(file); err == nil && cfg.Admin.Enabled && cfg.Admin.AcceptPlain && cfg.Admin.Port != 0 {
			return "http://" + net.JoinHostPort(reachable(cfg.Admin.Host), strconv.Itoa(cfg.Admin.Port)), servers.Asker{}, nil
		}
		addr, secure, err := localServer(file)
		return addr, askerOver(secure), err
	}
	if strings.Contains(args[0], "://") {
		return strings.TrimSuffix(args[0], "/"), servers.Asker{}, nil
	}
	addrs, err := clientPorts(args)
	if err == nil && len(addrs) > 1 {
		err = fmt.Errorf("%s: name one server", args[0])
	}
	if err != nil {
		return "", servers.Asker{}, err
	}
	return addrs[0], servers.Asker{}, nil
}

// reachable returns where to reach a server on this machine that listens on host.
func reachable(host string) string {
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		return "localhost"
	}
	return host
}

// ask asks the server. note is what it says although all is well.
func (p *probe) ask(ctx context.Context, a servers.Asker, at string) (note string, err error) {
	if !strings.Contains(at, "://") {
		v := a.Look(ctx, at)
		return "", p.word(&v)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/"+p.name+"z?verbose", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("no answer within %v", p.timeout)
		}
		return "", errors.New(servers.Reason(err))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var problems []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if problem, ok := strings.CutPrefix(line, "[-] "); ok {
			problems = append(problems, problem)
		}
		if _, text, ok := strings.Cut(line, ": ok, but "); ok {
			note += ", but " + text
		}
	}
	switch {
	case resp.StatusCode == http.StatusOK:
		return note, err
	case len(problems) > 0:
		return "", errors.New(strings.Join(problems, "; "))
	}
	return "", fmt.Errorf("the answer is %s", resp.Status)
}
