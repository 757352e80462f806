package subtree

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/treediff"
)

// action is what must be done for a node of the file.
type action int

const (
	leaveSame action = iota
	leaveEphemeral
	leaveOther // exists and differs, and is left because of Skip
	refuse     // exists and differs, and no option says what to do
	create
	change
)

// live is the existing node, nil if there is none.
type live struct {
	data []byte
	acl  []client.ACL
	stat client.Stat
}

// decide compares a node with what there is.
func (im *importer) decide(n *Node, there *live) action {
	switch {
	case im.leftOut(n):
		return leaveEphemeral
	case there == nil:
		return create
	case treediff.KindOf(there.stat) == Ephemeral: // it will disappear, and can't be made permanent
		if im.o.Skip {
			return leaveOther
		}
		return refuse
	case treediff.SameData(n.Data, there.data) && (im.o.NoACL || treediff.SameACL(n.ACL, there.acl)):
		return leaveSame
	case im.o.Overwrite:
		return change
	case im.o.Skip:
		return leaveOther
	}
	return refuse
}

// count adds to the counts, and adds a refused node to the conflicts.
func (a action) count(to *Counts, conflicts *ConflictError, path string) {
	const maxConflicts = 10
	switch a {
	case leaveSame:
		to.Same++
	case leaveEphemeral:
		to.Ephemerals++
	case leaveOther:
		to.Skipped++
	case create:
		to.Created++
	case change:
		to.Changed++
	case refuse:
		conflicts.Count++
		if len(conflicts.Paths) < maxConflicts {
			conflicts.Paths = append(conflicts.Paths, path)
		}
	}
}

// look reads the existing nodes of a batch.
func (im *importer) look(ctx context.Context, batch []Node) ([]*live, error) {
	for {
		found, err := im.lookOnce(ctx, batch)
		if !errors.Is(err, client.ErrConnectionLoss) || ctx.Err() != nil {
			return found, err
		}
	}
}

func (im *importer) lookOnce(ctx context.Context, batch []Node) ([]*live, error) {
	async := im.c.Async()
	data := make([]*client.Future[client.Node], len(batch))
	acls := make([]*client.Future[client.Access], len(batch))
	for i := range batch {
		if im.leftOut(&batch[i]) {
			continue
		}
		path := treediff.Join(im.root, batch[i].Path)
		data[i] = async.Get(path)
		if !im.o.NoACL {
			acls[i] = async.GetACL(path)
		}
	}
	found := make([]*live, len(batch))
	for i := range batch {
		if data[i] == nil {
			continue
		}
		n, err := data[i].Wait(ctx)
		l := &live{data: n.Data, stat: n.Stat}
		if err == nil && acls[i] != nil {
			var access client.Access
			access, err = acls[i].Wait(ctx)
			l.acl = access.ACL
		}
		switch {
		case errors.Is(err, client.ErrNoNode):
		case err != nil:
			return nil, err
		default:
			found[i] = l
		}
	}
	return found, nil
}

// maxRounds is how often a batch is tried while other clients change the same nodes.
const maxRounds = 5

// write makes the nodes of a batch equal to those in the file. If a lost connection leaves an
// outcome unknown, the next round looks.
func (im *importer) write(ctx context.Context, batch []Node) error {
	if err := context.Cause(ctx); err != nil {
		im.report.Next = batch[0].Path
		return err
	}
	work, stop := grace(ctx, im.c)
	defer stop()
	var wanted []action
	for round := 1; ; round++ {
		found, err := im.look(work, batch)
		if err != nil {
			return im.stopped(work, batch, wanted, err)
		}
		ops, actions := im.operations(batch, found)
		if round == 1 {
			wanted = actions
		}
		if err := im.conflictNow(batch, actions); err != nil {
			return im.stopped(work, batch, wanted, err)
		}
		if err = im.commit(work, batch, found, actions, ops); err == nil {
			break
		}
		lost := errors.Is(err, client.ErrConnectionLoss)
		if !lost && (round == maxRounds || !disturbed(err)) {
			return im.stopped(work, batch, wanted, err)
		}
	}
	for i, a := range wanted {
		im.settle(a, &batch[i])
	}
	im.o.Progress(Progress{Doing: "writing", Done: im.report.Settled(), Total: im.total})
	return nil
}

