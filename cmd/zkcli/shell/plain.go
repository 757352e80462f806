package shell

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
)

// plain reads lines without editing, from input that is no terminal or one that can't move
// its cursor. Like zkCli.sh it shows a prompt only on a terminal.
type plain struct {
	in      *bufio.Reader
	prompt  func() string // nil for none
	entered func()

	mu  sync.Mutex // guards out
	out io.Writer
}

// ReadLine returns the next line. A last line without an end counts, too.
func (p *plain) ReadLine(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if p.prompt != nil {
		_, _ = io.WriteString(p, p.prompt()) // an error can't be reported anywhere
	}
	line, err := p.in.ReadString('\n')
	p.entered()
	if errors.Is(err, io.EOF) && line != "" {
		err = nil
	}
	return strings.TrimRight(line, "\r\n"), err
}

// Write writes b whole.
func (p *plain) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// Refresh does nothing: what is written can't be changed.
func (p *plain) Refresh() {}

// Close does nothing.
func (p *plain) Close() {}
