package zab

import "testing"

// TestMessageOverAnEarlierLink: a message that comes over a link which another one has replaced changes nothing. It may
// have waited in the process when the link was replaced.
func TestMessageOverAnEarlierLink(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	l := n.leader()
	from := SID(l.id%3 + 1)
	p, epoch := l.core.peer(from), l.core.Status().Epoch
	l.core.ping(noLease)
	echo := l.core.lead.pingSeq - 1
	p.echo = echo
	for _, tt := range []struct {
		name string
		gen  uint64
		want bool
	}{{"an earlier link", p.gen - 1, false}, {"a later link", p.gen + 1, false}, {"the present link", p.gen, true}} {
		l.core.Recv(from, tt.gen, &Message{Kind: MsgPong, Epoch: epoch, Echo: echo + 1, Seq: p.pongSeq + 1})
		if got := p.echo > echo; got != tt.want {
			t.Errorf("%s: an answer to a heartbeat counts: %v", tt.name, got)
		}
	}
}

// TestEchoes: an answer to a heartbeat that the leader has not sent does not count. An echo says that the leader hears this
// server only if it is new, and gives no lease later than the last answer.
func TestEchoes(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	n.run(100)
	l := n.leader()
	f := n.server(l.id%3 + 1)
	epoch := l.core.Status().Epoch

	p, sent := l.core.peer(f.id), l.core.lead.pingSeq
	before := p.pongSeq
	l.core.Recv(f.id, p.gen, &Message{Kind: MsgPong, Epoch: epoch, Echo: sent + 1, Seq: before + 1})
	if p.echo > sent || p.pongSeq != before {
		t.Errorf("an answer to heartbeat %d counts, and %d was the last", p.echo, sent)
	}
	l.core.Recv(f.id, p.gen, &Message{Kind: MsgPong, Epoch: epoch, Echo: sent, Seq: before + 1})
	if p.echo != sent || p.pongSeq != before+1 {
		t.Errorf("the answer to the last heartbeat, %d, does not count: %d", sent, p.echo)
	}

	following := &f.core.following
	gen := f.core.peer(l.id).gen
	ping := func(echo uint64) {
		f.core.Recv(l.id, gen, &Message{Kind: MsgPing, Epoch: epoch, Seq: l.core.lead.pingSeq, Echo: echo, Ms: 100})
	}
	echoed := following.echoedSeq
	following.echoedAt, f.core.lease = 1, 0
	if ping(echoed); following.echoedAt != 1 {
		t.Error("the same echo once more: the leader seems to hear this server still")
	}
	if most := stampTime(following.pongSeq) + 100; f.core.lease == 0 || f.core.lease > most {
		t.Errorf("a lease to %d, and %d is the latest", f.core.lease, most)
	}
	f.core.lease = 0
	last := following.pongSeq
	ping(last + 1<<40)
	if following.echoedSeq != last || following.echoedAt != f.core.now {
		t.Errorf("echo %d, and %d was the last answer", following.echoedSeq, last)
	}
	if most := stampTime(last) + 100; f.core.lease > most {
		t.Errorf("a lease to %d by an echo of what was not sent yet; %d is the latest", f.core.lease, most)
	}
}
