package command

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/treediff"
)

func findCommand() Command {
	return Command{
		Name: "find", Synopsis: "[path] [tests]", Short: "List the nodes of a subtree that pass tests",
		Long: "All tests must be passed, unless -or stands between some; -not turns the next one\n" +
			"around. Sizes are bytes, or have k or M behind them; times are days, or look like\n" +
			"90s, 10m, 2h. + is more than, - less than: -size +10k, -mtime -2h. Types are\n" +
			"p persistent, e ephemeral, s sequential (by its name), c container, t with a TTL.",
		Examples: []Example{
			{"find /app -name '*.lock'", "by name"},
			{"find /app -ephemeral -owner 0x1000a323e0038", "what a session holds"},
			{"find / -size +100k -ls", "what is large, with details"},
			{"find /queue -empty -mtime +7", "without data and children, and old"},
			{"find /app -data ERROR -or -regex '.*/failed/.*'", "either"},
		},
		Args: pathOnly(),
		Setup: func(flags *cobra.Command) Run {
			q := &query{now: time.Now()}
			q.flags(flags.Flags())
			annotate(flags, "newer", Path, nil)
			annotate(flags, "type", Word, []string{"p", "e", "s", "c", "t"})
			depth := flags.Flags().Int("maxdepth", -1, "go down at most this many levels")
			least := flags.Flags().Int("mindepth", 0, "leave out the levels above")
			details := boolFlag(flags, "ls", "", "print details as tree does")
			return func(ctx context.Context, c *Call) error {
				if err := q.check(); err != nil {
					return c.Usage("%v", err)
				}
				o := subtree.ReadOptions{Data: q.data, Limit: *depth >= 0, Depth: *depth}
				return c.find(ctx, q, o, *least, *details)
			}
		},
	}
}

func (c *Call) find(ctx context.Context, q *query, o subtree.ReadOptions, least int, details bool) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	if err := q.resolve(ctx, zk); err != nil {
		return err
	}
	root := c.pathOr("/")
	d := drawing{root: root, now: q.now}
	p := c.printer(nodeHeading...)
	var bad trouble
	for n, err := range subtree.Live(ctx, zk, root, o) {
		if err != nil {
			if err = bad.with(c, n.Path, err); err != nil {
				p.flush()
				return err
			}
			continue
		}
		full := treediff.Join(root, n.Path)
		if treediff.Depth(n.Path) < least || !q.match(full, n) {
			continue
		}
		text := full
		if details {
			text += "  " + d.details(n)
		}
		if err := p.print(printed{text: text, raw: full, data: describeNode(root, n, q.data), row: nodeRow(full, n)}); err != nil {
			return err
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	return bad.err()
}

// query selects nodes: one of several lists of tests must pass completely. Flags build it in
// the order of the command line.
type query struct {
	now   time.Time
	rows  [][]test
	not   bool // invert the next test
	data  bool // a test looks at the data
	newer []*newerThan
}

// test looks at one node. path is the whole one.
type test func(path string, n subtree.Node) bool

func (q *query) add(t test) {
	if q.not {
		was := t
		t = func(path string, n subtree.Node) bool { return !was(path, n) }
		q.not = false
	}
	if len(q.rows) == 0 {
		q.rows = [][]test{nil}
	}
	last := len(q.rows) - 1
	q.rows[last] = append(q.rows[last], t)
}

// check reports that the last flag lacks its test.
func (q *query) check() error {
	if q.not {
		return fmt.Errorf("-not needs a test behind it")
	}
	for _, row := range q.rows {
		if len(row) == 0 {
			return fmt.Errorf("-or needs a test on both sides")
		}
	}
	return nil
}

func (q *query) match(path string, n subtree.Node) bool {
	if len(q.rows) == 0 {
		return true
	}
rows:
	for _, row := range q.rows {
		for _, t := range row {
			if !t(path, n) {
				continue rows
			}
		}
		return true
	}
	return false
}

// flags defines the tests.
func (q *query) flags(f *pflag.FlagSet) {
	f.Func("name", "the name is like a pattern: *, ?, [abc]", q.name)
	f.Func("regex", "the whole path matches a regular expression", q.regex)
	f.Func("size", "bytes of data: 100, +10k, -1M", q.size)
	f.Func("mtime", "days since the data changed: +7, -2h", q.age(func(s client.Stat) int64 { return s.Mtime }))
	f.Func("ctime", "days since the node was created: +7, -2h", q.age(func(s client.Stat) int64 { return s.Ctime }))
	f.Func("newer", "its data was changed later than that of this node", q.newerThan)
	f.Func("data", "the data contains the text", q.text)
	f.Func("owner", "the session that owns it: 0x1000a323e0038", q.owner)
	f.Func("type", "p persistent, e ephemeral, s sequential, c container, t TTL", q.kind)
	f.Func("children", "number of children: 0, +1000", q.children)
	f.BoolFunc("ephemeral", "it is ephemeral", func(string) error { return q.kind("e") })
	f.BoolFunc("empty", "it has neither data nor children", func(string) error {
		q.add(func(_ string, n subtree.Node) bool { return n.Stat.DataLength == 0 && n.Stat.NumChildren == 0 })
		return nil
	})
	f.BoolFunc("not", "turns the next test around", func(string) error {
		q.not = !q.not
		return nil
	})
	f.BoolFunc("or", "passes if the tests before it do, or those behind it", func(string) error {
		if len(q.rows) == 0 {
			q.rows = [][]test{nil}
		}
		q.rows = append(q.rows, nil)
		return nil
	})
}

func (q *query) name(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q is no pattern: %w", pattern, err)
	}
	q.add(func(full string, _ subtree.Node) bool {
		ok, _ := path.Match(pattern, full[strings.LastIndexByte(full, '/')+1:]) // the pattern is good
		return ok
	})
	return nil
}

