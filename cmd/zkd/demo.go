package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/cmd/zkd/demo"
	"github.com/zkd-project/zkd/cmd/zkd/local"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/internal/stdio"
)

// demoOptions are the flags of zkd demo.
type demoOptions struct {
	minutes   float64
	killEvery time.Duration
	alone     bool // the servers, without clients, and nothing is killed
	free      bool
	dir       string
}

// demoAway is how long a server is down that the demonstration kills, or that somebody else does.
const demoAway = 5 * time.Second

// newDemo returns the command that shows an ensemble.
func newDemo() *cobra.Command {
	o := demoOptions{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show an ensemble of three on this machine, whose leaders are killed",
		Long: "Start three servers on this machine, with a console for browsers, and clients: one writes, four\n" +
			"take turns at a lock. Then kill -9 the leader from time to time, say how long the clients waited,\n" +
			"and check that nothing which was acknowledged is lost. Ctrl-C ends it.",
		Example: "  zkd demo\n  zkd demo --servers-only --dir ./build/run3       # for your own clients; the data stay",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.killEvery != 0 && o.killEvery <= demoAway {
				return usageError{fmt.Errorf("--kill-every %v: want 0 for never, or more than %v, for which a killed server stays away", o.killEvery, demoAway)}
			}
			ctx, stop := untilHangup(cmd.Context())
			defer stop()
			if o.minutes > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(o.minutes*float64(time.Minute)))
				defer cancel()
			}
			lines := stdio.NewLines(cmd.OutOrStdout(), nil)
			defer lines.Close()
			return o.run(ctx, lines)
		},
	}
	fl := cmd.Flags()
	fl.Float64Var(&o.minutes, "minutes", 0, "end after this time; 0: at Ctrl-C")
	fl.DurationVar(&o.killEvery, "kill-every", 20*time.Second, "kill a leader so often; 0: never")
	fl.BoolVar(&o.alone, "servers-only", false, "no clients, and kill nothing")
	fl.BoolVar(&o.free, "free-ports", false, "take free ports instead of 2181, 8081, 7001, 2888 and the two after each")
	fl.StringVar(&o.dir, "dir", "", "keep the servers' files in this directory; by default they are deleted at the end")
	return cmd
}

func (o *demoOptions) run(ctx context.Context, out *stdio.Lines) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, kept := o.dir, "kept"
	if dir == "" {
		kept = "deleted at the end"
		if dir, err = os.MkdirTemp("", "zkd-demo-"); err == nil {
			defer os.RemoveAll(dir)
		}
	} else {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return err
	}
	lo := local.Options{
		Program: []string{program}, Dir: dir, Servers: 3, Lines: []string{"tickTime=2000", "initLimit=10", "syncLimit=5", "zkd.api=true", "zkd.console=true"},
		Ports: local.Ports{Client: 2181, Quorum: 2888, Admin: 8081, Metrics: 7001},
	}
	if o.free {
		lo.Ports = local.Ports{}
	}
	ended := make(chan int, 1)
	lo.Ended = func(id int) {
		select {
		case ended <- id:
		case <-ctx.Done():
		}
	}
	e, err := local.New(lo)
	if err != nil {
		return err
	}
	defer e.Close()
	say := func(format string, args ...any) {
		fmt.Fprintf(out, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	}
	if err := e.StartAll(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go raise(ctx, e, ended, say)
	o.welcome(ctx, out, e, dir, kept)
	if o.alone {
		<-ctx.Done()
		return nil
	}
	r, err := demo.Run(ctx, demo.Options{Ensemble: e, KillEvery: o.killEvery, Away: demoAway, Write: 5 * time.Millisecond, Hold: 3 * time.Second, Say: say})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d leaders killed: %d writes acknowledged, %d lost; %d turns at the lock; %d sessions lost; at most %v without an acknowledged write.\n",
		r.Kills, r.Writes, r.Lost, r.Turns, r.Expired, r.Longest.Round(time.Millisecond))
	if r.Lost > 0 || r.Expired > 0 {
		return errors.New("acknowledged writes or sessions were lost")
	}
	return nil
}

// welcome says what there is to try.
func (o *demoOptions) welcome(ctx context.Context, out io.Writer, e *local.Ensemble, dir, kept string) {
	leader := max(e.Leader(ctx), 1)
	all, one := e.ConnectString(), e.Server(1)
	host, port, _ := net.SplitHostPort(one.Client)
	page := ""
	if !o.alone {
		page = "#/coordination" + demo.Lock
	}
	fmt.Fprintf(out, `Three servers run; server %d leads. Their files and logs are in %s, which is %s.

  http://%s/console/%s
  zkcli -server %s      (or zkCli.sh, or your program)
  zkd status %s
  zkbench set %s      (load for 5 s, each reply checked)
  printf mntr | nc %s %s      (or: telnet %s %s, then type: mntr)
  curl -s http://%s/metrics
  kill -9 %d      the leader: another one leads within about a second, and this one is started again

Ctrl-C stops them.

`, leader, dir, kept, one.Admin, page, all, all, all, host, port, host, port, one.Metrics, e.Pid(leader))
}

// raise starts servers again that have ended.
func raise(ctx context.Context, e *local.Ensemble, ended <-chan int, say func(string, ...any)) {
	for {
		select {
		case id := <-ended:
			say("server %d has ended; in %v it comes back. Its last words: %.300s", id, demoAway, e.Server(id).LastWords())
			if pause.For(ctx, demoAway) != nil {
				return
			}
			if err := e.Start(id); err != nil {
				say("server %d does not start: %v", id, err)
				continue
			}
			say("server %d is started again", id)
		case <-ctx.Done():
			return
		}
	}
}
