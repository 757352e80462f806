package partitioner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/group"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/lock"
)

// Options are what a Partitioner can be told. The zero value is good for most.
type Options struct {
	// ID is the member's. It must be unique in the group. Empty is the host's name, the
	// process id, and a random number.
	ID string
	// Assign returns which of the partitions are the member's with that ID. All members
	// must come to the same result. Both lists are sorted; Assign may keep and change
	// them. Nil is Even.
	Assign func(id string, members, partitions []string) []string
	// ACL is that of new nodes. Nil is client.OpenACL. It must let the members read.
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

// Partitioner is one member.
type Partitioner struct {
	c          *client.Client
	group      *group.Group
	partitions []string // sorted
	locks      map[string]*lock.Mutex
	o          Options

	mu      sync.Mutex // guards what follows
	running bool
	members []string
	own     []string // that are assigned to this member
	owned   []string // that it has the locks of
	tenures int      // that run
	err     error    // why the last Run has ended
	failed  bool     // it was not because its context has
	// changed is closed and replaced when one of the above has changed.
	changed chan struct{}
}

// New returns a member of the group at path, which divides the partitions. They are
// names without /, and unique. It doesn't talk to the servers.
func New(c *client.Client, path string, partitions []string, o Options) (*Partitioner, error) {
	p := &Partitioner{
		c: c, partitions: slices.Clone(partitions), locks: map[string]*lock.Mutex{}, o: o, changed: make(chan struct{}),
	}
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("partitioner: path %q: %w", path, err)
	}
	if p.o.ID == "" {
		host, _ := os.Hostname() // the random part is what counts
		p.o.ID = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), line.NewID()[:8])
	}
	if strings.Contains(p.o.ID, "/") {
		return nil, fmt.Errorf("partitioner %s: Options.ID is %q: it has no /", path, p.o.ID)
	}
	if p.o.Assign == nil {
		p.o.Assign = Even
	}
	var err error
	if p.group, err = group.New(c, line.Join(path, "party"), group.Options{Layout: group.ShallowParty, ACL: o.ACL}); err != nil {
		return nil, fmt.Errorf("partitioner: %w", err)
	}
	slices.Sort(p.partitions)
	for _, name := range p.partitions {
		if name == "" || strings.Contains(name, "/") || p.locks[name] != nil {
			return nil, fmt.Errorf("partitioner %s: partition %q: they are names without /, and each is there once", path, name)
		}
		m, err := lock.NewMutex(c, line.Join(path, "locks/"+name), lock.Options{Options: hold.Options{ACL: o.ACL, Data: []byte(p.o.ID)}, Layout: lock.Kazoo})
		if err != nil {
			return nil, fmt.Errorf("partitioner: %w", err)
		}
		p.locks[name] = m
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

// Token returns a number that is larger than those of all who have owned the partition
// before: what one fences with, see package lock.
func (p *Partition) Token() client.Zxid { return p.held.Token() }

// Guard returns operations of a Multi, by the client that the Partitioner was made with,
// that is done only if the partition is still owned: see hold.Held.
func (p *Partition) Guard(ops ...client.Op) []client.Op { return p.held.Guard(ops...) }

// Err returns nil while the partition is owned. It looks at the clock, too.
func (p *Partition) Err() error { return p.held.Err() }

// Run makes the program a member, until ctx ends or the session does: it returns ctx's
// cause, recipes.ErrLost, or what the servers refuse. For each partition that the member
// owns it calls work, in a goroutine of its own. work's context ends when the partition
// is to be given up, and with a cause that wraps recipes.ErrLost if it is lost; work
// should return then. If it returns before, the partition stays owned. It is called
// again when the partition is owned again.
//
// When Run returns, all work has, and the member owns nothing. Only one Run may be under
// way.
func (p *Partitioner) Run(ctx context.Context, work func(ctx context.Context, own *Partition)) error {
	if !p.update(func() bool { was := p.running; p.running = true; return !was }) {
		return fmt.Errorf("partitioner %s: it runs already", p.group.Path())
	}
	err := p.run(ctx, work)
	failed := ctx.Err() == nil
	p.update(func() bool {
		p.running, p.err, p.failed, p.members, p.own = false, err, failed, nil, nil
		return true
	})
	return err
}

func (p *Partitioner) run(ctx context.Context, work func(ctx context.Context, own *Partition)) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	member, err := p.group.Join(ctx, p.o.ID, nil)
	if err != nil {
		return fmt.Errorf("partitioner: %w", err)
	}
	defer leave(ctx, member)
	m := &manager{p: p, ctx: ctx, fail: fail, work: work, tenures: map[string]context.CancelCauseFunc{}}
	m.running.Go(func() { m.watch(member) })
	defer m.end()
	for view, err := range p.group.Follow(ctx) {
		if err != nil {
			fail(err)
			return context.Cause(ctx)
		}
		var members []string
		for _, one := range view.Members {
			members = append(members, one.ID)
		}
		m.assign(slices.Compact(members)) // an ID is there twice after a restart
	}
	return context.Cause(ctx)
}

// leave leaves the group, though ctx has ended. What takes longer goes on in the
// background.
func leave(ctx context.Context, member *group.Membership) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = member.Leave(ctx)
}

// update changes what mu guards, and tells of it if fn reports that it has.
func (p *Partitioner) update(fn func() bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !fn() {
		return false
	}
	close(p.changed)
	p.changed = make(chan struct{})
	return true
}

var errReassigned = errors.New("the members have changed, and the partition is another one's")
