package lock_test

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

const (
	// lateWrites is how many holders write late in a storm, at least.
	lateWrites = 3
	unguarded  = "/unguarded"
	guarded    = "/guarded" // has an ACL that names the lock
)

// Holders write their tokens to two znodes, of which one has an ACL that names the lock, while
// connections break, sessions end and leaders are killed. Some pause for longer than their session lasts, and
// write when another client has had the lock and written. The tokens of one znode go down with each of these
// writes, those of the other one never.
func TestStormOfPausedHolders(t *testing.T) {
	trial.Storms(t, trial.Weather{Seeds: 3, Renew: true}, func(s *trial.Storm) {
		var begun client.Zxid
		for _, path := range []string{guarded, unguarded} {
			node, err := s.Look.Create(s.Ctx, path, nil, client.CreateOptions{Stat: true})
			if err != nil {
				s.Fatal(err)
			}
			begun = node.Stat.Mzxid
		}
		if err := hold.Protect(s.Ctx, s.Look, "/l", guarded); errors.Is(err, client.ErrInvalidACL) {
			return // a server of Apache
		} else if err != nil {
			s.Fatal(err)
		}
		p := &pauses{Storm: s, changed: make(chan struct{})}
		var work sync.WaitGroup
		for i := range s.Clients() {
			work.Go(func() {
				for !p.over() {
					p.round(i)
				}
			})
		}
		work.Wait()
		p.judge(begun)
	})
}

// pauses is a storm in which one holder at a time pauses.
type pauses struct {
	*trial.Storm
	one  sync.Mutex   // of the one that pauses
	late atomic.Int64 // writes to unguarded after a pause

	mu      sync.Mutex
	top     client.Zxid   // the highest token that was written to unguarded
	changed chan struct{} // closed when top is another one
}

func (p *pauses) over() bool {
	return p.Ctx.Err() != nil || p.Over() && p.late.Load() >= lateWrites
}

// round acquires the lock, writes to both znodes, possibly after a pause, and releases.
func (p *pauses) round(i int) {
	c := p.Client(i)
	held, err := mutex(p, c, lock.Options{}).Lock(p.Ctx)
	if err != nil {
		p.explained("lock", err, recipes.ErrLost)
		return
	}
	pause := p.one.TryLock()
	if pause {
		defer p.one.Unlock()
		p.Expire(i)
		<-held.Context().Done()
	}
	if !pause || p.awaitLater(held.Token()) {
		p.write(c, unguarded, held.Token())
		p.wrote(held.Token())
		if pause {
			p.late.Add(1)
		}
		p.write(c, guarded, held.Token())
	}
	p.explained("release", held.Release(p.Ctx), recipes.ErrLost)
}

// write writes a token. The session may be another one than that which holds the lock.
func (p *pauses) write(c *client.Client, path string, token client.Zxid) {
	for p.Ctx.Err() == nil {
		_, err := c.Set(p.Ctx, path, []byte(strconv.FormatInt(int64(token), 10)), client.AnyVersion)
		if err == nil || path == guarded && errors.Is(err, client.ErrNoAuth) {
			return
		}
		p.explained("write to "+path, err)
	}
}

func (p *pauses) explained(what string, err error, expected ...error) {
	if p.Ctx.Err() == nil {
		p.Explain(what, err, expected...)
	}
}

func (p *pauses) wrote(token client.Zxid) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if token > p.top {
		p.top = token
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// awaitLater waits until a holder with a later token has written. It returns false if enough has happened.
func (p *pauses) awaitLater(token client.Zxid) bool {
	var enough <-chan struct{} // until then, the others continue
	if p.late.Load() >= lateWrites {
		enough = p.Calm
	}
	for {
		p.mu.Lock()
		top, changed := p.top, p.changed
		p.mu.Unlock()
		if top > token {
			return true
		}
		select {
		case <-changed:
		case <-enough:
			return false
		case <-p.Ctx.Done():
			return false
		}
	}
}

// judge looks at all that was written after a zxid.
func (p *pauses) judge(after client.Zxid) {
	if _, err := p.Look.Set(p.Ctx, unguarded, nil, client.AnyVersion); err != nil { // ends the feed
		p.Fatal(err)
	}
	writes, stale, top := map[string]int{}, map[string]int{}, map[string]client.Zxid{}
	for change, err := range p.Look.Feed(p.Ctx, "/", client.FeedOptions{After: after, Data: true, Kinds: []client.ChangeKind{client.ChangeData}}) {
		if err != nil {
			p.Fatal(err)
		}
		if change.Path != guarded && change.Path != unguarded {
			continue
		}
		if len(change.Data) == 0 {
			break
		}
		n, err := strconv.ParseInt(string(change.Data), 10, 64)
		if err != nil {
			p.Fatal(err)
		}
		token := client.Zxid(n)
		writes[change.Path]++
		if token < top[change.Path] {
			stale[change.Path]++
		}
		top[change.Path] = max(top[change.Path], token)
	}
	p.Logf("writes %v, of these late %v", writes, stale)
	if late := int(p.late.Load()); late < lateWrites || stale[unguarded] < late {
		p.Errorf("%d holders have written late, and %d late writes are there", late, stale[unguarded])
	}
	if stale[guarded] != 0 || writes[guarded] == 0 {
		p.Errorf("of %d writes to the guarded znode %d are late", writes[guarded], stale[guarded])
	}
}
