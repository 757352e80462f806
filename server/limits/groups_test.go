package limits

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestSubjectOf checks whose turns a client has: those of an identity that somebody has issued, or else of its address.
func TestSubjectOf(t *testing.T) {
	ip, same, other := jute.ID{Scheme: "ip", ID: "2001:db8::1"}, jute.ID{Scheme: "ip", ID: "2001:db8::2"}, jute.ID{Scheme: "ip", ID: "10.0.0.1"}
	digest, sasl := jute.ID{Scheme: "digest", ID: "any:hash"}, jute.ID{Scheme: "sasl", ID: "batch"}
	subjectOf := func(ids []jute.ID) Subject {
		s, weight := (*Weights)(nil).Of(ids)
		if weight != Even {
			t.Errorf("without rules, %v has the weight %d", ids, weight)
		}
		return s
	}
	for _, tt := range []struct {
		name string
		a, b []jute.ID
		same bool
	}{
		{"two addresses of a customer", []jute.ID{ip}, []jute.ID{same}, true},
		{"two addresses", []jute.ID{ip}, []jute.ID{other}, false},
		{"another user of digest", []jute.ID{ip, digest}, []jute.ID{ip}, true},
		{"one identity at two addresses", []jute.ID{ip, sasl}, []jute.ID{other, digest, sasl}, true},
		{"two identities at one address", []jute.ID{ip, sasl}, []jute.ID{ip, {Scheme: "sasl", ID: "web"}}, false},
		{"in memory", []jute.ID{{Scheme: "ip", ID: "pipe"}}, []jute.ID{{Scheme: "ip", ID: "pipe"}}, true},
		{"the servers themselves", nil, []jute.ID{ip}, false},
	} {
		if got := subjectOf(tt.a) == subjectOf(tt.b); got != tt.same {
			t.Errorf("%s have one subject: %v, want %v", tt.name, got, tt.same)
		}
	}
	all := []jute.ID{ip, digest}
	if n := testing.AllocsPerRun(100, func() { subjectOf(all) }); n > 0 {
		t.Errorf("a subject takes %v allocations", n)
	}
}
