package command

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/cmd/zkcli/subtree"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/internal/treediff"
)

// pastWaits is for how long a command waits while somebody else looks at the past of the server.
const pastWaits = 30 * time.Second

// atFlag defines --at.
func atFlag(flags *cobra.Command) *string {
	return stringFlag(flags, "at", "", "", "as it was at a `moment`: 10m ago, after a zxid such as 0x100000002, or at a time such as 2026-11-22T14:05:00Z", Text)
}

// moment reads the value of a flag such as --at.
func (c *Call) moment(flag, text string) (m client.Moment, err error) {
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		n, err := strconv.ParseInt(hex, 16, 64)
		if err != nil || n <= 0 {
			return m, c.Usage("--%s: %q is no zxid, such as 0x100000002", flag, text)
		}
		m.Zxid = client.Zxid(n)
		return m, nil
	}
	if m.Ago, err = time.ParseDuration(daysAsHours(text)); err == nil && m.Ago > 0 {
		return m, nil
	}
	m.Ago = 0
	if m.Time, err = time.Parse(time.RFC3339, text); err != nil {
		return m, c.Usage("--%s: %q is no moment: write 10m or 2d for how long ago, a zxid such as 0x100000002, or a time such as 2026-11-22T14:05:00Z", flag, text)
	}
	return m, nil
}

// daysAsHours replaces a number of days, such as 2d, which Go's durations do not have.
func daysAsHours(text string) string {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n < 100_000 {
			return fmt.Sprint(n*24, "h")
		}
	}
	return text
}

// patient repeats what begins a look at the past while somebody else has one.
func patient[T any](ctx context.Context, c *Call, all func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		wait, cancel := context.WithTimeout(ctx, pastWaits)
		defer cancel()
		for said := false; ; said = true {
			busy := false
			for x, err := range all() {
				if busy = errors.Is(err, client.ErrThrottled) && wait.Err() == nil; busy {
					break
				}
				if !yield(x, pastError(err)) {
					return
				}
			}
			if !busy {
				return
			}
			if !said {
				c.App.say("somebody else looks at the past of this server: waiting")
			}
			_ = pause.For(wait, 200*time.Millisecond)
		}
	}
}

// pastError returns what a server says of a look at its past.
func pastError(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case !ok || e.Op.String() != "past":
	case errors.Is(err, client.ErrUnimplemented):
		return &wordedError{"this server does not show its past: it is not zkd's, or of an earlier version (see features)", err}
	case e.Cause != nil && !errors.Is(err, client.ErrConnectionLoss):
		return &wordedError{e.Cause.Error(), err}
	}
	return err
}

// begun says which state is shown.
func (c *Call) begun(page client.PastPage) {
	when := ""
	if !page.Time.IsZero() {
		when = ", of " + stamp(page.Time)
	}
	c.App.say("as of zxid %v%s", page.Zxid, when)
}

// former yields the node at a path and its children as they were, or all below it.
func (c *Call) former(ctx context.Context, at string, watch, below bool) (iter.Seq2[tree.Entry, error], error) {
	if watch {
		return nil, c.Usage("the past does not change: leave out -w")
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return nil, err
	}
	m, err := c.moment("at", at)
	if err != nil {
		return nil, err
	}
	return patient(ctx, c, func() iter.Seq2[tree.Entry, error] {
		return tree.Former(ctx, zk, c.pathOr("/"), tree.FormerOptions{At: m, Below: below, Data: true, Begun: c.begun})
	}), nil
}

// formerSubtree is former for the commands on subtrees.
func (c *Call) formerSubtree(ctx context.Context, zk *client.Client, root string, m client.Moment) iter.Seq2[subtree.Node, error] {
	return patient(ctx, c, func() iter.Seq2[subtree.Node, error] { return subtree.Former(ctx, zk, root, m, c.begun) })
}

// nodeAt returns the node of a command as it was.
func (c *Call) nodeAt(ctx context.Context, at string, watch bool) (e tree.Entry, err error) {
	nodes, err := c.former(ctx, at, watch, false)
	if err != nil {
		return e, err
	}
	for e, err := range nodes {
		return e, err
	}
	return e, &client.Error{Path: c.Arg(0), Err: client.ErrNoNode}
}

