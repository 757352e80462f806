package shell

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/zkd-project/zkd/internal/console"
)

// newEditor returns the editor for cfg's streams, and whether they are terminals. entered is
// called when a line is complete, before Ctrl-C is a signal again.
func newEditor(cfg *Config, h *History, entered func()) (e editor, people bool) {
	in, inOK := cfg.In.(*os.File)
	out, outOK := cfg.Out.(*os.File)
	people = inOK && outOK && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
	if people && cfg.Getenv("TERM") != "dumb" {
		if t, err := newTerminal(in, out, cfg, h); err == nil {
			t.entered = entered
			return t, true
		}
	}
	p := &plain{in: bufio.NewReader(cfg.In), out: cfg.Out, entered: entered}
	if people {
		p.prompt = cfg.Prompt
	}
	return p, people
}

// Colors reports whether output to w may have colours: w is a terminal, NO_COLOR
// (no-color.org) is not set, and TERM is not "dumb".
func Colors(w io.Writer, getenv func(string) string) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// Width returns the number of columns of the terminal that shows output to w, which may be a
// Shell. It returns 0 if there is none, or one that can't move its cursor.
func Width(w io.Writer, getenv func(string) string) int {
	if s, ok := w.(*Shell); ok {
		w = s.cfg.Out
	}
	if getenv("TERM") == "dumb" {
		return 0
	}
	return console.Width(w)
}

// The sequences sent to the terminal.
const (
	eraseBelow = "\x1b[J"
	pasteOn    = "\x1b[?2004h"
	pasteOff   = "\x1b[?2004l"
)

// terminal is the editor on a terminal. ReadLine and the keys belong to one goroutine; the
// fields under mu are shared.
type terminal struct {
	cfg      *Config
	in, out  *os.File
	screen   *term.Terminal
	keys     *keyReader
	history  *History
	entered  func()
	line     buffer
	recall   recall
	given    bool // the line was abandoned
	resizing sync.WaitGroup
	stop     chan struct{}

	mu        sync.Mutex
	reading   bool
	searching bool
	midLine   bool // the cursor is not at the beginning of a line
	prompt    string
}

func newTerminal(in, out *os.File, cfg *Config, h *History) (*terminal, error) {
	w, err := newWaiter(in)
	if err != nil {
		return nil, fmt.Errorf("open the terminal: %w", err)
	}
	t := &terminal{cfg: cfg, in: in, out: out, history: h, keys: &keyReader{in: in, waiter: w}, stop: make(chan struct{})}
	t.screen = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{t.keys, columnWriter{out}}, "")
	t.screen.History = noHistory{}
	t.screen.AutoCompleteCallback = t.key
	changed := make(chan os.Signal, 1)
	notifyResize(changed) // here: before the goroutine runs, the size may change
	t.resizing.Go(func() { t.watchSize(changed) })
	return t, nil
}

// Close ends the goroutine that watches the size.
func (t *terminal) Close() {
	close(t.stop)
	t.resizing.Wait()
	t.keys.waiter.close()
}

// watchSize updates the screen when the terminal's size changes.
func (t *terminal) watchSize(changed chan os.Signal) {
	defer signal.Stop(changed)
	for {
		select {
		case <-changed:
			t.setSize()
		case <-t.stop:
			return
		}
	}
}

func (t *terminal) setSize() {
	if width, height, err := term.GetSize(int(t.out.Fd())); err == nil && width > 0 {
		_ = t.screen.SetSize(width, height) // an error recurs at the next write
	}
}

// ReadLine reads a line.
func (t *terminal) ReadLine(ctx context.Context) (string, error) {
	old, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return "", fmt.Errorf("prepare the terminal: %w", err)
	}
	t.setSize()
	t.begin(ctx)
	line, err := t.screen.ReadLine()
	t.entered()
	_ = term.Restore(int(t.in.Fd()), old) // an error can't be handled
	t.end(err)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", err
	case t.given:
		return "", errInterrupted
	}
	return unfill(line), nil
}

func (t *terminal) begin(ctx context.Context) {
	t.keys.ctx = ctx
	t.given = false
	t.line.set("")
	t.recall.start(t.history.Lines())
	t.mu.Lock()
	defer t.mu.Unlock()
	start := pasteOn
	if t.midLine {
		start = "\r\n" + pasteOn
	}
	_, _ = io.WriteString(t.out, start)
	t.midLine, t.reading, t.prompt = false, true, t.cfg.Prompt()
	t.screen.SetPrompt(t.prompt)
}

// end leaves the line, and ends it if Enter was not typed.
func (t *terminal) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading, t.searching = false, false
	finish := pasteOff
	if err != nil {
		finish = "\r\n" + pasteOff
	}
	_, _ = io.WriteString(t.out, finish)
}

// Write shows p: above the line, if one is being read.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if !t.reading {
		t.midLine = p[len(p)-1] != '\n' && p[len(p)-1] != '\r'
		return t.out.Write(p)
	}
	return len(p), t.aboveLocked(p)
}

