package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
)

// The environment variables for the program that runs under a lock.
const (
	envLockPath = "ZKCLI_LOCK_PATH"
	envToken    = "ZKCLI_FENCING_TOKEN"
)

func lockCommand() Command {
	return Command{
		Name: "lock", Synopsis: "[--timeout time] [--grace time] path -- program [arguments] | --list path | --break [--yes] path [node]",
		Short: "Run a program while holding a lock",
		Long: "Waits for the lock, runs the program, and gives the lock up when it ends; the exit\n" +
			"code is the program's. If the lock is lost the program gets SIGTERM, and SIGKILL after\n" +
			"the grace, which is no more than a fourth of the session's timeout; the exit code is 7\n" +
			"then. When the connection is lost that is done before the servers may give the lock to\n" +
			"somebody else. No lock is safe for a program that is stopped and continues later: let\n" +
			"what it protects compare $" + envToken + ", which grows with each holder.\n" +
			"Locks are those of Curator's InterProcessMutex.\n" +
			"--list shows who holds the lock, or leads an election, and who waits, in order.\n" +
			"--break deletes the node of the holder, or the one that is named. It asks first; if\n" +
			"nobody can be asked it wants --yes.",
		Examples: []Example{
			{"lock /locks/backup -- ./backup.sh", "one at a time"},
			{"lock --timeout 0s /locks/cron -- ./job", "only if nobody holds it"},
			{"lock /locks/x -- sh -c 'write --token $" + envToken + "'", "with fencing"},
			{"lock --list /locks/backup", "who holds it, and who waits"},
			{"lock --break /locks/backup", "take it from the holder"},
		},
		Args: []Arg{{Name: "path", Kind: Path}, {Name: "program", Kind: File}}, Required: 1, Repeat: true,
		Setup: func(flags *cobra.Command) Run {
			r := lockFlags(flags, "lock")
			list := boolFlag(flags, "list", "", "show the queue")
			breaks := boolFlag(flags, "break", "", "delete the holder's node, or the named one")
			yes := boolFlag(flags, "yes", "", "don't ask before --break")
			return func(ctx context.Context, c *Call) error {
				if err := c.checkLock(*list, *breaks, *yes); err != nil {
					return err
				}
				switch {
				case *list:
					return c.lockList(ctx)
				case *breaks:
					return c.lockBreak(ctx, *yes)
				}
				return r.run(ctx, c, takeLock)
			}
		},
	}
}

// checkLock checks the flags and arguments of lock.
func (c *Call) checkLock(list, breaks, yes bool) error {
	most := 0 // any number
	switch {
	case list && breaks:
		return c.Usage("--list and --break don't go together")
	case yes && !breaks:
		return c.Usage("--yes is for --break")
	case list:
		most = 1
	case breaks:
		most = 2
	case len(c.Args) < 2:
		return c.Usage("program is missing")
	}
	if most > 0 && len(c.Args) > most {
		return c.Usage("%q is one argument too many", c.Args[most])
	}
	return nil
}

func electCommand() Command {
	return Command{
		Name: "elect", Synopsis: "[--timeout time] [--grace time] [--id text] path -- program [arguments]", Short: "Run a program while being the leader",
		Long: "Stands for election, runs the program once elected, and steps down when it ends. What\n" +
			"lock says of losing the lock goes for the leadership, too. The candidates are those of\n" +
			"Curator's LeaderLatch: lock --list shows who they are, the first being the leader.",
		Examples: []Example{
			{"elect /app/leader -- ./scheduler", "one scheduler of many that are ready"},
			{"lock --list /app/leader", "who leads, and who waits"},
		},
		Args: []Arg{{Name: "path", Kind: Path}, {Name: "program", Kind: File}}, Required: 2, Repeat: true,
		Setup: func(flags *cobra.Command) Run {
			r := lockFlags(flags, "leadership")
			id := stringFlag(flags, "id", "", "", "the data of our node; the host's name and the process id if empty", Text)
			return func(ctx context.Context, c *Call) error {
				if *id == "" {
					host, _ := os.Hostname() // for people to read
					*id = fmt.Sprintf("%s:%d", host, os.Getpid())
				}
				return r.run(ctx, c, func(ctx context.Context, x *contest) (*hold.Held, release, error) { return lead(ctx, x, *id) })
			}
		},
	}
}

// locked runs a program while it holds the lock or leads.
type locked struct {
	what  string // the turn, in messages
	wait  waitFlag
	grace time.Duration
}

func lockFlags(flags *cobra.Command, what string) *locked {
	r := &locked{what: what, wait: -1, grace: 3 * time.Second}
	flags.Flags().Var(&r.wait, "timeout", "give up if it takes longer; 0 doesn't wait")
	flags.Flags().Var((*millis)(&r.grace), "grace", "time between SIGTERM and SIGKILL")
	return r
}

