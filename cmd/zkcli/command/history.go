package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/server/history"
	"github.com/zkd-project/zkd/server/zab"
)

// historyShown is how many lines history prints, as zkCli.sh.
const historyShown = 11

// lineHistory has the lines of the session, numbered from 0.
type lineHistory struct {
	mu    sync.Mutex // the prompt shows how many there are
	lines []string
}

func (h *lineHistory) add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

func (h *lineHistory) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lines)
}

func historyCommand() Command {
	return Command{
		Name: "history", Synopsis: "[--from DIR] [-R] [-d] [--who] [--before ZXID] [-n limit] [path]", Short: "Print the last lines, numbered, or who changed a node",
		Long: "Without a path: the last lines of the session. With one: a line for each change of the\n" +
			"node, with time, zxid, operation, size, session and request, the oldest first, as far as\n" +
			"the server knows the past, and then how far that is. Users and addresses are shown to a\n" +
			"user with permission to write /zookeeper/config, of clients of this server: from its audit\n" +
			"log in memory (audit.enable=true), or if they are still connected to it; with --who, of\n" +
			"clients of the other servers in the connect string as well. With --from a directory of\n" +
			"backup follow is read, and no server is asked.",
		Examples: []Example{{"history", "in a session"}, {"history /app/config", "who changed it, and when"}, {"history -R -d /app", "also below it, with the data before and after"}, {"history --from /backup -R /app", "also below it"}},
		Args:     []Arg{{Name: "path", Kind: Path}},
		Setup: func(flags *cobra.Command) Run {
			from := stringFlag(flags, "from", "", "", "a directory of backups", File)
			var o changeOptions
			flags.Flags().BoolVarP(&o.below, "recursive", "R", false, "also what is below path")
			flags.Flags().BoolVarP(&o.data, "data", "d", false, "with the data before and after")
			flags.Flags().BoolVar(&o.who, "who", false, "ask the other servers as well who their clients are")
			flags.Flags().StringVar(&o.before, "before", "", "the changes before this `zxid`")
			flags.Flags().IntVarP(&o.limit, "limit", "n", 500, "at most this many changes, the newest")
			return func(ctx context.Context, c *Call) error {
				switch path := c.Arg(0); {
				case path == "" && *from == "" && !c.App.session:
					return c.Usage("without a path it makes sense only in a session")
				case path == "" && *from == "":
					return c.lastLines()
				case path == "":
					return c.Usage("--from needs a path")
				case o.limit < 1 || o.limit > 10_000:
					return c.Usage("--limit is 1 to 10000")
				case *from == "":
					return c.changes(ctx, path, &o)
				case o.data || o.who || o.before != "":
					return c.Usage("-d, --who and --before are for the past of servers, without --from")
				default:
					return c.historyOf(ctx, *from, path, o.below)
				}
			}
		},
	}
}

// lastLines prints the last lines of the session.
func (c *Call) lastLines() error {
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

// historyOf prints the changes of a node that an archive has.
func (c *Call) historyOf(ctx context.Context, from, path string, below bool) error {
	a, err := c.archive(ctx, from)
	if err != nil {
		return err
	}
	p := c.printer("TIME", "ZXID", "SESSION", "OP", "PATH", "BYTES")
	spans, err := a.Entries(ctx, func(e *zab.Entry) error {
		changes, err := history.ChangesOf(e, path, below)
		for i := range changes {
			doc := changes[i].JSON()
			row := []string{doc.Time.Format(time.RFC3339Nano), doc.Zxid, doc.Session, doc.Op, doc.Path, strconv.Itoa(doc.Bytes)}
			err = errors.Join(err, p.print(printed{text: changes[i].String(), raw: doc.Zxid, data: doc, row: row}))
		}
		return err
	})
	if err := errors.Join(err, p.end()); err != nil {
		return err
	}
	c.App.say("%s", history.Known(spans))
	return nil
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
		Run: func(ctx context.Context, c *Call) error {
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
		},
	}
}
