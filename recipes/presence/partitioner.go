package presence

import (
	"context"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/lock"
)

// PartitionerOptions configure a Partitioner. The zero value is good for most.
type PartitionerOptions struct {
	// ID is the member's, and unique in the group. Empty means the host's name, the process
	// id, and a random number.
	ID string
	// Assign returns the partitions of the member with that ID. All members must come to the
	// same result. Both lists are sorted; Assign may keep and change them. Nil means Even.
	Assign func(id string, members, partitions []string) []string
	// ACL is the access list of new nodes; nil means client.OpenACL. It must let the members
	// read.
	ACL []client.ACL
}

// Even assigns the partitions to the members in turn, as kazoo's SetPartitioner does.
func Even(id string, members, partitions []string) []string {
	var own []string
	for i := slices.Index(members, id); i >= 0 && i < len(partitions); i += len(members) {
		own = append(own, partitions[i])
	}
	return own
}

// Partitioner is a member of a group that divides a set of partitions.
type Partitioner struct {
	c          *client.Client
	group      *Group
	partitions []string // sorted
	locks      map[string]*lock.Mutex
	o          PartitionerOptions

	mu      monitor // guards what follows
	running bool
	members []string
	own     []string // those assigned to this member
	owned   []string // those of which it has the locks
	tenures []string // a name for each one that runs; those that end, too
	err     error    // why the last Run has ended
	failed  bool     // the last Run did not end because of its context
}

// NewPartitioner returns a member of the group at path, which divides the partitions. They
// are names without /, and unique. It sends no request.
func NewPartitioner(c *client.Client, path string, partitions []string, o PartitionerOptions) (*Partitioner, error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("partitioner: path %q: %w", path, err)
	}
	if o.ID == "" {
		host, _ := os.Hostname() // the random part makes it unique
		o.ID = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), line.NewID()[:8])
	}
	if strings.Contains(o.ID, "/") {
		return nil, fmt.Errorf("partitioner %s: Options.ID is %q: it has no /", path, o.ID)
	}
	if o.Assign == nil {
		o.Assign = Even
	}
	g, err := NewGroup(c, line.Join(path, "party"), Options{Layout: ShallowParty, ACL: o.ACL})
	if err != nil {
		return nil, fmt.Errorf("partitioner: %w", err)
	}
	p := &Partitioner{c: c, group: g, partitions: slices.Sorted(slices.Values(partitions)), locks: map[string]*lock.Mutex{}, o: o}
	for _, name := range p.partitions {
		if name == "" || strings.Contains(name, "/") || p.locks[name] != nil {
			return nil, fmt.Errorf("partitioner %s: partition %q: they are names without /, and each is there once", path, name)
		}
		p.locks[name], err = lock.NewMutex(c, line.Join(path, "locks/"+name), lock.Options{Options: hold.Options{ACL: o.ACL, Data: []byte(o.ID)}, Layout: lock.Kazoo})
		if err != nil {
			return nil, fmt.Errorf("partitioner: %w", err)
		}
	}
	return p, nil
}

// ID returns the member's ID.
func (p *Partitioner) ID() string { return p.o.ID }

// Partition is a partition that the member owns.
type Partition struct {
	name string
	held *hold.Held
}

// Name returns which partition it is.
func (p *Partition) Name() string { return p.name }

// Token returns a number that is larger than those of all earlier owners of the partition:
// see package lock.
func (p *Partition) Token() client.Zxid { return p.held.Token() }

// Guard returns operations of a Multi, by the client that the Partitioner was made with, that
// is done only if the partition is still owned: see hold.Held.
func (p *Partition) Guard(ops ...client.Op) []client.Op { return p.held.Guard(ops...) }

// Err returns nil while the partition is owned. It looks at the clock, too.
func (p *Partition) Err() error { return p.held.Err() }

// Run makes the program a member until ctx or the session ends. It returns the cause of ctx,
// recipes.ErrLost, or what the servers refuse. For each partition that the member owns it
// calls work in a new goroutine. The context of work ends when the partition is to be given
// up, or with a cause that wraps recipes.ErrLost if it is lost; work should return then. If
// it returns before, the partition stays owned. It is called again when the partition is
// owned again.
//
// When Run returns, all work has returned, and the member owns nothing. Only one Run may be
// under way.
func (p *Partitioner) Run(ctx context.Context, work func(ctx context.Context, own *Partition)) error {
	already := false
	p.update(func() { already, p.running = p.running, true })
	if already {
		return fmt.Errorf("partitioner %s: it runs already", p.group.Path())
	}
	err := p.run(ctx, work)
	failed := ctx.Err() == nil
	p.update(func() { p.running, p.err, p.failed, p.members, p.own = false, err, failed, nil, nil })
	return err
}

// update changes what mu guards.
func (p *Partitioner) update(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	p.mu.notifyLocked()
}

// Phase is the phase of a Partitioner.
type Phase int

const (
	Stopped    Phase = iota // it does not run
	Allocating              // it has not got all of its partitions
	Acquired                // it has its partitions, and no others
	Releasing               // it has partitions of others, whose work has not returned
	Failed                  // Run has ended with PartitionerState.Err, not because of its context
)

// String returns the phase's name in lower case.
func (p Phase) String() string {
	if p < Stopped || p > Failed {
		p = Stopped
	}
	return [...]string{"stopped", "allocating", "acquired", "releasing", "failed"}[p]
}

// PartitionerState is the state of a Partitioner.
type PartitionerState struct {
	Phase Phase
	// Members are the IDs of all members that this one knows of, sorted.
	Members []string
	// Assigned are the partitions that are to be this member's, and Owned those of which it
	// has the locks. Both are sorted.
	Assigned, Owned []string
	// Err is why the last Run has ended.
	Err error
}

// State returns the state of the Partitioner.
func (p *Partitioner) State() PartitionerState {
	s, _, _ := p.look()
	return s
}

// Follow returns the state of the Partitioner, and again after each change, from one Run to
// the next, until the loop or ctx ends. States that pass faster than the loop takes them are
// left out, but for the last. An error is that of ctx, and the last.
func (p *Partitioner) Follow(ctx context.Context) iter.Seq2[PartitionerState, error] {
	return follow(ctx, p.look)
}

func (p *Partitioner) look() (PartitionerState, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PartitionerState{Members: slices.Clone(p.members), Assigned: slices.Sorted(slices.Values(p.own)), Owned: slices.Sorted(slices.Values(p.owned)), Err: p.err}
	s.Phase = p.phase()
	return s, p.mu.changedLocked(), nil
}

func (p *Partitioner) phase() Phase {
	assigned := func(name string) bool { return slices.Contains(p.own, name) }
	held := func(name string) bool { return slices.Contains(p.owned, name) }
	switch {
	case !p.running && p.failed:
		return Failed
	case !p.running:
		return Stopped
	case len(p.tenures) > len(p.own) || !all(p.tenures, assigned):
		return Releasing
	case len(p.members) == 0 || !all(p.own, held):
		return Allocating
	}
	return Acquired
}

// all reports whether each element satisfies a condition.
func all(list []string, fits func(string) bool) bool {
	return !slices.ContainsFunc(list, func(name string) bool { return !fits(name) })
}
