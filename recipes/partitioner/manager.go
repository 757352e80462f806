package partitioner

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/group"
)

// manager is one Run. It starts a tenure for each partition that is assigned to the
// member, and ends it when it is not any more.
type manager struct {
	p       *Partitioner
	ctx     context.Context // ends with the Run
	fail    context.CancelCauseFunc
	work    func(ctx context.Context, own *Partition)
	tenures map[string]context.CancelCauseFunc // of what is assigned; Run's goroutine alone uses it
	running sync.WaitGroup
}

// watch ends the Run when the membership has ended.
func (m *manager) watch(member *group.Membership) {
	select {
	case <-member.Done():
		m.fail(member.Err())
	case <-m.ctx.Done():
	}
}

// end ends all tenures, and waits for them.
func (m *manager) end() {
	m.fail(nil)
	m.running.Wait()
}

// assign takes note of who is there: what is not the member's own any more is given up,
// and what is new is to be got.
func (m *manager) assign(members []string) {
	p := m.p
	own := p.o.Assign(p.o.ID, slices.Clone(members), slices.Clone(p.partitions))
	own = slices.DeleteFunc(slices.Clone(own), func(name string) bool { return p.locks[name] == nil })
	p.update(func() bool { p.members, p.own = members, own; return true })
	for name, end := range m.tenures {
		if !slices.Contains(own, name) {
			end(errReassigned)
			delete(m.tenures, name)
		}
	}
	for _, name := range own {
		if m.tenures[name] != nil {
			continue
		}
		ctx, end := context.WithCancelCause(m.ctx)
		m.tenures[name] = end
		p.update(func() bool { p.tenures++; return true })
		m.running.Go(func() {
			m.tenure(ctx, name)
			end(nil)
			p.update(func() bool { p.tenures--; return true })
		})
	}
}

// tenure has the partition, again and again if it is lost, until ctx ends.
func (m *manager) tenure(ctx context.Context, name string) {
	for ctx.Err() == nil {
		err := m.have(ctx, name)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !passing(err) {
			m.fail(err)
			return
		}
		if err := m.p.c.WaitConnected(ctx); err != nil && ctx.Err() == nil {
			m.fail(errors.Join(recipes.ErrLost, err))
			return
		}
	}
}

// passing reports whether to try again after err.
func passing(err error) bool {
	return errors.Is(err, recipes.ErrLost) || errors.Is(err, client.ErrSessionExpired) || errors.Is(err, client.ErrConnectionLoss)
}

// have gets the lock, does the work, and gives the lock up when ctx has ended or it is
// lost.
func (m *manager) have(ctx context.Context, name string) error {
	held, err := m.p.locks[name].Lock(ctx)
	if err != nil {
		return err
	}
	p := m.p
	p.update(func() bool { p.owned = append(p.owned, name); return true })
	working, stop := context.WithCancelCause(held.Context())
	release := context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
	m.work(working, &Partition{name: name, held: held})
	<-working.Done()
	release()
	stop(nil)
	err = held.Release(ctx)
	p.update(func() bool {
		i := slices.Index(p.owned, name)
		p.owned = slices.Delete(p.owned, i, i+1)
		return true
	})
	return err
}
