package limits

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
)

func TestWeights(t *testing.T) {
	var rules []Rule
	for _, text := range []string{
		"identity * weight=200", "identity sasl:batch weight=10", `identity "x509:CN=a b,O=c" requests/s=5 weight=20`,
		"address * weight=50", "address 10.1.0.0/16 weight=30", "address 10.1.2.3 weight=400", "address 2001:db8::/32 weight=7", "subtree /a requests/s=1",
	} {
		r, err := ParseRule("r", text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	w := NewWeights(rules)
	ip := func(s string) []jute.ID { return []jute.ID{{Scheme: "ip", ID: s}} }
	as := func(scheme, id string) []jute.ID { return append(ip("10.1.2.3"), jute.ID{Scheme: scheme, ID: id}) }
	for _, tt := range []struct {
		name   string
		ids    []jute.ID
		weight int
	}{
		{"a named identity", as("sasl", "batch"), 10},
		{"one with spaces", as("x509", "CN=a b,O=c"), 20},
		{"any other identity", as("sasl", "web"), 200},
		{"a user of digest has turns by its address", as("digest", "batch:hash"), 400},
		{"an address in a block", ip("10.1.9.9"), 30},
		{"an address with a rule, in a block", ip("10.1.2.3"), 400},
		{"an address of a block of version 6", ip("2001:db8:1::5"), 7},
		{"any other address", ip("10.2.0.1"), 50},
		{"no address", ip("pipe"), 50},
		{"the servers themselves", nil, Even},
	} {
		if _, weight := w.Of(tt.ids); weight != tt.weight {
			t.Errorf("%s has the weight %d, want %d", tt.name, weight, tt.weight)
		}
	}
	a, _ := w.Of(ip("10.1.9.9"))
	b, _ := w.Of(ip("10.1.0.1"))
	c, _ := w.Of(ip("10.1.2.3"))
	if a != b || a == c {
		t.Error("the addresses of a block have their turns together, without one that has a rule by itself")
	}
	if NewWeights(rules[len(rules)-1:]) != nil {
		t.Error("rules without a weight make weights")
	}
	all := as("sasl", "batch")
	if n := testing.AllocsPerRun(100, func() { w.Of(all) }); n > 0 {
		t.Errorf("a weight takes %v allocations", n)
	}
}
