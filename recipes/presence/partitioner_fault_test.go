package presence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/presence"
)

// Whatever breaks for a member, while another one is there: both have their share in the
// end, and nothing is left.
func TestPartitionerEveryFault(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		b := run(w, w.Look, "b", idle)
		b.acquired(w, 1)
		a := run(w, w.C, "a", idle)
		a.acquired(w, 2)
		b.acquired(w, 2)
		mustBe(w, b.stop(), context.Canceled)
		a.acquired(w, 1)
		mustBe(w, a.stop(), context.Canceled)
		w.AwaitChildren("/p/party", 0)
		for _, q := range four {
			w.AwaitChildren("/p/locks/"+q, 0)
		}
	})
}

// books has a node for each partition, in which the owners count. A count that somebody
// else has changed means that there were two owners.
type books struct {
	s *trial.Storm
	c *client.Client
}

func (b *books) work(ctx context.Context, own *presence.Partition) {
	path := "/books/" + own.Name()
	for ctx.Err() == nil {
		node, err := b.c.Steady().Get(ctx, path)
		stat := node.Stat
		for err == nil && ctx.Err() == nil {
			stat, err = b.count(ctx, own, path, stat.Version)
		}
		if errors.Is(err, client.ErrBadVersion) && !client.IsAmbiguous(err) {
			b.s.Errorf("two own %s: %v", own.Name(), err)
		}
	}
}

// count makes one entry, if the partition is still owned.
func (b *books) count(ctx context.Context, own *presence.Partition, path string, version int32) (client.Stat, error) {
	entry := []byte(strconv.FormatInt(int64(own.Token()), 10))
	done, err := b.c.WithRetry(nil).Multi(ctx, own.Guard(client.SetOp(path, entry, version))...)
	if err != nil {
		return client.Stat{}, err
	}
	return done[len(done)-1].Stat, nil
}

// Members come and go in storms. No two ever own one partition; tokens never go back;
// when it is calm each partition has an owner, and they are even.
func TestPartitionerStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{Renew: true}, func(s *trial.Storm) {
		all := []string{"0", "1", "2", "3", "4", "5"}
		for _, name := range all {
			if err := settle.Ensure(s.Ctx, s.Look, "/books/"+name, client.CreateOptions{}); err != nil {
				s.Fatal(err)
			}
		}
		ctx, end := context.WithCancel(s.Ctx)
		defer end()
		var running, audit sync.WaitGroup
		for _, name := range all {
			audit.Go(func() { tokens(ctx, s, "/books/"+name) })
		}
		var members []*presence.Partitioner
		for i := range s.Clients() {
			p, err := presence.NewPartitioner(s.Client(i), "/p", all, presence.PartitionerOptions{ID: fmt.Sprint("m", i)})
			if err != nil {
				s.Fatal(err)
			}
			members = append(members, p)
			running.Go(func() { comeAndGo(ctx, s, p, &books{s, s.Client(i)}) })
		}
		var owned []string
		for _, p := range members {
			owned = append(owned, settled(s, p, len(all))...)
		}
		if slices.Sort(owned); !slices.Equal(owned, all) {
			s.Errorf("partitions that have an owner are %q", owned)
		}
		end()
		running.Wait()
		audit.Wait()
	})
}

// comeAndGo runs a member, and stops it when it has settled, until it is calm.
func comeAndGo(ctx context.Context, s *trial.Storm, p *presence.Partitioner, b *books) {
	for ctx.Err() == nil {
		once, leave := context.WithCancel(ctx)
		var leaving sync.WaitGroup
		leaving.Go(func() {
			for state, err := range p.Follow(once) {
				if err == nil && state.Phase == presence.Acquired && !s.Over() {
					leave()
				}
			}
		})
		err := p.Run(once, b.work)
		if !errors.Is(err, context.Canceled) {
			s.Errorf("run: %v", err)
		}
		leave()
		leaving.Wait()
	}
}

// settled waits until it is calm and the member has its share among all.
func settled(s *trial.Storm, p *presence.Partitioner, partitions int) []string {
	<-s.Calm
	for state, err := range p.Follow(s.Ctx) {
		if err != nil {
			s.Errorf("%s is %+v: %v", p.ID(), state, err)
			break
		}
		if state.Phase != presence.Acquired || len(state.Members) != s.Clients() {
			continue
		}
		if n, even := len(state.Owned), partitions/s.Clients(); n != even && n != even+1 {
			s.Errorf("%s has %q of %d", p.ID(), state.Owned, partitions)
		}
		return state.Owned
	}
	return nil
}

// tokens checks that those of the entries don't go back.
func tokens(ctx context.Context, s *trial.Storm, path string) {
	last := 0
	for v, err := range typed.New[int](s.Look, path, nil).Follow(ctx) {
		if errors.Is(err, typed.ErrData) {
			continue // nobody has made an entry yet
		}
		if err != nil {
			return
		}
		if v.Value < last {
			s.Errorf("%s has the token %d after %d", path, v.Value, last)
		}
		last = v.Value
	}
}
