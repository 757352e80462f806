package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// historyShown is how many lines history prints, as zkCli.sh.
const historyShown = 11

// history has the lines of the session, numbered from 0.
type history struct {
	mu    sync.Mutex // the prompt shows how many there are
	lines []string
}

func (h *history) add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lines)
}

func historyCommand() Command {
	return Command{
		Name: "history", Short: "Print the last lines, numbered", Session: true,
		Setup: func(*cobra.Command) Run {
			return func(_ context.Context, c *Call) error {
				all := c.App.history.lines
				first := max(0, len(all)-historyShown)
				var text strings.Builder
				var docs []numberedLine
				for i, line := range all[first:] {
					fmt.Fprintf(&text, "%d - %s\n", first+i, line)
					docs = append(docs, numberedLine{first + i, line})
				}
				return c.Emit(Output{Text: text.String(), Data: docs})
			}
		},
	}
}

// numberedLine is a line of the history in JSON.
type numberedLine struct {
	Number int    `json:"number"`
	Line   string `json:"line"`
}

func redoCommand() Command {
	return Command{
		Name: "redo", Synopsis: "cmdno", Short: "Run a line of the history again",
		Examples: []Example{{"redo 3", "the line that history shows with 3"}},
		Args:     []Arg{{Name: "the number of the line", Kind: Text}}, Required: 1, Session: true,
		Setup: func(*cobra.Command) Run {
			return func(ctx context.Context, c *Call) error {
				h := &c.App.history
				n, err := strconv.Atoi(c.Arg(0))
				if err != nil || n < 0 || n >= len(h.lines)-1 {
					return c.Usage("Command index out of range: history shows the numbers")
				}
				line := h.lines[n]
				words, err := split(line)
				if err != nil {
					return err
				}
				h.lines[len(h.lines)-1] = line // the repeated line replaces redo, as in zkCli.sh
				return c.App.again(ctx, words)
			}
		},
	}
}
