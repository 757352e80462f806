package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/internal/login"
)

// The environment variables that stand for flags.
const (
	envServer = "ZKCLI_SERVER"
	envAuth   = "ZKCLI_AUTH"
)

const (
	defaultServer  = "localhost:2181"
	defaultTimeout = 30 * time.Second // of the session, as zkCli.sh's
	defaultWait    = 10 * time.Second // for a connection
)

// Options are the values of the flags before the command's name.
type Options struct {
	Server   string
	Timeout  time.Duration // of the session
	Wait     time.Duration // for a connection; 0 is the smaller of Timeout and 10 s
	Deadline time.Duration // for one command; 0 is none
	Format   Format
	ReadOnly bool
	insist   bool     // as client.Options.Insist
	renew    bool     // as client.Options.RenewSession
	Auth     []string // scheme:data

	waitForConnection bool
	stopOnError       bool
	security          security
	ask               func(ctx context.Context, question string) (string, error) // for a text that is not shown
}

// defaults returns the options that the environment sets.
func defaults(getenv func(string) string) Options {
	o := Options{Server: defaultServer, Timeout: defaultTimeout}
	if s := getenv(envServer); s != "" {
		o.Server = s
	}
	if s := getenv(envAuth); s != "" {
		o.Auth = []string{s}
	}
	o.security.login = login.New("ZKCLI", getenv)
	o.security.keyPassword = getenv(envKeyPassword)
	return o
}

// flags defines the flags. Those for the connection are only valid at the start.
func (o *Options) flags(root *cobra.Command, session bool) {
	p := root.PersistentFlags()
	p.VarP(&o.Format, "output", "o", "form of the output: text, json, table or raw")
	// It fails only for a flag that has not been defined.
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formatNames, cobra.ShellCompDirectiveNoFileComp))
	p.Var((*millis)(&o.Deadline), "deadline", "give up a command after this time")
	if session {
		return
	}
	p.StringVar(&o.Server, "server", o.Server, "host:port,host:port/chroot to connect to ($"+envServer+")")
	p.Var((*millis)(&o.Timeout), "timeout", "timeout of the session: 30000 (ms) or 30s")
	p.Var((*millis)(&o.Wait), "wait", "wait so long for a connection")
	p.BoolVar(&o.waitForConnection, "waitforconnection", false, "wait for a connection as long as -timeout says")
	p.StringArrayVar(&o.Auth, "auth", o.Auth, "authenticate as scheme:data, such as digest:user:password ($"+envAuth+")")
	p.BoolVar(&o.ReadOnly, "read-only", false, "accept a server that has no quorum and serves reads only")
	p.BoolVar(&o.stopOnError, "stop-on-error", false, "end a script at the first command that fails")
	root.Flags().BoolVar(&o.ReadOnly, "r", false, "as --read-only")
	o.security.flags(root)
}

// formatOf returns the format from flags that are not parsed because of a later mistake,
// which must be reported in that format.
func (o *Options) formatOf(flags []string) {
	for _, f := range flags {
		if name, ok := strings.CutPrefix(f, "--output="); ok {
			_ = o.Format.Set(name) // only the first mistake is reported
		}
	}
}

// wait returns how long to wait for a connection.
func (o *Options) wait() time.Duration {
	switch {
	case o.Wait > 0:
		return o.Wait
	case o.waitForConnection:
		return o.Timeout
	}
	return min(o.Timeout, defaultWait)
}

// limit applies the deadline to a command.
func (o *Options) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.Deadline == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, o.Deadline, deadlineError(o.Deadline))
}

// deadlineError means that a command has taken longer than --deadline.
type deadlineError time.Duration

// Error names the flag.
func (e deadlineError) Error() string {
	return fmt.Sprintf("the --deadline of %v has passed", time.Duration(e))
}

// Unwrap makes it a context's error.
func (e deadlineError) Unwrap() error { return context.DeadlineExceeded }

func (o *Options) client(ctx context.Context, watcher func(client.Event)) (client.Options, error) {
	c := client.Options{Timeout: o.Timeout, AllowReadOnly: o.ReadOnly, Insist: o.insist, RenewSession: o.renew, Logger: client.NoLog, Watcher: watcher}
	for _, s := range o.Auth {
		a, err := parseAuth(s)
		if err != nil {
			return c, err
		}
		c.Auth = append(c.Auth, a)
	}
	return c, o.security.apply(&c, func(question string) (string, error) { return o.ask(ctx, question) })
}

// millis is a flag with a time: a number of milliseconds, as in zkCli.sh, or a number with a
// unit.
type millis time.Duration

// String returns the time as Set takes it.
func (m *millis) String() string {
	if *m == 0 {
		return "0" // which help does not show as a default
	}
	return time.Duration(*m).String()
}

// Type names the value in help.
func (m *millis) Type() string { return "time" }

// Set reads the time.
func (m *millis) Set(s string) error {
	d, err := time.ParseDuration(s)
	ms, bad := strconv.ParseInt(s, 10, 32)
	switch {
	case bad == nil:
		d, err = time.Duration(ms)*time.Millisecond, nil
	case errors.Is(bad, strconv.ErrRange):
		return errors.New("it should be at most 2147483647 ms")
	}
	if err != nil || d <= 0 {
		return errors.New("it should be a number of milliseconds, or look like 5s")
	}
	*m = millis(d)
	return nil
}
