package limits

import (
	"strings"
	"testing"
)

func TestParseRule(t *testing.T) {
	for _, test := range []struct{ text, want, err string }{
		{"identity * requests/s=1000,2000 watches=500", "identity * watches=500 requests/s=1000,2000", ""},
		{"identity sasl:kafka bytes/s=5,", "identity sasl:kafka bytes/s=5,", ""},
		{"identity sasl:kafka bytes/s=,5", "identity sasl:kafka bytes/s=5", ""},
		{`identity "x509:CN=a b,O=c" sessions=1`, `identity "x509:CN=a b,O=c" sessions=1`, ""},
		{`identity "x509:CN=a\"b" sessions=1`, `identity "x509:CN=a\"b" sessions=1`, ""},
		{"address 10.1.2.3/8 connections=100", "address 10.0.0.0/8 connections=100", ""},
		{"address ::ffff:10.1.2.3 connections=100", "address 10.1.2.3 connections=100", ""},
		{"address fe80::1%eth0 connections=100", "address fe80::1 connections=100", ""},
		{"address * connections/s=5,10 connections=7", "address * connections=7 connections/s=5,10", ""},
		{"subtree /jobs requests/s=1", "subtree /jobs requests/s=1", ""},
		{"subtree /jobs/* requests/s=1", "subtree /jobs/* requests/s=1", ""},
		{"subtree / requests/s=1", "subtree / requests/s=1", ""},
		{"subtree /* requests/s=1", "subtree /* requests/s=1", ""},
		{"identity sasl:kafka weight=5 bytes/s=5", "identity sasl:kafka bytes/s=5 weight=5", ""},
		{"address * weight=10000", "address * weight=10000", ""},
		{"address * weight=10001", "", "no weight"},
		{"address * weight=0", "", "no weight"},
		{"address * weight=1,2", "", "no weight"},
		{"address * weight", "", "no weight"},
		{"address * weight=1 weight=2", "", "given twice"},
		{"identity digest:bob weight=5", "", "by their addresses"},
		{"subtree /jobs weight=5", "", "a subtree has no weight"},
		{"", "", "want a subject"},
		{"identity *", "", "want a subject"},
		{`identity "x509:CN=a sessions=1`, "", "want a subject"},
		{"group * watches=1", "", "no scope"},
		{"identity bob watches=1", "", "no identity"},
		{"identity digest: watches=1", "", "no identity"},
		{"address bob watches=1", "", "no address"},
		{"address 10.0.0.0/33 watches=1", "", "no address"},
		{"subtree jobs requests/s=1", "", "no subtree"},
		{"subtree * requests/s=1", "", "no subtree"},
		{"subtree /jobs/ requests/s=1", "", "no subtree"},
		{"subtree /*/a requests/s=1", "", "no subtree"},
		{"subtree /jobs ephemerals=1", "", "not limited by subtree"},
		{"subtree /jobs connections/s=1", "", "by address only"},
		{"identity * connections/s=1", "", "by address only"},
		{"identity * requests=1", "", "unknown resource"},
		{"identity * watches", "", "has no value"},
		{"identity * watches=,", "", "no limit"},
		{"identity * watches=-1", "", "no limit"},
		{"identity * watches=1,2,3", "", "no limit"},
		{"identity * watches=9999999999999", "", "no limit"},
		{"identity * watches=2,1", "", "above the hard one"},
		{"identity * watches=1 watches=1", "", "given twice"},
	} {
		r, err := ParseRule("name", test.text)
		switch {
		case test.err == "" && (err != nil || r.String() != test.want):
			t.Errorf("ParseRule(%q) = %q, %v; want %q", test.text, r, err, test.want)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("ParseRule(%q) = %v; want an error with %q", test.text, err, test.err)
		}
	}
	for _, name := range []string{"", "a.b", "a b", "ä", Followed, strings.Repeat("a", 65)} {
		if _, err := ParseRule(name, "identity * watches=1"); err == nil {
			t.Errorf("the name %q is accepted", name)
		}
	}
}

func TestConflict(t *testing.T) {
	for _, test := range []struct {
		rules []string
		want  string
	}{
		{[]string{"identity * watches=1", "identity * sessions=1", "address * watches=1", "identity a:b watches=1"}, ""},
		{[]string{"identity * watches=1", "identity * sessions=1 watches=2"}, "rules a and b both limit the watches of identity *"},
		{[]string{"address * watches=1", "address * weight=5"}, ""},
		{[]string{"address * watches=1 weight=5", "address * weight=5"}, "the weight of address *"},
		{[]string{"address 10.0.0.1/8 watches=1", "address 10.0.0.0/8 watches=2"}, "rules a and b"},
	} {
		var rules []Rule
		for i, text := range test.rules {
			rules = append(rules, rule1(t, string(rune('a'+i)), text))
		}
		err := Conflict(rules)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("Conflict(%q) = %v, want %q", test.rules, err, test.want)
		}
	}
}

func rule1(t *testing.T, name, text string) Rule {
	t.Helper()
	r, err := ParseRule(name, text)
	if err != nil {
		t.Fatalf("rule %s: %v", name, err)
	}
	return r
}

// FuzzParseRule checks that what is parsed is printed so that it is parsed again.
func FuzzParseRule(f *testing.F) {
	f.Add("identity * requests/s=1000,2000 watches=500")
	f.Add(`identity "x509:CN=a b" sessions=1,`)
	f.Add("address 10.0.0.0/8 connections=,7")
	f.Add("address fe80::1%eth0 connections=7")
	f.Add("subtree /a/* bytes/s=1")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule("name", text)
		if err != nil {
			return
		}
		again, err := ParseRule("name", r.String())
		if err != nil || again != r {
			t.Errorf("%q is parsed as %q, and that as %q, %v", text, r, again, err)
		}
		New([]Rule{r}, nil)
	})
}
