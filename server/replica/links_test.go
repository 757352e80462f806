package replica

import (
	"testing"

	"github.com/zkd-project/zkd/server/zab"
)

// TestFrameOfAnEarlierLink: what comes over a link that another one has replaced is dropped: the sender has noticed
// the change, or will, and says again what is not done.
func TestFrameOfAnEarlierLink(t *testing.T) {
	const follower, service = 2, 2<<56 | 7
	for _, tt := range []struct {
		gen  uint64
		want uint64
	}{{5, 0}, {7, 0}, {6, service}} {
		r := New(zab.New(zab.Options{ID: 1}, zab.Recovered{}), 0, Options{ID: 1})
		r.status = zab.Status{Role: zab.Leading, Epoch: 3}
		r.links[follower] = 6
		if err := r.Frame(follower, tt.gen, frameFence, appendFence(beginFrame(nil, 3), service)); err != nil {
			t.Fatal(err)
		}
		if got := r.leading.services[follower]; got != tt.want {
			t.Errorf("a fence over link %d, where %d is the present one: service %#x, want %#x", tt.gen, r.links[follower], got, tt.want)
		}
	}
}

// TestFromLeader: only what the leader says over the link on which this server follows it counts.
func TestFromLeader(t *testing.T) {
	follows := zab.Status{Role: zab.Following, Leader: 2, LeaderGen: 6}
	syncs := follows
	syncs.Role = zab.SyncingFollower
	for _, tt := range []struct {
		name   string
		status zab.Status
		peer   zab.SID
		gen    uint64
		want   bool
	}{
		{"the leader", follows, 2, 6, true},
		{"another server", follows, 3, 6, false},
		{"an earlier link", follows, 2, 5, false},
		{"a later link, on which it does not follow yet", follows, 2, 7, false},
		{"before it follows", syncs, 2, 6, false},
	} {
		if got := (&Replica{status: tt.status}).fromLeader(tt.peer, tt.gen); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestLeadsIn: a leader takes the requests that were sent to it in an epoch in which it led, or is about to lead.
func TestLeadsIn(t *testing.T) {
	for _, tt := range []struct {
		role  zab.Role
		epoch uint32
		want  bool
	}{
		{zab.Leading, 3, false}, {zab.Leading, 4, true}, {zab.Leading, 5, true}, {zab.Leading, 6, true}, {zab.Leading, 7, false}, // it has renewed its epoch twice
		{zab.SyncingLeader, 5, false}, {zab.SyncingLeader, 6, true}, {zab.SyncingLeader, 7, false},
		{zab.Following, 6, false}, {zab.Looking, 6, false},
	} {
		r := Replica{status: zab.Status{Role: tt.role, Epoch: 6}}
		r.leading.since = 4
		if got := r.leadsIn(tt.epoch); got != tt.want {
			t.Errorf("role %v in epoch 6, leading since 4: requests of epoch %d: %v", tt.role, tt.epoch, got)
		}
	}
}