// listAt is list and listAll for the past.
func (c *Call) listAt(ctx context.Context, at string, watch, stat, recursive bool) error {
	nodes, err := c.former(ctx, at, watch, recursive)
	if err != nil {
		return err
	}
	var names []string
	var root *tree.Entry
	l := lister{c: c}
	for e, err := range nodes {
		if root == nil {
			if err != nil {
				return err
			}
			root = &e
		}
		switch {
		case err != nil && e.Path == "":
			return err
		case recursive:
			if names = append(names, e.Path); len(names) == 1000 {
				if err := l.emit(names); err != nil {
					return err
				}
				names = names[:0]
			}
		case e.Depth == 1:
			names = append(names, e.Path[strings.LastIndexByte(e.Path, '/')+1:])
		}
	}
	switch {
	case root == nil:
		return &client.Error{Path: c.Arg(0), Err: client.ErrNoNode}
	case recursive:
		return l.emit(names)
	}
	return c.emitChildren(names, root.Stat, stat)
}

// changeDoc is a change of a node in JSON.
type changeDoc struct {
	Time    string     `json:"time"`
	Zxid    string     `json:"zxid"`
	Session string     `json:"session"`
	User    string     `json:"user,omitempty"` // of the session, if the server knows
	Address string     `json:"address,omitempty"`
	Xid     int32      `json:"xid"`        // of the session's request
	Of      int32      `json:"operations"` // of the transaction
	Op      string     `json:"op"`
	Path    string     `json:"path"`
	Was     *int32     `json:"bytesBefore,omitempty"`
	Bytes   int32      `json:"bytes"`
	Version int32      `json:"version"`
	Before  *shownData `json:"before,omitempty"`
	After   *shownData `json:"after,omitempty"`
}

// shownData is data in JSON.
type shownData struct {
	Data     *string `json:"data"`
	Encoding string  `json:"encoding,omitempty"`
}

func shownDataOf(data []byte) *shownData {
	var d nodeData
	d.set(data)
	return &shownData{d.Data, d.Encoding}
}

// changeOptions are those of history with servers.
type changeOptions struct {
	below, data bool
	who         bool // the other servers are asked for the authors that this one does not know
	before      string
	limit       int
}

