package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
)

// The nodes of quotas (semantics.md section 12).
const (
	quotaRoot  = "/zookeeper/quota"
	limitsName = "zookeeper_limits"
	statsName  = "zookeeper_stats"
)

// limits are those of a quota or, without the hard ones, its usage. -1 means none.
type limits struct {
	Count     int64 `json:"count"`
	Bytes     int64 `json:"bytes"`
	CountHard int64 `json:"countHard"`
	BytesHard int64 `json:"bytesHard"`
}

// parseLimits reads "count=5,bytes=100=;byteHardLimit=20;countHardLimit=4". A missing or
// invalid number is -1.
func parseLimits(text string) limits {
	l := limits{-1, -1, -1, -1}
	for pair := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64)
		field := map[string]*int64{"count": &l.Count, "bytes": &l.Bytes, "countHardLimit": &l.CountHard, "byteHardLimit": &l.BytesHard}[key]
		if err == nil && field != nil {
			*field = n
		}
	}
	return l
}

// text formats limits like zkCli.sh 3.8.
func (l limits) text() string {
	return fmt.Sprintf("count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", l.Count, l.Bytes, l.BytesHard, l.CountHard)
}

func (l limits) usage() string { return fmt.Sprintf("count=%d,bytes=%d", l.Count, l.Bytes) }

// quotaFlag is one of -n, -b, -N, -B.
type quotaFlag struct {
	long, short, help string
	field             func(*limits) *int64
	unit              string
}

func quotaFlags() []quotaFlag {
	return []quotaFlag{
		{"count", "n", "number of nodes, soft: exceeding it is logged", func(l *limits) *int64 { return &l.Count }, "num"},
		{"bytes", "b", "bytes of data, soft", func(l *limits) *int64 { return &l.Bytes }, "bytes"},
		{"count-hard", "N", "number of nodes, hard: refused if the server enforces quotas", func(l *limits) *int64 { return &l.CountHard }, "num"},
		{"bytes-hard", "B", "bytes of data, hard", func(l *limits) *int64 { return &l.BytesHard }, "bytes"},
	}
}

func setQuotaCommand() Command {
	return Command{
		Name: "setquota", Synopsis: "-n|-b|-N|-B val path", Short: "Limit the nodes or bytes of a subtree",
		Long: "Several limits may be set at once. The count includes the node itself. There is no\n" +
			"quota on /, and none below or above another.",
		Examples: []Example{{"setquota -n 1000 /app", "log when there are more than 1000 nodes"}, {"setquota -N 2000 -B 1000000 /app", "refuse more nodes or bytes"}},
		Args:     pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			all := quotaFlags()
			values := make([]*int64, len(all))
			for i, f := range all {
				values[i] = flags.Flags().Int64P(f.long, f.short, 0, f.help)
			}
			return func(ctx context.Context, c *Call) error {
				q := quota{c: c, path: c.Arg(0)}
				given := 0
				change := func(l *limits) {
					for i, f := range all {
						if flags.Flags().Changed(f.long) {
							*f.field(l) = *values[i]
						}
					}
				}
				for i, f := range all {
					if !flags.Flags().Changed(f.long) {
						continue
					}
					if given++; *values[i] <= 0 {
						return c.Usage("the %s quota must be greater than zero", f.unit)
					}
				}
				if given == 0 {
					return c.Usage("-n, -b, -N or -B with a value is missing")
				}
				return q.set(ctx, change)
			}
		},
	}
}

func delQuotaCommand() Command {
	return Command{
		Name: "delquota", Synopsis: "[-n|-b|-N|-B] path", Short: "Lift one limit of a subtree, or all",
		Examples: []Example{{"delquota -n /app", "no limit on the number any more"}, {"delquota /app", "no quota any more"}},
		Args:     pathOnly(), Required: 1,
		Setup: func(flags *cobra.Command) Run {
			all := quotaFlags()
			given := make([]*bool, len(all))
			for i, f := range all {
				given[i] = boolFlag(flags, f.long, f.short, f.help)
			}
			return func(ctx context.Context, c *Call) error {
				q := quota{c: c, path: c.Arg(0)}
				some := false
				change := func(l *limits) {
					for i, f := range all {
						if *given[i] {
							*f.field(l), some = -1, true
						}
					}
				}
				change(&limits{})
				if !some {
					return q.remove(ctx)
				}
				return q.lift(ctx, change)
			}
		},
	}
}

