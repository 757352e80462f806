package audit

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestAuthors puts more entries than Authors has room for. The last transactions stay, each once, whose authors have names but for their addresses.
func TestAuthors(t *testing.T) {
	var a Authors
	for zxid := jute.Zxid(1); zxid <= authored+10; zxid++ {
		for range 2 { // as of a multi
			a.put(&Entry{Zxid: zxid, IP: "10.0.0.7", IDs: []jute.ID{{Scheme: "ip", ID: "10.0.0.7"}, {Scheme: "digest", ID: "bob:hash"}, {Scheme: "sasl", ID: "bob"}}})
		}
	}
	a.put(&Entry{IP: "10.0.0.8"}) // no transaction
	a.put(&Entry{Zxid: 5000, User: "zkd"})
	got := a.ByZxid()
	if len(got) != authored || got[5000] != (Author{User: "zkd"}) || got[authored+10] != (Author{"digest:bob, sasl:bob", "10.0.0.7"}) {
		t.Errorf("%d authors, of the last two %v and %v", len(got), got[authored+10], got[5000])
	}
	if by, ok := got[11]; ok {
		t.Errorf("the transaction that was forgotten has the author %v", by)
	}
}
