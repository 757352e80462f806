package clients

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/show"
)

func TestClientsOfConnections(t *testing.T) {
	s, _ := newTestClients(t)
	c := newTestConn(t, s)
	c.identity.credentials.Store(auth.NewCredentials(jute.ID{Scheme: "ip", ID: "10.0.0.1"}, jute.ID{Scheme: "digest", ID: "ann:hash"}))
	establish(t, c, 7)
	c.stats, c.out.taken = connStats{received: 3, sent: 4, bytesIn: 50}, 60
	s.register.Add(&c.line.Line, c.identity.ip(), register.Direct, register.Most{})
	want := show.ClientUse{Address: "10.0.0.1", Session: 7, Identity: "digest:ann", Connections: 1, Requests: 3, Replies: 4, BytesIn: 50, BytesOut: 60}
	if got := s.Facts(0).Clients(); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := s.Facts(c.line.Origin()).Clients(); len(got) != 0 {
		t.Errorf("the asking connection is shown: %+v", got)
	}
	c.forget()
	want.Session = 0
	if got := s.Facts(0).Clients(); len(got) != 1 || got[0] != want {
		t.Errorf("after its end: got %+v, want %+v", got, want)
	}
}

// However many addresses come and go, the rows are bounded, nothing is lost, and the largest
// keep theirs.
func TestEndedClientsAreBounded(t *testing.T) {
	var e endedUses
	const clients = 3 * maxEndedUses
	e.add(&show.ClientUse{Address: "idle", Connections: 1}) // has sent nothing
	for i := range clients {
		requests := int64(1)
		if i%100 == 0 {
			requests = 1000
		}
		e.add(&show.ClientUse{Address: fmt.Sprint(i), Connections: 1, Requests: requests})
	}
	if n := len(e.rows); n > maxEndedUses {
		t.Errorf("%d rows, want at most %d", n, maxEndedUses)
	}
	sum := show.ClientUse{}
	for _, row := range e.rows {
		sum.Add(row)
	}
	if sum.Connections != clients || sum.Requests != clients+8*999 {
		t.Errorf("%d connections with %d requests in all, want %d with %d", sum.Connections, sum.Requests, clients, clients+8*999)
	}
	for i := 0; i < clients; i += 100 {
		if row := e.rows[endedBy{address: fmt.Sprint(i)}]; row == nil || row.Requests != 1000 {
			t.Errorf("client %d, one of the largest, has no row", i)
		}
	}
}
