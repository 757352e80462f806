package presence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// manager is a Run under way. It has a tenure for each partition that is assigned to the
// member.
type manager struct {
	p       *Partitioner
	ctx     context.Context // ends with the Run
	fail    context.CancelCauseFunc
	work    func(ctx context.Context, own *Partition)
	tenures map[string]context.CancelCauseFunc // owned by the goroutine of Run
	running sync.WaitGroup
}

func (p *Partitioner) run(ctx context.Context, work func(ctx context.Context, own *Partition)) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	member, err := p.group.Join(ctx, p.o.ID, nil)
	if err != nil {
		return fmt.Errorf("partitioner: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = member.Release(ctx) // continues in the background
	}()
	m := &manager{p: p, ctx: ctx, fail: fail, work: work, tenures: map[string]context.CancelCauseFunc{}}
	m.running.Go(func() { m.watch(member) })
	defer m.running.Wait()
	defer fail(nil)
	for view, err := range p.group.Follow(ctx) {
		if err != nil {
			fail(err)
			break
		}
		var members []string
		for _, one := range view.Members {
			members = append(members, one.ID)
		}
		m.assign(slices.Compact(members)) // an ID is there twice after a restart
	}
	return context.Cause(ctx)
}

// watch ends the Run when the membership has ended.
func (m *manager) watch(member *Membership) {
	select {
	case <-member.Done():
		m.fail(member.Err())
	case <-m.ctx.Done():
	}
}

var errReassigned = errors.New("the members have changed, and the partition is another one's")

// assign ends the tenures of partitions that are no longer assigned to the member, and
// begins those of new ones.
func (m *manager) assign(members []string) {
	p := m.p
	own := p.o.Assign(p.o.ID, slices.Clone(members), slices.Clone(p.partitions))
	own = slices.Compact(slices.Sorted(slices.Values(own)))
	own = slices.DeleteFunc(own, func(name string) bool { return p.locks[name] == nil })
	begun := slices.DeleteFunc(slices.Clone(own), func(name string) bool { return m.tenures[name] != nil })
	p.update(func() { p.members, p.own, p.tenures = members, own, append(p.tenures, begun...) })
	for name, end := range m.tenures {
		if !slices.Contains(own, name) {
			end(errReassigned)
			delete(m.tenures, name)
		}
	}
	for _, name := range begun {
		ctx, end := context.WithCancelCause(m.ctx)
		m.tenures[name] = end
		m.running.Go(func() {
			m.tenure(ctx, name)
			end(nil)
			p.update(func() { p.tenures = without(p.tenures, name) })
		})
	}
}

// without returns list without one of the elements that are name.
func without(list []string, name string) []string {
	i := slices.Index(list, name)
	return slices.Delete(list, i, i+1)
}

// tenure owns the partition, again and again if it is lost, until ctx ends.
func (m *manager) tenure(ctx context.Context, name string) {
	for ctx.Err() == nil {
		err := m.own(ctx, name)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !errors.Is(err, recipes.ErrLost) && !errors.Is(err, client.ErrSessionExpired) && !errors.Is(err, client.ErrConnectionLoss) {
			m.fail(err)
			return
		}
		if err := m.p.c.WaitConnected(ctx); err != nil && ctx.Err() == nil {
			m.fail(errors.Join(recipes.ErrLost, err))
			return
		}
	}
}

// own acquires the lock, does the work, and unlocks when ctx has ended or the lock is lost.
func (m *manager) own(ctx context.Context, name string) error {
	held, err := m.p.locks[name].Lock(ctx)
	if err != nil {
		return err
	}
	p := m.p
	p.update(func() { p.owned = append(p.owned, name) })
	m.work(held.Context(), &Partition{name: name, held: held})
	<-held.Context().Done()
	err = held.Release(ctx)
	p.update(func() { p.owned = without(p.owned, name) })
	return err
}