// waitFlag is a time that may be 0; a negative one means no limit.
type waitFlag time.Duration

// String returns the time as Set takes it.
func (w *waitFlag) String() string {
	if *w < 0 {
		return ""
	}
	return time.Duration(*w).String()
}

// Type names the value in help.
func (w *waitFlag) Type() string { return "time" }

// Set reads the time.
func (w *waitFlag) Set(s string) error {
	if s == "0" || s == "0s" {
		*w = 0
		return nil
	}
	return (*millis)(w).Set(s)
}

func (r *locked) run(ctx context.Context, c *Call, take take) (err error) {
	program, err := exec.LookPath(c.Args[1])
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	if err != nil {
		return fmt.Errorf("can't run %s: %w", c.Args[1], err)
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	defer c.App.quiet()()
	grace, reserve := margins(zk.Status().Timeout, r.grace)
	held, giveUp, err := r.await(ctx, c, take, &contest{zk: zk, path: c.Args[0], reserve: grace + reserve})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave(ctx, giveUp)) }()
	return r.under(ctx, c, held, program, grace)
}

// under runs the program while held is held.
func (r *locked) under(ctx context.Context, c *Call, held *hold.Held, program string, grace time.Duration) error {
	cmd := exec.CommandContext(held.Context(), program, c.Args[2:]...)
	cmd.Args[0] = c.Args[1]
	c.attach(cmd)
	cmd.Env = append(os.Environ(), envLockPath+"="+held.Path(), fmt.Sprintf("%s=%d", envToken, int64(held.Token())))
	err := runProgram(cmd, grace)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if held.Context().Err() != nil {
		why := strings.TrimPrefix(context.Cause(held.Context()).Error(), recipes.ErrLost.Error()+": ")
		return c.end(exitConnection, "Lost", fmt.Sprintf("the %s was lost: %s. The program was ended", r.what, why))
	}
	return programError(err)
}

// leave gives up what is held, even if ctx has ended. If no server can be reached, the
// end of the session releases it.
func leave(ctx context.Context, giveUp release) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	err := giveUp(ctx)
	if errors.Is(err, recipes.ErrLost) {
		return nil // it is gone
	}
	return err
}

// margins returns how long the program may take to end, and how long before the possible end
// of the session it must have ended. A suspension is only certain to leave a third of the
// session's timeout; the requested time may be longer.
func margins(timeout, asked time.Duration) (grace, reserve time.Duration) {
	reserve = min(time.Second, timeout/12)
	return min(asked, timeout/3-reserve), reserve
}

// end writes the reason why the command ended, and returns the exit code.
func (c *Call) end(code int, name, text string) error {
	if c.Options.Format != FormatJSON {
		c.App.say("%s", text)
		return &ExitError{Code: code}
	}
	line, err := json.Marshal(failure{Error: text, Code: name, Exit: code})
	c.App.say("%s", line)
	return errors.Join(&ExitError{Code: code}, err)
}

// await acquires the lock or leadership.
func (r *locked) await(ctx context.Context, c *Call, take take, x *contest) (*hold.Held, release, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.wait > 0 {
		defer time.AfterFunc(time.Duration(r.wait), cancel).Stop()
	}
	told := false
	x.waiting = func(node string) {
		if !told && c.App.err.terminal() {
			c.App.say("waiting for the %s, behind %s", r.what, node)
		}
		told = true
		if r.wait == 0 {
			cancel()
		}
	}
	held, giveUp, err := take(hold.WaitOnly(waiting, ctx), x)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return nil, nil, &takenError{r.what, time.Duration(r.wait)}
	}
	return held, giveUp, err
}

// takenError means that the wait for the tenure took too long.
type takenError struct {
	what string
	wait time.Duration
}

// Error has the time of the wait.
func (e *takenError) Error() string {
	return fmt.Sprintf("the %s is held by somebody else, and was not to be had within %v", e.what, e.wait)
}

// Unwrap returns a deadline error.
func (e *takenError) Unwrap() error { return context.DeadlineExceeded }

// attach connects the program to zkcli's streams; in an interactive session stdin is the
// terminal.
func (c *Call) attach(cmd *exec.Cmd) {
	cmd.Stdout, cmd.Stderr = c.App.out.file(), c.App.err.file()
	if !c.App.session {
		cmd.Stdin = c.App.in
	}
}

// programError turns a program's exit code into zkcli's.
func programError(err error) error {
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return &ExitError{Code: exitCodeOf(e.ProcessState)}
	}
	return err
}
