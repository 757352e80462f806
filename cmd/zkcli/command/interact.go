package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/shell"
)

// The environment variable that names the file of the history.
const envHistory = "ZKCLI_HISTORY"

// interact runs the lines that a user types. All output passes through the shell, which keeps
// it apart from the line being typed.
func (a *App) interact(ctx context.Context) error {
	a.shell = shell.New(shell.Config{
		In: a.in, Out: a.out.writer(), Getenv: a.getenv,
		Prompt:      a.prompt,
		Execute:     func(ctx context.Context, line string) bool { return errors.Is(a.Line(ctx, line), ErrQuit) },
		Complete:    a.Complete,
		HistoryFile: historyFile(a.getenv),
		Secret:      secret,
	})
	out, err := a.out.redirect(a.shell), a.err.redirect(a.shell)
	defer func() { a.out.redirect(out); a.err.redirect(err) }()
	a.say("Connecting to %s. help explains; quit or Ctrl-D leaves.", a.opts.Server)
	if err := a.conn.open(ctx, &a.opts, a.event); err != nil {
		return err
	}
	told, stop := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() { a.tellWhyNot(told, a.conn.c) })
	defer telling.Wait()
	defer stop()
	return a.shell.Run(ctx)
}

// tellWhyNot prints, above the prompt, why there is no connection after a while. The client
// continues to try.
func (a *App) tellWhyNot(ctx context.Context, c *client.Client) {
	wait, cancel := context.WithTimeoutCause(ctx, tellAfter, errWait)
	defer cancel()
	if err := c.WaitConnected(wait); errors.Is(err, errWait) {
		a.say("%v (still trying)", notConnected(ctx, &Options{Server: a.opts.Server, Wait: tellAfter}, err))
	}
}

// tellAfter is the time after which the shell says why it has no connection.
const tellAfter = 2 * time.Second

// prompt is zkCli.sh's: the servers, the state, and the number of the line.
func (a *App) prompt() string {
	server, state, color := a.conn.state()
	if a.shell != nil && a.shell.Colors() {
		state = color + state + "\x1b[0m"
	}
	return fmt.Sprintf("[zk: %s(%s) %d] ", server, state, a.history.len())
}

// state is what the prompt shows: the servers, and the state with its colour.
func (n *connection) state() (server, name, color string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.c == nil {
		return n.server, "CLOSED", red
	}
	switch s := n.c.State(); s {
	case client.StateConnected:
		return n.server, "CONNECTED", green
	case client.StateReadOnly:
		return n.server, "CONNECTEDREADONLY", yellow
	case client.StateConnecting, client.StateSuspended:
		return n.server, "CONNECTING", yellow
	default:
		return n.server, strings.ToUpper(strings.ReplaceAll(s.String(), " ", "_")), red
	}
}

const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
)

// historyFile returns the file for the history. It returns none if the variable is "-".
func historyFile(getenv func(string) string) string {
	switch name, home := getenv(envHistory), getenv("HOME"); {
	case name == "-":
		return ""
	case name != "":
		return name
	case home != "":
		return filepath.Join(home, ".zkcli_history")
	}
	return ""
}

// secret reports whether a line contains a password.
func secret(line string) bool {
	line = strings.ToLower(line)
	return strings.Contains(line, "addauth") || strings.Contains(line, "-auth")
}
