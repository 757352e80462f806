package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// lines runs the commands that come in, one on each line.
func (a *App) lines(ctx context.Context) error {
	a.session = true
	return a.script(ctx)
}

// script runs the lines of a file or a pipe. As with zkCli.sh a command that
// fails does not end it, and the exit code is that of the last one.
func (a *App) script(ctx context.Context) error {
	in := bufio.NewReader(a.in)
	var last error
	for ctx.Err() == nil {
		line, err := in.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			last = a.Line(ctx, line)
		}
		switch {
		case errors.Is(last, ErrQuit), errors.Is(err, io.EOF):
			return reported(last)
		case err != nil:
			return fmt.Errorf("read a command: %w", err)
		}
	}
	return context.Cause(ctx)
}

// Line runs one line of a session: see Execute.
func (a *App) Line(ctx context.Context, line string) error {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return nil
	}
	words, err := Split(line)
	if err != nil {
		return a.report(ctx, err, a.opts.Format)
	}
	a.history.add(line)
	return a.Execute(ctx, words)
}

// reported is an error that has been written already: only its exit code counts.
func reported(err error) error {
	if code := ExitCode(err); code != 0 {
		return &ExitError{Code: code}
	}
	return nil
}

var word = regexp.MustCompile(`^(?:"([^"]*)"|'([^']*)'|([^"'\s]\S*))`)

// Split splits a line into words as zkCli.sh does: at blanks, but for what
// begins with a quote and ends with the next one of the same kind. There is no
// escape character.
func Split(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeft(line, " \t\r\n")
		if line == "" {
			return words, nil
		}
		m := word.FindStringSubmatch(line)
		if m == nil {
			return nil, &UsageError{Text: fmt.Sprintf("the quote that begins %s is not closed", line)}
		}
		words = append(words, m[1]+m[2]+m[3])
		line = line[len(m[0]):]
	}
}
