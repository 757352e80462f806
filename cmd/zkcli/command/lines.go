package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/zkd-project/zkd/cmd/zkcli/shell"
	"github.com/zkd-project/zkd/internal/stdio"
)

// lines runs the commands in the input, one per line: interactively at a terminal, and
// otherwise as a script.
func (a *App) lines(ctx context.Context) error {
	a.session = true
	if f, ok := a.in.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return a.interact(ctx)
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	return a.script(ctx)
}

// script runs the lines of a file or a pipe. As with zkCli.sh, a command that fails does not
// end it, unless --stop-on-error is given or nobody reads the results any more. The exit code is
// that of the last command.
func (a *App) script(ctx context.Context) error {
	in := bufio.NewReader(&interruptible{ctx, a.in})
	first := true
	var last error
	for ctx.Err() == nil {
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return unread(ctx, err) // an incomplete line is not run
		}
		if first {
			line, first = strings.TrimPrefix(line, "\ufeff"), false // a byte order mark
		}
		if strings.TrimSpace(line) != "" {
			last = a.Line(ctx, line)
		}
		if errors.Is(last, ErrQuit) || errors.Is(err, io.EOF) || stdio.Unread(last) || last != nil && a.opts.stopOnError {
			return reported(last)
		}
	}
	return unread(ctx, context.Cause(ctx))
}

// unread is the error of a script that could not be read completely.
func unread(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &interruptedError{err, context.Cause(ctx)}
	}
	return fmt.Errorf("read a command: %w", err)
}

// Line runs one line of a session: see Execute.
func (a *App) Line(ctx context.Context, line string) error {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return nil
	}
	words, err := split(line)
	if err != nil {
		return a.report(err, a.opts.Format)
	}
	a.history.add(line)
	return a.Execute(ctx, words)
}

// reported is an error that was already written: only its exit code matters.
func reported(err error) error {
	if code := ExitCode(err); code != 0 {
		return &ExitError{Code: code}
	}
	return nil
}

// split splits a line into words as zkCli.sh does.
func split(line string) ([]string, error) {
	words, err := shell.Split(line)
	if err != nil {
		return nil, &UsageError{Text: err.Error()}
	}
	return words, nil
}
