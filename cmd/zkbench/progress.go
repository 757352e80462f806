package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/zkd-project/zkd/cmd/zkbench/bench"
	"github.com/zkd-project/zkd/internal/console"
)

// redraw is the interval at which the progress line is drawn.
const redraw = 200 * time.Millisecond

// progress shows on stderr what a run does, if stderr is a terminal: one line, which is
// redrawn, and erased at the end. Its goroutine runs from startProgress to stop. Without a
// terminal there is no goroutine, and phases are not shown.
type progress struct {
	stderr   io.Writer
	terminal io.Writer // nil if stderr is no terminal
	phases   chan bench.Phase
	lines    chan string
	over     chan struct{}
	running  sync.WaitGroup

	// Of the goroutine:
	phase bench.Phase
	began time.Time
	width int // of the text on the line
}

// startProgress begins to show the progress of the run that calls its begin.
func startProgress(stderr io.Writer) *progress {
	p := &progress{stderr: stderr, phases: make(chan bench.Phase), lines: make(chan string), over: make(chan struct{})}
	if os.Getenv("TERM") != "dumb" {
		p.terminal = console.Raw(stderr)
	}
	if p.terminal != nil {
		p.running.Go(p.run)
	}
	return p
}

// begin shows a phase.
func (p *progress) begin(phase bench.Phase) {
	if p.terminal != nil {
		p.phases <- phase
	}
}

// say writes a line to stderr.
func (p *progress) say(line string) {
	if p.terminal != nil {
		p.lines <- line
		return
	}
	_, _ = io.WriteString(p.stderr, line) // an error can't be reported anywhere
}

// stop erases the line.
func (p *progress) stop() {
	close(p.over)
	p.running.Wait()
}

func (p *progress) run() {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case p.phase = <-p.phases:
			p.began = time.Now()
		case line := <-p.lines:
			p.erase()
			_, _ = io.WriteString(p.stderr, line)
			continue
		case <-tick.C:
		case <-p.over:
			p.erase()
			return
		}
		if p.phase.Done != nil {
			p.draw(line(p.phase, time.Since(p.began), p.phase.Done()))
		}
	}
}

func (p *progress) erase() {
	p.draw("")
	_, _ = io.WriteString(p.terminal, "\r")
}

// draw overwrites the line. It ignores errors: the run does not need the terminal.
func (p *progress) draw(line string) {
	_, _ = fmt.Fprintf(p.terminal, "\r%-*s", p.width, line)
	p.width = len(line)
}

// line returns the text for a phase after some time and number of replies.
func line(phase bench.Phase, passed time.Duration, done int64) string {
	s := phase.Name
	switch {
	case phase.Lasts > 0:
		s += fmt.Sprintf(", %.1f of %.1f s", min(passed, phase.Lasts).Seconds(), phase.Lasts.Seconds())
	default:
		s += fmt.Sprintf(", %.1f s", passed.Seconds())
	}
	switch {
	case phase.Count > 0:
		s += fmt.Sprintf(", %d of %d", done, phase.Count)
	case done > 0:
		s += fmt.Sprintf(", %d replies", done)
	}
	return s
}
