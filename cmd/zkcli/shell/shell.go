package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
)

// Config says what a Shell reads, shows and runs.
type Config struct {
	// In is where lines come from, and Out where the prompt and all output go. If
	// both are terminals, lines can be edited.
	In  io.Reader
	Out io.Writer
	// Getenv looks up NO_COLOR and TERM. Nil is os.Getenv.
	Getenv func(string) string

	// Prompt returns what stands before the next line. It may have colours. It is
	// called for each line and by Refresh, from any goroutine, under a lock of the
	// Shell: it must neither block nor write to the Shell.
	Prompt func() string
	// Execute runs a line, which is not blank, and writes its results and errors to
	// the Shell. Ctrl-C cancels ctx. It returns true if no line is to follow.
	Execute func(ctx context.Context, line string) (quit bool)
	// Complete returns what the current word can become: the part of it before the
	// cursor, without quotes. words are those before it. It must return when ctx is
	// done. An error is shown in one line. Nil completes nothing.
	Complete func(ctx context.Context, words []string, current string) ([]Candidate, error)
	// CompleteWait is how long Complete may take: the line is frozen meanwhile. 0 is
	// half a second.
	CompleteWait time.Duration

	// HistoryFile keeps the lines for the next shell; "" keeps none. HistorySize is
	// how many lines; 0 is 1,000.
	HistoryFile string
	HistorySize int
	// Secret says whether a line has a password and must not be written to the
	// history file. Nil is never.
	Secret func(line string) bool
}

// Shell reads lines and has them executed. It is an io.Writer for what is to be
// seen: see Write.
type Shell struct {
	cfg     Config
	editor  editor
	history *History
	people  bool // who type on a terminal
	// interrupts are the signals of Ctrl-C while a command runs. While somebody
	// types, Ctrl-C is a key, and the system ignores a signal that comes from
	// elsewhere: it must neither end us with the terminal in raw mode nor, as it
	// reaches us late, the next command.
	interrupts chan os.Signal
}

// editor reads lines from somebody. One goroutine calls ReadLine; Write and
// Refresh may come from any.
type editor interface {
	// ReadLine shows a prompt and returns the next line, without its end. It
	// returns io.EOF when no more will come, and errInterrupted for Ctrl-C.
	ReadLine(ctx context.Context) (string, error)
	// Write shows p. While a line is read, p stands above it, and ends a line.
	io.Writer
	// Refresh asks for the prompt of the line that is being read again.
	Refresh()
	// Close gives the terminal back.
	Close()
}

// errInterrupted is that somebody gave up the line with Ctrl-C.
var errInterrupted = errors.New("interrupted")

const (
	defaultHistorySize  = 1000
	defaultCompleteWait = 500 * time.Millisecond
)

// New returns a Shell. It reads the history file; one that can't be read is
// reported by Run, and does not keep the shell from working.
func New(cfg Config) *Shell {
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	if cfg.CompleteWait == 0 {
		cfg.CompleteWait = defaultCompleteWait
	}
	if cfg.HistorySize == 0 {
		cfg.HistorySize = defaultHistorySize
	}
	s := &Shell{cfg: cfg, interrupts: make(chan os.Signal, 1), history: OpenHistory(cfg.HistoryFile, cfg.HistorySize)}
	s.editor, s.people = newEditor(&s.cfg, s.history, s.heedInterrupts)
	return s
}

// Write shows p, which should be whole lines. While somebody types, p appears
// above the prompt.
func (s *Shell) Write(p []byte) (int, error) { return s.editor.Write(p) }

// Refresh draws the prompt anew, as what it shows has changed.
func (s *Shell) Refresh() { s.editor.Refresh() }

// Colors says whether the output is for somebody who sees colours: it goes to a
// terminal, and NO_COLOR (no-color.org) is not set.
func (s *Shell) Colors() bool { return Colors(s.cfg.Out, s.cfg.Getenv) }

// Terminal says whether somebody types on a terminal.
func (s *Shell) Terminal() bool { return s.people }

// Run reads and executes lines until one of them quits, the input ends (Ctrl-D) or
// ctx is done, of which it then returns the cause. It may be called once. Until it
// returns, what os.Interrupt does in this process is Run's to say.
func (s *Shell) Run(ctx context.Context) error {
	defer s.editor.Close()
	defer signal.Reset(os.Interrupt)
	for {
		s.ignoreInterrupts()
		s.reportHistory()
		line, err := s.editor.ReadLine(ctx)
		switch {
		case errors.Is(err, errInterrupted):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		s.history.Add(line, s.cfg.Secret != nil && s.cfg.Secret(line))
		if s.execute(ctx, line) {
			return nil
		}
	}
}

// execute runs a line. Ctrl-C, which is a signal now, cancels its context.
func (s *Shell) execute(ctx context.Context, line string) (quit bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-s.interrupts:
			s.endLine()
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	})
	defer watcher.Wait()
	defer cancel(nil)
	return s.cfg.Execute(ctx, line)
}

// ignoreInterrupts has signals do nothing from now on, as no command runs. One that
// the last command did not live to see is forgotten.
func (s *Shell) ignoreInterrupts() {
	signal.Ignore(os.Interrupt)
	select {
	case <-s.interrupts:
	default:
	}
}

// heedInterrupts ends ignoreInterrupts.
func (s *Shell) heedInterrupts() { signal.Notify(s.interrupts, os.Interrupt) }

// endLine ends the line on which a terminal has shown ^C.
func (s *Shell) endLine() {
	if s.people {
		_, _ = io.WriteString(s, "\n") // an error is one of the next write, too
	}
}

// reportHistory says, once, that the history can't be kept.
func (s *Shell) reportHistory() {
	if err := s.history.Err(); err != nil {
		fmt.Fprintf(s, "The history is not kept: %v\n", err)
	}
}
