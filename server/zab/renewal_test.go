package zab

import (
	"slices"
	"strings"
	"testing"
)

// TestCounterRunsOut: near the end of its counters a leader renews its epoch in place,
// without losing its role or its followers. At the end it stops proposing so that the
// counter does not overflow into the epoch (ZOOKEEPER-1277).
func TestCounterRunsOut(t *testing.T) {
	n := newNetwork(t, 1, 3, 1)
	n.tune = func(o *Options) { o.InitialCounter = lastCounter - 2 }
	n.serve()
	l := n.leader()
	if !l.propose("a") || !l.propose("b") {
		t.Fatal("refuses to propose")
	}
	if l.propose("c") {
		t.Errorf("proposes %v", l.core.LastZxid())
	}
	for range 200 {
		n.step()
		for _, s := range n.servers {
			if s.role() != Leading && s.role() != Following {
				t.Fatalf("the renewal costs a role:\n%s", n.dump())
			}
		}
	}
	n.until(1000, "the epoch is renewed", func() bool { return n.leader().core.Status().Epoch > 1 && n.settledDown() && n.converged() })
	if n.leader() != l || l.core.Status().Epoch != 2 {
		t.Error(n.dump())
	}
}

// TestStuckDisk: a leader whose disk hangs hands over.
func TestStuckDisk(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	n.run(500)
	l := n.leader()
	l.core.DiskHealth(2500, false)
	l.take()
	l.core.DiskHealth(0, false)
	n.until(100, "another leads", func() bool { return n.leader() != nil && n.leader() != l })
}

// TestStoppedLeader: a leader whose process was stopped for less than an election proposes
// again only after a quorum has confirmed it.
func TestStoppedLeader(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	n.run(500)
	l := n.leader()
	l.frozen = true
	n.run(600)
	l.frozen = false
	n.until(20, "it notices", func() bool { return l.core.lead.unconfirmed != 0 })
	if l.propose("a") {
		t.Error("proposes although it may have been replaced")
	}
	n.until(100, "it is confirmed", func() bool { return l.propose("b") })
	if l.core.Status().Epoch != 1 {
		t.Error(n.dump())
	}
}

// TestFullDisk: a leader with a full disk hands over to a server with free space, and stays
// if there is none.
func TestFullDisk(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	n.run(500)
	l := n.leader()
	full := func(on ...*server) {
		for _, s := range on {
			s.core.DiskHealth(0, true)
			s.take()
		}
	}
	var others []*server
	for _, s := range n.servers {
		if s != l {
			others = append(others, s)
		}
	}
	full(others...)
	n.run(300) // the leader hears of it
	full(l)
	n.run(300)
	if n.leader() != l {
		t.Error("a leader handed over to a server that has no more room than itself")
	}
	others[0].core.DiskHealth(0, false)
	n.run(300)
	full(l)
	n.until(200, "the one that has room leads", func() bool { return n.leader() == others[0] })
}

// TestFollowSentTwice: a FOLLOW that arrives twice, late, changes nothing. The learner has
// the answer already and would not obey another one: a leader that began to send it a
// snapshot would wait for it indefinitely (simulator, seed 102068).
func TestFollowSentTwice(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	l := n.leader()
	f := n.servers[0]
	if f == l {
		f = n.servers[1]
	}
	p := l.core.peer(f.core.opt.ID)
	m := f.core.summarize(MsgFollow)
	var out Output
	for i, want := range []string{"APPEND SYNC", "SYNC"} {
		again := m
		l.propose("x")
		next := p.next
		l.core.Recv(p.id, p.gen, &again)
		if i == 1 && p.next != next {
			t.Errorf("the stream began again: at %v, not %v", p.next, next)
		}
		l.core.Take(&out)
		var got []string
		for i := range out.Send {
			if m := &out.Send[i].Msg; out.Send[i].To == p.id && (m.Kind == MsgSync || m.Kind == MsgAppend) {
				got = append(got, m.Kind.String())
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("time %d: sends %v, want %s", i+1, got, want)
		}
	}
}
