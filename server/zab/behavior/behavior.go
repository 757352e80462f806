package behavior

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// Recorder has the steps of a run.
type Recorder struct {
	mu     sync.Mutex
	steps  []string // in TLA+
	epochs uint32   // the highest
	// committed is what has been said of each server, and lives the incarnations of each.
	committed [16]jute.Zxid
	lives     [16][]zab.ID
	proposers map[jute.Zxid]zab.SID // the server that wrote an entry first
}

// Run returns the steps, which must not change any more.
func (r *Recorder) Run() Run { return Run{r.steps, r.epochs} }

// Run is what servers did.
type Run struct {
	Steps  []string // in TLA+
	epochs uint32
}

// WriteModule writes a module of TLA+ with runs.
func WriteModule(file string, runs []Run) error {
	var texts []string
	epochs := uint32(1)
	for _, r := range runs {
		texts = append(texts, "<<"+strings.Join(r.Steps, ",\n")+">>")
		epochs = max(epochs, r.epochs)
	}
	module := fmt.Sprintf("---- MODULE Runs ----\nRuns == <<\n\n%s>>\nHighest == %d\n====\n", strings.Join(texts, ",\n\n"), epochs)
	return os.WriteFile(file, []byte(module), 0o644)
}

func (r *Recorder) add(kind string, id zab.SID, args ...any) {
	var t strings.Builder
	fmt.Fprintf(&t, "<<%q,%d", kind, id)
	for _, a := range args {
		switch a := a.(type) {
		case jute.Zxid:
			fmt.Fprintf(&t, ",<<%d,%d>>", a.Epoch(), a.Counter())
			r.epochs = max(r.epochs, a.Epoch())
		case bool:
			fmt.Fprintf(&t, ",%s", strings.ToUpper(fmt.Sprint(a)))
		default:
			fmt.Fprintf(&t, ",%v", a)
		}
	}
	r.steps = append(r.steps, t.String()+">>")
}

// Starts notes that a process begins with what its disk has.
func (r *Recorder) Starts(id zab.SID, incarnation zab.ID) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed[id-1] = 0
	r.life(id, incarnation)
	r.add("crash", id)
}

// life returns the number of an incarnation of a server.
func (r *Recorder) life(id zab.SID, incarnation zab.ID) int {
	l := &r.lives[id-1]
	i := slices.Index(*l, incarnation)
	if i < 0 {
		i = len(*l)
		*l = append(*l, incarnation)
	}
	return i
}

// Commits notes what a server knows to be committed.
func (r *Recorder) Commits(id zab.SID, z jute.Zxid, leads bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits(id, z, leads)
}

func (r *Recorder) commits(id zab.SID, z jute.Zxid, leads bool) {
	if z <= r.committed[id-1] {
		return
	}
	r.committed[id-1] = z
	kind := "learn"
	if leads {
		kind = "commit"
	}
	r.add(kind, id, z)
}

// Writes notes a record that a server writes. role is the server's.
func (r *Recorder) Writes(id zab.SID, op *zab.LogOp, role zab.Role) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch op.Kind {
	case zab.LogAppend:
		kind, data := r.entry(id, &op.Entry)
		r.add("append", id, op.Entry.Zxid, fmt.Sprintf("%q", kind), data)
	case zab.LogPromise:
		r.epochs = max(r.epochs, op.Promise.Epoch)
		kind := "promise"
		if op.Promise.To == id {
			kind = "campaign"
			if role == zab.Leading || role == zab.SyncingLeader {
				kind = "renew"
			}
		}
		r.add(kind, id, op.Promise.Epoch, op.Promise.To)
	case zab.LogTruncate:
		r.add("truncate", id, op.Upto)
	case zab.LogCommitHint:
		r.commits(id, op.Upto, false)
		r.add("hint", id, op.Upto)
	case zab.LogSnapshot:
		r.add("install", id, op.Snap.Zxid)
		r.committed[id-1] = max(r.committed[id-1], op.Snap.Zxid)
	}
}

// entry returns the kind and the data of an entry that a server writes.
func (r *Recorder) entry(id zab.SID, e *zab.Entry) (kind, data string) {
	var m zab.Marker
	var a zab.Admission
	switch {
	case e.Type == zab.EntryMarker && m.Decode(e.Data) == nil && m.Init != nil:
		var list []string
		for _, a := range m.Admitted {
			list = append(list, fmt.Sprintf("<<%d,%d>>", a.Server, r.life(a.Server, a.Incarnation)))
		}
		return "found", "{" + strings.Join(list, ",") + "}"
	case e.Type == zab.EntryMarker:
		return "marker", fmt.Sprint(m.Leader)
	case (e.Type == zab.EntryAdmit || e.Type&zab.EntryAdmits != 0) && a.Decode(e.Data) == nil:
		return "admit", fmt.Sprintf("<<%d,%d>>", a.Server, r.life(a.Server, a.Incarnation))
	}
	if r.proposers == nil {
		r.proposers = map[jute.Zxid]zab.SID{}
	}
	by, ok := r.proposers[e.Zxid]
	if !ok {
		by, r.proposers[e.Zxid] = id, id
	}
	return "txn", fmt.Sprint(by)
}

// Durable notes that the oldest of the records of a server that were not durable is, if the specification has records of its kind.
func (r *Recorder) Durable(id zab.SID, kind zab.LogOpKind) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch kind {
	case zab.LogAppend, zab.LogPromise, zab.LogTruncate, zab.LogCommitHint, zab.LogSnapshot:
		r.add("durable", id)
	}
}

// Sends notes a message that says that something is durable.
func (r *Recorder) Sends(id zab.SID, m *zab.Message) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case m.Kind == zab.MsgNewEpoch && m.Flags&zab.FlagEstablished == 0:
		r.add("newepoch", id, m.Epoch, m.Zxid)
	case m.Kind == zab.MsgAckEpoch:
		r.add("ackepoch", id, m.Epoch)
	case m.Kind == zab.MsgAck, m.Kind == zab.MsgPong && m.Zxid != 0:
		r.add("ack", id, m.Epoch, m.Zxid, m.Flags&zab.FlagUncounted == 0)
	}
}
