package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/treediff"
	"github.com/zkd-project/zkd/recipes/hold"
)

// place is a node in the queue of a lock or an election: the first one holds.
type place struct {
	hold.Contender
	name string
}

// places returns the queue below dir, in its order. Nodes without a number at the end are
// ignored, and nodes deleted meanwhile omitted.
func places(ctx context.Context, zk *client.Client, dir string) ([]place, error) {
	contenders, err := hold.Contenders(ctx, zk, dir)
	list := make([]place, len(contenders))
	for i, who := range contenders {
		list[i] = place{who, path.Base(who.Path)}
	}
	return list, err
}

// placeDoc is a place in JSON.
type placeDoc struct {
	Position int     `json:"position"` // from 1
	State    string  `json:"state"`
	Node     string  `json:"node"`
	Path     string  `json:"path"`
	Session  string  `json:"session,omitempty"` // none if the node is not ephemeral
	Since    string  `json:"since"`
	AgeMs    int64   `json:"ageMs"`
	Data     *string `json:"data"`
	Encoding string  `json:"encoding,omitempty"` // of data
}

var placeHeading = []string{"POSITION", "STATE", "NODE", "SESSION", "SINCE", "AGE", "DATA"}

// doc describes the place at a position from 0.
func (p *place) doc(position int, now time.Time) placeDoc {
	d := placeDoc{
		Position: position + 1, State: placeState(position), Node: p.name, Path: p.Path,
		Since: tableTime(p.Since.UnixMilli()), AgeMs: max(0, now.Sub(p.Since).Milliseconds()),
	}
	if p.Session != 0 {
		d.Session = p.Session.String()
	}
	var data nodeData
	data.set(p.Data)
	d.Data, d.Encoding = data.Data, data.Encoding
	return d
}

func placeState(position int) string {
	if position == 0 {
		return "holds"
	}
	return "waits"
}

// owner describes the owner of a place.
func (p *place) owner(now time.Time) string {
	whose := "of no session: it is not ephemeral"
	if p.Session != 0 {
		whose = "of session " + p.Session.String()
	}
	return fmt.Sprintf("%s, %s old, data %s", whose, ageText(now.Sub(p.Since)), shortData(p.Data))
}

// lockList shows who holds a lock, and who waits for it.
func (c *Call) lockList(ctx context.Context) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	queue, err := places(ctx, zk, c.Arg(0))
	if err != nil {
		return err
	}
	now := time.Now()
	var rows [][]string
	var names []string
	docs := make([]placeDoc, len(queue))
	for i, p := range queue {
		d := p.doc(i, now)
		docs[i] = d
		names = append(names, p.name)
		rows = append(rows, []string{
			strconv.Itoa(d.Position), d.State, d.Node, cmp.Or(d.Session, "-"), d.Since,
			ageText(time.Duration(d.AgeMs) * time.Millisecond), shortData(p.Data),
		})
	}
	out := Output{Raw: lines(names)}
	if c.Options.Format == FormatJSON {
		for _, d := range docs {
			if err := c.Emit(Output{Data: d}); err != nil {
				return err
			}
		}
		return nil
	}
	if len(queue) == 0 {
		out.Note = "nobody holds " + c.Arg(0)
	} else {
		out.Table = append([][]string{placeHeading}, rows...)
		out.Text = string(table(out.Table, false))
	}
	return c.Emit(out)
}

// broken is the result of lockBreak in JSON.
type broken struct {
	Path  string   `json:"path"`
	Place placeDoc `json:"broken"`
}

// lockBreak deletes the node of the holder, or of a waiting contender.
func (c *Call) lockBreak(ctx context.Context, sure bool) error {
	zk, err := c.Client(ctx)
	if err != nil {
		return err
	}
	queue, err := places(ctx, zk, c.Arg(0))
	if err != nil {
		return err
	}
	i, err := choose(queue, c.Arg(0), c.Arg(1))
	if err != nil {
		return err
	}
	p, now := &queue[i], time.Now()
	if !sure {
		err := c.confirm(fmt.Sprintf("This deletes %s, which %s, %s.", p.Path, placeState(i), p.owner(now)), true)
		if err != nil {
			return err
		}
	}
	if err := p.remove(ctx, zk); err != nil {
		return err
	}
	return c.Emit(Output{
		Note: fmt.Sprintf("deleted %s, which %s, %s", p.Path, map[bool]string{true: "held", false: "waited"}[i == 0], p.owner(now)),
		Data: broken{c.Arg(0), p.doc(i, now)},
	})
}

// choose returns the index of the holder, or of the named place.
func choose(queue []place, dir, name string) (int, error) {
	if len(queue) == 0 {
		return 0, fmt.Errorf("nobody holds %s, and nobody waits for it", dir)
	}
	if name == "" {
		return 0, nil
	}
	i := slices.IndexFunc(queue, func(p place) bool { return p.name == name || p.Path == name })
	if i < 0 {
		return 0, &wordedError{fmt.Sprintf("%s is not in the queue of %s (lock --list shows it)", name, dir), notThere(treediff.Join(dir, "/"+name))}
	}
	return i, nil
}

// remove deletes the node, but not another one created in its place: numbers begin again when
// the parent is deleted.
func (p *place) remove(ctx context.Context, zk *client.Client) error {
	_, err := hold.Break(ctx, zk, p.Contender)
	switch {
	case errors.Is(err, client.ErrNoNode):
		return &wordedError{p.Path + " has gone by itself meanwhile: nothing was deleted", notThere(p.Path)}
	case errors.Is(err, client.ErrBadVersion):
		return &wordedError{p.Path + " is another's by now: nothing was deleted",
			&client.Error{Path: p.Path, Err: client.ErrBadVersion}}
	}
	return err
}

func notThere(path string) error {
	return &client.Error{Path: path, Err: client.ErrNoNode}
}