func (im *importer) settle(a action, n *Node) {
	a.count(&im.report.Counts, nil, n.Path)
	im.report.Left--
}

// stopped records how far a batch got that err ended. wanted is what was to be done with each
// node, nil if nothing has been tried.
func (im *importer) stopped(ctx context.Context, batch []Node, wanted []action, err error) error {
	im.report.Next = batch[0].Path
	if wanted == nil {
		return err
	}
	found, lookErr := im.look(ctx, batch)
	next := ""
	for i, a := range wanted {
		n := &batch[i]
		touched := a == create || a == change
		switch {
		case !touched && a != refuse, lookErr == nil && touched && im.decide(n, found[i]) == leaveSame:
			im.settle(a, n)
			continue
		case lookErr != nil && touched:
			im.report.Unknown = append(im.report.Unknown, n.Path)
		}
		if next == "" {
			next = n.Path
		}
	}
	im.report.Next = next
	return err
}

// disturbed reports whether an operation failed because another client changed the nodes
// after they were read.
func disturbed(err error) bool {
	return errors.Is(err, client.ErrNodeExists) || errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrNoNode)
}

func (im *importer) conflictNow(batch []Node, actions []action) error {
	var c ConflictError
	for i, a := range actions {
		if a == refuse {
			a.count(&Counts{}, &c, treediff.Join(im.root, batch[i].Path))
		}
	}
	if c.Count > 0 {
		return fmt.Errorf("somebody else is writing here: %w", &c)
	}
	return nil
}

// operations returns what a multi must do; ACLs of nodes that exist can't be
// changed by one.
func (im *importer) operations(batch []Node, found []*live) ([]client.Op, []action) {
	var ops []client.Op
	actions := make([]action, len(batch))
	for i := range batch {
		n := &batch[i]
		actions[i] = im.decide(n, found[i])
		switch {
		case actions[i] == create:
			ops = append(ops, im.createOp(n))
		case actions[i] == change && !treediff.SameData(n.Data, found[i].data):
			ops = append(ops, client.SetOp(treediff.Join(im.root, n.Path), n.Data, found[i].stat.Version))
		}
	}
	return ops, actions
}

func (im *importer) createOp(n *Node) client.Op {
	acl := n.ACL
	if im.o.NoACL {
		acl = nil
	}
	return createOp(treediff.Join(im.root, n.Path), n, acl)
}

// createOp creates a node of the kind and with the data of n.
func createOp(path string, n *Node, acl []client.ACL) client.Op {
	switch n.Kind() {
	case Container:
		return client.CreateOp(path, n.Data, client.CreateOptions{Mode: client.Container, ACL: acl})
	case TTL:
		return client.CreateOp(path, n.Data, client.CreateOptions{Mode: client.PersistentTTL, ACL: acl, TTL: n.TimeToLive()})
	}
	return client.CreateOp(path, n.Data, client.CreateOptions{ACL: acl})
}

// commit sends the operations and then the changes of ACLs.
func (im *importer) commit(ctx context.Context, batch []Node, found []*live, actions []action, ops []client.Op) error {
	if len(ops) > 0 {
		if _, err := im.c.Multi(ctx, ops...); err != nil {
			return err
		}
	}
	if im.o.NoACL {
		return nil
	}
	async := im.c.Async()
	var sets []*client.Future[client.Stat]
	for i, a := range actions {
		if a == change && !treediff.SameACL(batch[i].ACL, found[i].acl) {
			sets = append(sets, async.SetACL(treediff.Join(im.root, batch[i].Path), batch[i].ACL, found[i].stat.Aversion))
		}
	}
	var first error
	for _, f := range sets {
		if _, err := f.Wait(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}
