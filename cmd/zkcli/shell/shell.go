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

// Config determines what a Shell reads, shows and runs.
type Config struct {
	// In is the input, and Out the output, including the prompt. If both are terminals, lines
	// can be edited.
	In  io.Reader
	Out io.Writer
	// Getenv looks up NO_COLOR and TERM. Nil is os.Getenv.
	Getenv func(string) string

	// Prompt returns the prompt of the next line. It may have colours. It is called for each
	// line and by Refresh, from any goroutine, under a lock of the Shell: it must neither
	// block nor write to the Shell.
	Prompt func() string
	// Execute runs a line, which is not blank, and writes its results and errors to the
	// Shell. Ctrl-C cancels ctx. It returns true to end the session.
	Execute func(ctx context.Context, line string) (quit bool)
	// Complete returns the completions of the current word, given the part of it before the
	// cursor, without quotes, and the words before it. It must return when ctx is done. An
	// error is shown in one line. Nil means no completion.
	Complete func(ctx context.Context, words []string, current string) ([]Candidate, error)
	// CompleteWait is the limit for Complete, during which the line is frozen. 0 means half a
	// second.
	CompleteWait time.Duration

	// HistoryFile keeps the lines for the next shell; "" means none. HistorySize is the
	// number of lines; 0 means 1,000.
	HistoryFile string
	HistorySize int
	// Secret reports whether a line has a password and must not be written to the history
	// file. Nil means never.
	Secret func(line string) bool
}

// Shell reads lines and executes them. It is an io.Writer for output: see Write.
type Shell struct {
	cfg     Config
	editor  editor
	history *History
	people  bool // input and output are terminals
	// interrupts are the signals of Ctrl-C while a command runs. While a line is typed,
	// Ctrl-C is a key, and signals from elsewhere are ignored: they must neither end the
	// process with the terminal in raw mode nor, when they arrive late, the next command.
	interrupts chan os.Signal
}

// editor reads lines. One goroutine calls ReadLine; Write and Refresh may be called by any.
type editor interface {
	// ReadLine shows a prompt and returns the next line, without its end. It returns io.EOF
	// at the end of the input, and errInterrupted for Ctrl-C.
	ReadLine(ctx context.Context) (string, error)
	// Write shows p. While a line is read, p stands above it, and ends a line.
	io.Writer
	// Refresh redraws the prompt of the line being read.
	Refresh()
	// Close restores the terminal.
	Close()
}

// errInterrupted means that the line was abandoned with Ctrl-C.
var errInterrupted = errors.New("interrupted")

const (
	defaultHistorySize  = 1000
	defaultCompleteWait = 500 * time.Millisecond
)

// New returns a Shell. It reads the history file; Run reports one that can't be read, and
// works without it.
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

// Write shows p, which should be whole lines. While a line is typed, p appears above the
// prompt.
func (s *Shell) Write(p []byte) (int, error) { return s.editor.Write(p) }

// Refresh redraws the prompt, because what it shows has changed.
func (s *Shell) Refresh() { s.editor.Refresh() }

// Colors reports whether the output may have colours: it is a terminal, and NO_COLOR
// (no-color.org) is not set.
func (s *Shell) Colors() bool { return Colors(s.cfg.Out, s.cfg.Getenv) }

// Terminal reports whether input and output are terminals.
func (s *Shell) Terminal() bool { return s.people }

// Run reads and executes lines until one of them quits, the input ends (Ctrl-D) or ctx is
// done; then it returns ctx's cause. It may be called once. Until it returns, it handles
// os.Interrupt of this process.
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

// execute runs a line. Ctrl-C, now a signal, cancels its context.
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

// ignoreInterrupts ignores signals while no command runs, also one that came as the last
// command ended.
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
		_, _ = io.WriteString(s, "\n") // an error recurs at the next write
	}
}

// reportHistory reports, once, that the history can't be kept.
func (s *Shell) reportHistory() {
	if err := s.history.Err(); err != nil {
		fmt.Fprintf(s, "The history is not kept: %v\n", err)
	}
}
