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