// aboveLocked shows whole lines above the one being read. x/term erases that line from its
// first row to the cursor; aboveLocked erases the rest.
func (t *terminal) aboveLocked(p []byte) error {
	above := append([]byte(eraseBelow), p...)
	if n := len(p); n > 0 && p[n-1] != '\n' {
		above = append(above, '\n')
	}
	_, err := t.screen.Write(above)
	return err
}

// Refresh redraws the line with the current prompt. The prompt is requested under the lock,
// so that an older one is not drawn later.
func (t *terminal) Refresh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reading {
		return
	}
	prompt := t.cfg.Prompt()
	if prompt == t.prompt {
		return
	}
	t.prompt = prompt
	if !t.searching {
		t.showPromptLocked(prompt)
	}
}

func (t *terminal) showPromptLocked(prompt string) {
	t.screen.SetPrompt(prompt)
	_ = t.aboveLocked(nil)
}

// key is called for each key, before x/term handles it; if it returns true, it also returns
// the new line. x/term's own lock is not held.
func (t *terminal) key(line string, pos int, key rune) (newLine string, newPos int, ok bool) {
	if key >= ' ' && key < keyFirst && !wide(key) && pos == len(line) && len(line) < 1000 && !t.recall.searching {
		return "", 0, false // text at the end: the fast case
	}
	t.line.fromColumns(line, pos)
	if !t.recall.searching || !t.recall.searchKey(&t.line, key) {
		t.do(key)
	}
	t.showSearch()
	newLine, newPos = t.line.columns()
	return newLine, newPos, true
}

// do performs the action of a key, except while searching.
func (t *terminal) do(key rune) {
	switch key {
	case keyUp, keyDown:
		by := 1
		if key == keyUp {
			by = -1
		}
		if text, ok := t.recall.step(t.line.String(), by); ok {
			t.line.set(text)
		}
	case keySearch:
		t.recall.begin(&t.line)
	case keyTab:
		t.complete()
	case keyInterrupt:
		t.given = true
		t.line.pos = len(t.line.text)
		t.line.insert('^', 'C')
	case keyDone:
		if len(t.line.text) == 0 {
			t.keys.done = true
		} else {
			t.line.edit(keyDelete)
		}
	default:
		if !t.line.edit(key) && key >= ' ' && key < keyFirst {
			t.line.typed(key)
		}
	}
}

// showSearch shows the prompt of the search while there is one.
func (t *terminal) showSearch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.recall.searching:
		t.searching = true
		t.showPromptLocked(t.recall.prompt())
	case t.searching:
		t.searching = false
		t.showPromptLocked(t.prompt)
	}
}

// complete completes the word before the cursor. If several candidates remain, it shows a
// list of them above the line. It omits candidates that the terminal would not show
// unchanged, because they must not get into the line.
func (t *terminal) complete() {
	if t.cfg.Complete == nil {
		return
	}
	p := placeOf(string(t.line.text[:t.line.pos]))
	ctx, cancel := context.WithTimeout(t.keys.ctx, t.cfg.CompleteWait)
	defer cancel()
	all, err := t.cfg.Complete(ctx, p.words, p.current)
	all = slices.DeleteFunc(all, func(c Candidate) bool { return !visible(c.Text) })
	if t.line.complete(p, all) {
		return
	}
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintf(t, "no completion: no answer within %v\n", t.cfg.CompleteWait)
	case err != nil:
		why := console.Escape([]byte(strings.TrimSpace(err.Error())))
		_, _ = fmt.Fprintf(t, "no completion: %s\n", why)
	case len(all) > 1:
		width, height, err := term.GetSize(int(t.out.Fd()))
		if err != nil {
			width, height = 80, 24
		}
		_, _ = io.WriteString(t, list(all, width, height, Colors(t.out, t.cfg.Getenv)))
	}
}

// keyReader reads keys in the form for x/term.
type keyReader struct {
	in     *os.File
	waiter *waiter
	ctx    context.Context // of the line being read: an io.Reader gets none
	decoder
	ready []byte // keys that x/term has not read
	done  bool   // Ctrl-D
}

// Read returns keys, at least one.
func (k *keyReader) Read(p []byte) (int, error) {
	for len(k.ready) == 0 {
		if k.done {
			k.done = false
			return 0, io.EOF
		}
		if err := k.waiter.wait(k.ctx); err != nil {
			return 0, err
		}
		var in [256]byte
		n, err := k.in.Read(in[:])
		if k.ready = k.decode(in[:n]); err != nil && len(k.ready) == 0 {
			return 0, err
		}
	}
	n := copy(p, k.ready)
	k.ready = k.ready[n:]
	return n, nil
}

// columnWriter writes to the terminal without the fillers.
type columnWriter struct{ out io.Writer }

// Write writes p.
func (w columnWriter) Write(p []byte) (int, error) {
	if _, err := w.out.Write(bytes.ReplaceAll(p, []byte(string(filler)), nil)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// noHistory disables x/term's own history.
type noHistory struct{}

// Add does nothing.
func (noHistory) Add(string) {}

// Len returns 0.
func (noHistory) Len() int { return 0 }

// At is never called, because Len is 0.
func (noHistory) At(int) string { return "" }