func (q *query) regex(expr string) error {
	if _, err := regexp.Compile(expr); err != nil {
		return err
	}
	re, err := regexp.Compile(`\A(?:` + expr + `)\z`)
	if err != nil {
		return err
	}
	q.add(func(path string, _ subtree.Node) bool { return re.MatchString(path) })
	return nil
}

// compared splits the sign off a value: more than (1), less than (-1), exactly (0).
func compared(s string) (sign int, rest string) {
	switch {
	case strings.HasPrefix(s, "+"):
		return 1, s[1:]
	case strings.HasPrefix(s, "-"):
		return -1, s[1:]
	}
	return 0, s
}

func holds(sign int, have, want int64) bool {
	switch sign {
	case 1:
		return have > want
	case -1:
		return have < want
	}
	return have == want
}

func (q *query) size(s string) error {
	sign, rest := compared(s)
	want, err := parseBytes(rest)
	if err == nil {
		q.add(func(_ string, n subtree.Node) bool { return holds(sign, int64(n.Stat.DataLength), want) })
	}
	return err
}

func (q *query) children(s string) error {
	sign, rest := compared(s)
	want, err := strconv.ParseInt(rest, 10, 32)
	if err == nil {
		q.add(func(_ string, n subtree.Node) bool { return holds(sign, int64(n.Stat.NumChildren), want) })
	}
	return err
}

// age tests one of a node's times. Without a sign, the age must be between the span and the
// span plus one unit, as with find(1).
func (q *query) age(of func(client.Stat) int64) func(string) error {
	return func(s string) error {
		sign, rest := compared(s)
		want, err := parseAge(rest)
		if err != nil {
			return err
		}
		unit := ageUnit(rest)
		q.add(func(_ string, n subtree.Node) bool {
			age := q.now.Sub(time.UnixMilli(of(n.Stat)))
			switch sign {
			case 1:
				return age > want
			case -1:
				return age < want
			}
			return age >= want && age < want+unit
		})
		return nil
	}
}

func ageUnit(s string) time.Duration {
	for suffix, unit := range map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour} {
		if strings.HasSuffix(s, suffix) {
			return unit
		}
	}
	return 24 * time.Hour
}

// newerThan is a node whose time of change is read before the search.
type newerThan struct {
	path string
	at   client.Zxid
}

func (q *query) newerThan(path string) error {
	ref := &newerThan{path: path}
	q.newer = append(q.newer, ref)
	q.add(func(_ string, n subtree.Node) bool { return n.Stat.Mzxid > ref.at })
	return nil
}

func (q *query) resolve(ctx context.Context, zk *client.Client) error {
	for _, ref := range q.newer {
		node, err := zk.Get(ctx, ref.path)
		if err != nil {
			return err
		}
		ref.at = node.Stat.Mzxid
	}
	return nil
}

func (q *query) text(s string) error {
	q.data = true
	q.add(func(_ string, n subtree.Node) bool { return bytes.Contains(n.Data, []byte(s)) })
	return nil
}

func (q *query) owner(s string) error {
	id, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	if err != nil {
		return fmt.Errorf("%q is no session: it should look like 0x1000a323e0038", s)
	}
	q.add(func(_ string, n subtree.Node) bool { return n.Stat.EphemeralOwner == client.SessionID(id) })
	return nil
}

func (q *query) kind(letter string) error {
	kinds := map[string]subtree.Kind{"p": subtree.Persistent, "e": subtree.Ephemeral, "c": subtree.Container, "t": subtree.TTL}
	want, ok := kinds[letter]
	switch {
	case letter == "s":
		q.add(func(path string, _ subtree.Node) bool { return treediff.Sequential(path) })
	case !ok:
		return fmt.Errorf("%q is no type: it should be p, e, s, c or t", letter)
	default:
		q.add(func(_ string, n subtree.Node) bool { return n.Kind() == want })
	}
	return nil
}