func listQuotaCommand() Command {
	return Command{
		Name: "listquota", Synopsis: "path", Short: "Print the quota of a subtree, and its usage",
		Examples: []Example{{"listquota /app", "the limits, and what is used of them"}},
		Args:     pathOnly(), Required: 1,
		Run: func(ctx context.Context, c *Call) error {
			q := quota{c: c, path: c.Arg(0)}
			return q.list(ctx)
		},
	}
}

// quota is the quota of a path. The nodes of quotas are outside every chroot, and name whole
// paths.
type quota struct {
	c     *Call
	path  string         // as it was given
	whole string         // with the chroot
	zk    *client.Client // without a chroot
}

func (q *quota) node(name string) string { return quotaRoot + q.whole + "/" + name }

// open connects and checks the path.
func (q *quota) open(ctx context.Context) error {
	if !strings.HasPrefix(q.path, "/") {
		return q.c.Usage("%q is not a path: it should begin with /", q.path)
	}
	zk, err := q.c.Client(ctx)
	if err != nil {
		return err
	}
	q.zk, q.whole = zk.Unrooted(), strings.TrimSuffix(zk.Root()+q.path, "/")
	if q.whole == "" {
		return q.c.Usage("%q has no quota: it should be a path below /", q.path)
	}
	return nil
}

// set changes the limits, or makes the quota if there is none.
func (q *quota) set(ctx context.Context, change func(*limits)) error {
	if err := q.open(ctx); err != nil {
		return err
	}
	found, err := q.zk.Exists(ctx, q.whole)
	if err != nil {
		return err
	}
	if !found.Exists {
		return q.missing("%s does not exist.")
	}
	l, there, err := q.change(ctx, change)
	switch {
	case err != nil:
		return err
	case !there:
		return q.create(ctx, change)
	}
	return q.made(ctx, l)
}

// change changes the limits of the quota, if there is one.
func (q *quota) change(ctx context.Context, change func(*limits)) (l limits, there bool, err error) {
	node, err := q.zk.Get(ctx, q.node(limitsName))
	if err != nil {
		if errors.Is(err, client.ErrNoNode) {
			err = nil
		}
		return l, false, err
	}
	l = parseLimits(string(node.Data))
	change(&l)
	_, err = q.zk.Set(ctx, q.node(limitsName), []byte(l.text()), node.Stat.Version)
	return l, true, err
}

// made warns if a limit is exceeded already.
func (q *quota) made(ctx context.Context, l limits) error {
	stats, err := q.zk.Get(ctx, q.node(statsName))
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return err
	}
	used := parseLimits(string(stats.Data))
	text := ""
	if l.Count >= 0 && l.Count < used.Count {
		text += fmt.Sprintf("[Warning]: the count quota you create is less than the existing count:%d\n", used.Count)
	}
	if l.Bytes >= 0 && l.Bytes < used.Bytes {
		text += fmt.Sprintf("[Warning]: the bytes quota you create is less than the existing bytes:%d\n", used.Bytes)
	}
	return q.c.Emit(Output{Text: text, Data: quotaDoc{Path: q.path, Limits: &l, Usage: &quotaUsage{used.Count, used.Bytes}}})
}

func (q *quota) create(ctx context.Context, change func(*limits)) error {
	if err := q.checkNesting(ctx); err != nil {
		return err
	}
	l := limits{-1, -1, -1, -1}
	change(&l)
	if err := q.ensure(ctx, quotaRoot+q.whole); err != nil {
		return err
	}
	for _, n := range [][2]string{{limitsName, l.text()}, {statsName, "count=0,bytes=0"}} {
		_, err := q.zk.Create(ctx, q.node(n[0]), []byte(n[1]), client.CreateOptions{})
		if err != nil && !errors.Is(err, client.ErrNodeExists) {
			return err
		}
	}
	return q.made(ctx, l)
}

