package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zkd-project/zkd/cmd/zkcli/shell"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/console"
)

// meter shows the progress of a long change on stderr, if that is a terminal, on one line
// that is redrawn. It must be used by one goroutine.
type meter struct {
	w       io.Writer // nil if nothing is shown
	columns int       // of the terminal
	doing   string
	drawn   time.Time
	width   int // of the text on the line
}

// meter returns a meter for this call. Call its clear before other output.
func (c *Call) meter() *meter {
	columns := shell.Width(c.App.err.writer(), c.App.getenv)
	if c.Options.Format == FormatJSON || columns == 0 {
		return &meter{}
	}
	return &meter{w: c.App.err.raw(), columns: columns}
}

// meterPace is the least time between two drawings.
const meterPace = 100 * time.Millisecond

// show draws a bar.
func (m *meter) show(p subtree.Progress) {
	if m.due(p.Doing, p.Done >= p.Total) {
		m.draw(bar(p))
	}
}

// showBytes draws how many bytes of a total have been read; total may be 0, for unknown.
func (m *meter) showBytes(done, total int64) {
	switch {
	case !m.due("bytes", total > 0 && done >= total):
	case total <= 0:
		m.draw("reading: " + bytesText(done))
	default:
		m.draw(fmt.Sprintf("reading: %s of %s, %d%%", bytesText(done), bytesText(total), done*100/total))
	}
}

// due reports whether it is time to draw: for other work, at the end, or after meterPace.
func (m *meter) due(doing string, end bool) bool {
	if m.w == nil || doing == m.doing && !end && time.Since(m.drawn) < meterPace {
		return false
	}
	m.doing = doing
	return true
}

func (m *meter) draw(text string) {
	line := shell.Cut(text, m.columns-1) // a wrapped line can't be overwritten
	fmt.Fprintf(m.w, "\r%-*s", m.width, line)
	m.width, m.drawn = utf8.RuneCountInString(line), time.Now()
}

// clear removes the bar.
func (m *meter) clear() {
	if m.w != nil && m.width > 0 {
		fmt.Fprintf(m.w, "\r%*s\r", m.width, "")
		m.width = 0
	}
}

func bar(p subtree.Progress) string {
	const width = 30
	if p.Total <= 0 {
		return fmt.Sprintf("%s: %d nodes", p.Doing, p.Done)
	}
	done := min(p.Done, p.Total)
	full := done * width / p.Total
	return fmt.Sprintf("%s [%s%s] %d of %d nodes, %d%%", p.Doing,
		strings.Repeat("#", full), strings.Repeat(".", width-full), p.Done, p.Total, done*100/p.Total)
}

// terminal reports whether a writer is a terminal.
func (w *lockedWriter) terminal() bool {
	to := w.writer()
	if s, ok := to.(*shell.Shell); ok {
		return s.Terminal()
	}
	return console.Is(to)
}

// attended reports whether a user at the terminal can be asked.
func (c *Call) attended() bool {
	return !c.App.session && console.Is(c.App.in) && c.App.err.terminal()
}

// confirm asks the user at the terminal. Without one, it returns nil, or says what would be done
// and returns a usage error if the question must be answered.
func (c *Call) confirm(question string, must bool) error {
	if !c.attended() {
		if must {
			c.App.say("%s", question)
			return &UsageError{Command: c.Command.Name, Text: "nothing was changed. If that is meant, say --yes"}
		}
		return nil
	}
	fmt.Fprintf(c.App.err, "%s Go on? [y/N] ", question)
	answer, err := bufio.NewReader(c.App.in).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	c.App.say("nothing was changed")
	return &ExitError{Code: exitError}
}

// file returns the file behind a writer, which a program can write to directly, or else the
// writer.
func (w *lockedWriter) file() io.Writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.w.(*os.File); ok {
		return f
	}
	return w
}