// changes prints the changes of a node that a server knows.
func (c *Call) changes(ctx context.Context, path string, o *changeOptions) error {
	ask := tree.HistoryOptions{Below: o.below, Data: o.data, Limit: o.limit}
	if o.before != "" {
		m, err := c.moment("before", o.before)
		if err != nil || m.Zxid == 0 {
			return c.Usage("--before is a zxid, such as 0x100000002")
		}
		ask.Before = m.Zxid
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	var end func()
	ask.End = func(after client.Zxid, more bool) {
		end = func() {
			if more {
				c.App.say("these are all changes after zxid %v; for older ones: --before %v", after, after+1)
			} else {
				c.App.say("these are all changes after zxid %v, as far as this server knows the past", after)
			}
		}
	}
	p := c.printer("TIME", "ZXID", "SESSION", "USER", "ADDRESS", "OP", "PATH", "BYTES")
	changes := c.history(ctx, zk, path, ask)
	if o.who {
		changes = c.withAuthors(ctx, zk, path, ask, changes)
	}
	for x, err := range changes {
		if err == nil {
			doc := changeDocOf(&x, o.data)
			err = p.print(printed{text: changeText(&x, o.data), raw: doc.Zxid, data: doc,
				row: []string{doc.Time, doc.Zxid, doc.Session, x.User, x.Address, x.Op, x.Name, strconv.Itoa(int(x.Stat.DataLength))}})
		}
		if err != nil {
			return errors.Join(p.flush(), err)
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	end()
	return nil
}

// history yields the changes of a node that a server knows.
func (c *Call) history(ctx context.Context, zk *client.Client, path string, ask tree.HistoryOptions) iter.Seq2[client.PastChange, error] {
	return patient(ctx, c, func() iter.Seq2[client.PastChange, error] { return tree.History(ctx, zk, path, ask) })
}

// hasNoAuthor reports whether a client made a change of which a server does not know whose it was.
func hasNoAuthor(x client.PastChange) bool { return x.Session != 0 && x.User+x.Address == "" }

// withAuthors yields changes with the users and addresses that the other servers of the connect string know: each knows those of its
// own clients.
func (c *Call) withAuthors(ctx context.Context, zk *client.Client, path string, ask tree.HistoryOptions, changes iter.Seq2[client.PastChange, error]) iter.Seq2[client.PastChange, error] {
	return func(yield func(client.PastChange, error) bool) {
		var list []client.PastChange
		for x, err := range changes {
			if err != nil {
				yield(x, err)
				return
			}
			list = append(list, x)
		}
		addrs, root, _ := client.ParseServers(c.Options.Server) // the session has these servers
		for _, addr := range addrs {
			if addr == zk.Status().Server || !slices.ContainsFunc(list, hasNoAuthor) {
				continue
			}
			if err := c.addAuthors(ctx, addr, treediff.Join(root, path), ask, list); err != nil {
				c.App.say("%s does not tell what its clients have changed: %v", addr, err)
			}
		}
		for _, x := range list {
			if !yield(x, nil) {
				return
			}
		}
	}
}

// addAuthors asks one server.
func (c *Call) addAuthors(ctx context.Context, addr, path string, ask tree.HistoryOptions, list []client.PastChange) error {
	zk, err := c.connectTo(ctx, addr)
	if err != nil {
		return err
	}
	defer zk.Close(context.WithoutCancel(ctx))
	ask.Data, ask.End = false, nil
	authors := make(map[client.Zxid]client.PastChange)
	for x, err := range c.history(ctx, zk, path, ask) {
		if err != nil {
			return err
		}
		authors[x.Zxid] = x
	}
	for i := range list {
		if by, known := authors[list[i].Zxid]; known && hasNoAuthor(list[i]) {
			list[i].User, list[i].Address = by.User, by.Address
		}
	}
	return nil
}

func changeDocOf(x *client.PastChange, data bool) changeDoc {
	doc := changeDoc{Time: stamp(time.UnixMilli(x.Time)), Zxid: x.Zxid.String(), Session: x.Session.String(), User: x.User, Address: x.Address, Xid: x.Xid, Of: x.Of,
		Op: x.Op, Path: x.Name, Bytes: x.Stat.DataLength, Version: x.Stat.Version}
	if x.Was >= 0 {
		doc.Was = &x.Was
	}
	if data && x.Op != "setACL" {
		if x.Was >= 0 {
			doc.Before = shownDataOf(x.Before)
		}
		if x.Stat.Czxid != 0 {
			doc.After = shownDataOf(x.After)
		}
	}
	return doc
}

// changeText is a line for people, and with data one more for what was before and what is after.
func changeText(x *client.PastChange, data bool) string {
	s := fmt.Sprintf("%s  %v  %s %s", stamp(time.UnixMilli(x.Time)), x.Zxid, x.Op, x.Name)
	switch x.Op {
	case "create":
		s += "  " + countText(int(x.Stat.DataLength), "byte")
	case "set":
		s += fmt.Sprintf("  %s, before %d, version %d", countText(int(x.Stat.DataLength), "byte"), x.Was, x.Stat.Version)
	case "setACL":
		s += fmt.Sprintf("  version %d", x.Stat.Aversion)
	case "delete", "expire":
		s += fmt.Sprintf("  it had %s", countText(int(x.Was), "byte"))
	}
	if x.Session == 0 {
		s += "  by the servers"
	} else {
		s += "  by " + x.User
		if x.Address != "" {
			s = strings.TrimSuffix(s, " ") + " at " + x.Address
		}
		s = strings.TrimSuffix(s, "  by ")
		s += fmt.Sprintf("  session %v, request %d", x.Session, x.Xid)
	}
	if x.Of > 1 {
		s += fmt.Sprintf(", one of %d operations", x.Of)
	}
	if data && x.Op != "setACL" {
		if x.Was >= 0 {
			s += "\n  - " + shortData(x.Before)
		}
		if x.Stat.Czxid != 0 {
			s += "\n  + " + shortData(x.After)
		}
	}
	return s
}

// formerDiffDoc is how a node differs between two moments, in JSON.
type formerDiffDoc struct {
	Op     string   `json:"op"` // created, changed or deleted
	Path   string   `json:"path"`
	What   []string `json:"what,omitempty"`
	Before *sideDoc `json:"before,omitempty"`
	After  *sideDoc `json:"after,omitempty"`
}

// formerDiffOptions are those of diff for moments.
type formerDiffOptions struct {
	from, to    string
	data, quiet bool
}

// formerDiff compares a subtree at two moments, or at one with the present.
func (c *Call) formerDiff(ctx context.Context, o formerDiffOptions, how subtree.DiffOptions) error {
	root := c.Arg(0)
	from, err := c.moment("from", o.from)
	if err != nil {
		return err
	}
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	then := subtree.Hiding(c.formerSubtree(ctx, zk, root, from))
	now := subtree.Hiding(orNone(subtree.Live(ctx, zk, root, subtree.ReadOptions{Data: true, ACL: true, SkipSystem: true})))
	if o.to != "" {
		to, err := c.moment("to", o.to)
		if err != nil {
			return err
		}
		var first []subtree.Node // a server shows one moment at a time
		for n, err := range then {
			if err != nil {
				return err
			}
			first = append(first, n)
		}
		then, now = treediff.Stream(first), subtree.Hiding(c.formerSubtree(ctx, zk, root, to))
	}
	p := c.printer("OP", "PATH", "DIFFERENCE", "BEFORE", "AFTER")
	differ, hidden := false, 0
	for d, err := range treediff.Diff(then, now, how) {
		switch {
		case err != nil:
			return errors.Join(p.flush(), err)
		case d.A != nil && d.A.Hidden || d.B != nil && d.B.Hidden:
			hidden++
			continue
		}
		if differ = true; o.quiet {
			break
		}
		if err := p.print(formerDifference(root, d, o.data)); err != nil {
			return err
		}
	}
	if err := p.end(); err != nil {
		return err
	}
	if hidden > 0 {
		c.App.say("%s not compared: they may not be read now, or could not be read then", countText(hidden, "node"))
	}
	if differ {
		return &ExitError{Code: exitError}
	}
	return nil
}

// orNone ends a stream of Live without an error if there is no root.
func orNone(nodes iter.Seq2[subtree.Node, error]) iter.Seq2[subtree.Node, error] {
	return func(yield func(subtree.Node, error) bool) {
		for n, err := range nodes {
			if n.Path == "" && errors.Is(err, client.ErrNoNode) || !yield(n, err) {
				return
			}
		}
	}
}

func formerDifference(root string, d subtree.Difference, data bool) printed {
	doc := formerDiffDoc{Op: "changed", Path: treediff.Join(root, d.Path), Before: sideOf(d.A), After: sideOf(d.B)}
	var text string
	switch {
	case d.A == nil:
		doc.Op, text = "created", bytesText(int64(len(d.B.Data)))
		if data {
			text += ": " + shortData(d.B.Data)
		}
	case d.B == nil:
		doc.Op, text = "deleted", bytesText(int64(len(d.A.Data)))
		if data {
			text += ": " + shortData(d.A.Data)
		}
	default:
		doc.What = whatChanged(d)
		text = strings.Join(doc.What, ", ") + fmt.Sprintf(", %s before, %s after", bytesText(int64(len(d.A.Data))), bytesText(int64(len(d.B.Data))))
		if data {
			text = strings.Join(differences(d), "; ")
		}
	}
	if !data {
		for _, side := range []*sideDoc{doc.Before, doc.After} {
			if side != nil {
				side.Data, side.Encoding = nil, ""
			}
		}
	}
	row := differenceRow(d)
	return printed{text: doc.Op + " " + doc.Path + "  " + text, raw: doc.Path, data: doc, row: []string{doc.Op, doc.Path, strings.Join(doc.What, ", "), row[2], row[3]}}
}