// ensure creates a path below /zookeeper/quota.
func (q *quota) ensure(ctx context.Context, path string) error {
	for i := len(quotaRoot) + 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		_, err := q.zk.Create(ctx, path[:i], nil, client.CreateOptions{})
		if err != nil && !errors.Is(err, client.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// checkNesting refuses a quota above or below another one, because it is not obvious which
// one applies.
func (q *quota) checkNesting(ctx context.Context) error {
	for parent := q.whole; ; {
		parent = parent[:strings.LastIndexByte(parent, '/')]
		if parent == "" {
			break
		}
		found, err := q.zk.Exists(ctx, quotaRoot+parent+"/"+limitsName)
		if err != nil {
			return err
		}
		if found.Exists {
			return fmt.Errorf("%s has a parent %s which has a quota", q.whole, parent)
		}
	}
	for e, err := range tree.Walk(ctx, q.zk, quotaRoot+q.whole, tree.WalkOptions{}) {
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if child, ok := strings.CutSuffix(strings.TrimPrefix(e.Path, quotaRoot), "/"+limitsName); ok && child != q.whole {
			return fmt.Errorf("%s has a child %s which has a quota", q.whole, child)
		}
	}
	return nil
}

// lift removes limits and leaves the quota.
func (q *quota) lift(ctx context.Context, change func(*limits)) error {
	if err := q.open(ctx); err != nil {
		return err
	}
	l, there, err := q.change(ctx, change)
	switch {
	case err != nil:
		return err
	case !there:
		return q.none()
	}
	return q.c.Emit(Output{Data: quotaDoc{Path: q.path, Limits: &l}})
}

func (q *quota) none() error {
	return q.c.Emit(Output{Text: "Quota does not exist for " + q.path, Data: quotaDoc{Path: q.path}})
}

// remove deletes the quota's nodes, and their parents that are not needed otherwise.
func (q *quota) remove(ctx context.Context) error {
	if err := q.open(ctx); err != nil {
		return err
	}
	gone := 0
	for _, name := range []string{statsName, limitsName} {
		err := q.zk.Delete(ctx, q.node(name), client.AnyVersion)
		if errors.Is(err, client.ErrNoNode) {
			gone++
		} else if err != nil {
			return err
		}
	}
	if gone == 2 {
		return q.none()
	}
	for path := quotaRoot + q.whole; path != quotaRoot; path = path[:strings.LastIndexByte(path, '/')] {
		err := q.zk.Delete(ctx, path, client.AnyVersion)
		if errors.Is(err, client.ErrNotEmpty) {
			break
		}
		if err != nil && !errors.Is(err, client.ErrNoNode) {
			return err
		}
	}
	return q.c.Emit(Output{Data: quotaDoc{Path: q.path}})
}

// quotaDoc is a quota in JSON. A quota that does not exist has no limits.
type quotaDoc struct {
	Path   string      `json:"path"`
	Limits *limits     `json:"limits"`
	Usage  *quotaUsage `json:"usage,omitempty"`
}

// quotaUsage is the usage of a subtree.
type quotaUsage struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

func (q *quota) list(ctx context.Context) error {
	if err := q.open(ctx); err != nil {
		return err
	}
	if q.c.Options.Format == FormatText {
		q.c.App.say("absolute path is %s", q.node(limitsName))
	}
	node, err := q.zk.Get(ctx, q.node(limitsName))
	if errors.Is(err, client.ErrNoNode) {
		return q.missing("quota for %s does not exist.")
	}
	if err != nil {
		return err
	}
	stats, err := q.zk.Get(ctx, q.node(statsName))
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return err
	}
	l, used := parseLimits(string(node.Data)), parseLimits(string(stats.Data))
	text := fmt.Sprintf("Output quota for %s %s\nOutput stat for %s %s", q.path, l.text(), q.path, used.usage())
	doc := quotaDoc{Path: q.path, Limits: &l, Usage: &quotaUsage{used.Count, used.Bytes}}
	return q.c.Emit(Output{Text: text, Data: doc, Table: l.table(used)})
}

// missing is the error for a node that does not exist.
func (q *quota) missing(format string) error {
	return &wordedError{text: fmt.Sprintf(format, q.path), err: &client.Error{Path: q.path, Err: client.ErrNoNode}}
}

func (l limits) table(used limits) [][]string {
	show := func(n int64) string {
		if n < 0 {
			return "-"
		}
		return strconv.FormatInt(n, 10)
	}
	return [][]string{
		{"OF", "USED", "SOFT", "HARD"},
		{"nodes", show(used.Count), show(l.Count), show(l.CountHard)},
		{"bytes", show(used.Bytes), show(l.Bytes), show(l.BytesHard)},
	}
}
