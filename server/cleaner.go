package server

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/state"
)

// cleaner proposes, while its server leads, what the servers do by themselves: to remove containers and TTL
// nodes that are due, and to count quotas again.
type cleaner struct {
	log         *zap.Logger
	live        func() *config.Config
	clock       *base.Clock
	leads       func() bool
	stopping    <-chan struct{}
	reloaded    <-chan struct{} // has a token when the live configuration has changed
	state       *state.State
	submissions *base.Queue[replica.Submission]
}

// run removes containers and TTL nodes that are due, and has quotas counted. It has a separate goroutine
// because it takes long.
func (c *cleaner) run() {
	check := base.NewPulse()
	defer check.Stop()
	for {
		check.Every(c.live().ContainerCheckInterval)
		select {
		case <-check.C:
			c.recountQuotas()
			if !c.removeExpired() {
				return
			}
		case <-c.reloaded:
		case <-c.stopping:
			return
		}
	}
}

// expireSlice is the number of containers and TTL nodes examined under one hold of the
// tree's lock.
const expireSlice = 1024

// removeExpired proposes to remove empty containers and TTL nodes that are due, no faster
// than znode.container.maxPerMinute. The leader does it. It reports whether the server is still running.
func (c *cleaner) removeExpired() bool {
	pace := time.NewTicker(max(time.Minute/time.Duration(max(c.live().ContainerMaxPerMinute, 1)), time.Microsecond))
	defer pace.Stop()
	var cursor datatree.ExpiryCursor
	var due []evaluate.Removal
	for more := true; more && c.leads(); {
		due, more = c.dueForRemoval(&cursor, due[:0])
		for _, r := range due {
			for wait := true; wait; wait = c.submissions.Len() >= expireSlice { // the leader is busy
				select {
				case <-pace.C:
				case <-c.stopping:
					return false
				}
			}
			c.submissions.Put(replica.Submission{
				Received: c.clock.Now(),
				Request:  evaluate.Request{Op: jute.OpDeleteContainer, Removal: r},
			})
		}
	}
	return true
}

// dueForRemoval appends the candidates among the next nodes that may expire. The leader's
// evaluator checks them again, so a node that is used meanwhile stays.
func (c *cleaner) dueForRemoval(cursor *datatree.ExpiryCursor, due []evaluate.Removal) (_ []evaluate.Removal, more bool) {
	c.state.RLock()
	defer c.state.RUnlock()
	more = c.state.Tree.Expirable(cursor, expireSlice, c.clock.Cautious().UnixMilli(), c.live().ContainerMaxNeverUsed.Milliseconds(),
		func(path string, n datatree.Node) {
			due = append(due, evaluate.Removal{Path: path, Cversion: n.Cversion, Mtime: n.Mtime})
		})
	return due, more
}

// recountQuotas has the usage of quotas counted again that is not that of their subtrees. The leader does it.
func (c *cleaner) recountQuotas() {
	if !c.leads() {
		return
	}
	c.state.RLock()
	drifting := slices.Sorted(c.state.Tree.Drifting())
	c.state.RUnlock()
	for _, path := range drifting[:min(len(drifting), maxRecounts)] {
		c.log.Info("the usage of a quota is counted again", zap.String("path", path))
		c.submissions.Put(replica.Submission{
			Received: c.clock.Now(),
			Request:  evaluate.Request{Op: jute.OpDeleteContainer, Recount: path},
		})
	}
}

// maxRecounts is how many quotas are counted at a time: there may be many quotas in quotas.
const maxRecounts = 100
