package auth_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
)

// named is a scheme whose identities are proved by their names.
type named struct{ scheme string }

func (n named) Scheme() string           { return n.scheme }
func (named) Personal() bool             { return true }
func (named) Valid(expr string) bool     { return expr != "invalid" }
func (named) Match(id, expr string) bool { return id == expr }
func (n named) ProvePacket(b []byte) (auth.Proof, error) {
	name, _, ends := strings.Cut(string(b), "@10")
	p := auth.Proof{IDs: []jute.ID{{Scheme: n.scheme, ID: name}}}
	if ends {
		p.Until = 10
	}
	return p, nil
}

// edgeRules parses rules, each the words of one.
func edgeRules(t testing.TB, list ...string) (rules []auth.EdgeRule) {
	t.Helper()
	for _, text := range list {
		words := strings.Split(text, " ")
		r, err := auth.NewEdgeRule(words[0], words[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

func edgeSchemes(t testing.TB, rules ...string) *auth.Schemes {
	return newSchemes(t, func(c *auth.Config) {
		c.Providers = []auth.Provider{named{"sasl"}, named{"x509"}}
		c.Edges = edgeRules(t, rules...)
		c.Supers = []string{"sasl:root", "digest:" + superSecret}
	})
}

// whoIs returns the identities after some auth packets, and the edge, or the refusal.
func whoIs(s *auth.Schemes, packets ...string) string {
	c := auth.NewCredentials(id("ip:1.1.1.1"))
	for i, p := range packets {
		scheme, data, _ := strings.Cut(p, " ")
		var err error
		if c, err = s.Authenticate(scheme, []byte(data), c); err != nil {
			if !errors.Is(err, jute.ErrAuthFailed) {
				return err.Error()
			}
			return fmt.Sprint("refused ", i)
		}
	}
	return said(c)
}

func said(c *auth.Credentials) string {
	var list []string
	for _, id := range c.IDs() {
		list = append(list, auth.Name(id))
	}
	text := strings.Join(list, " ")
	if edge := c.Edge(); edge != (jute.ID{}) {
		text += " by " + auth.Name(edge)
	}
	return text
}

var edgeCases = []struct {
	packets []string
	want    string
}{
	{[]string{"sasl edge-7", "edge sasl:ann"}, "ip:1.1.1.1 sasl:ann by sasl:edge-7"},
	{[]string{"sasl edge-7", "edge sasl:web-1"}, "ip:1.1.1.1 sasl:web-1 by sasl:edge-7"},
	{[]string{"sasl edge-7", "edge "}, "ip:1.1.1.1 by sasl:edge-7"},
	{[]string{"sasl edge-7", "edge x509:CN=web 1,O=Acme"}, "refused 1"},
	{[]string{"x509 CN=host-9,O=Acme", "edge x509:CN=app-1,O=Acme"}, "ip:1.1.1.1 x509:CN=app-1,O=Acme by x509:CN=host-9,O=Acme"},
	{[]string{"x509 CN=host-9,O=Acme", "edge x509:CN=app-1,OU=admin,O=Acme"}, "refused 1"},
	{[]string{"x509 CN=host-9,OU=guests,O=Acme", "edge "}, "refused 1"},
	{[]string{"sasl edge-7", "edge digest:" + bobPW}, "ip:1.1.1.1 digest:bob by sasl:edge-7"},
	// an edge without a rule, or one that has not proved the identity of its rule
	{[]string{"edge sasl:ann"}, "refused 0"},
	{[]string{"edge "}, "refused 0"},
	{[]string{"sasl ann", "edge sasl:web-1"}, "refused 1"},
	{[]string{"sasl ann", "edge "}, "refused 1"},
	{[]string{"x509 edge-7", "edge sasl:ann"}, "refused 1"},
	// for whom nobody may speak
	{[]string{"sasl edge-7", "edge sasl:bob"}, "refused 1"},
	{[]string{"sasl edge-7", "edge sasl:edge-7"}, "refused 1"},
	{[]string{"sasl admin-1", "edge sasl:root"}, "refused 1"},
	{[]string{"sasl admin-1", "edge sasl:any"}, "ip:1.1.1.1 sasl:any by sasl:admin-1"},
	{[]string{"sasl admin-1", "edge sasl:invalid"}, "refused 1"},
	{[]string{"sasl admin-1", "edge digest:" + superSecret}, "refused 1"},
	{[]string{"sasl admin-1", "edge super:"}, "refused 1"},
	{[]string{"sasl admin-1", "edge ip:10.0.0.1"}, "refused 1"},
	{[]string{"sasl admin-1", "edge world:anyone"}, "refused 1"},
	{[]string{"sasl admin-1", "edge jwt:ann"}, "refused 1"},
	{[]string{"sasl admin-1", "edge sasl"}, "refused 1"},
	{[]string{"sasl admin-1", "edge sasl:"}, "refused 1"},
	// once, and not by who was spoken for
	{[]string{"sasl edge-7", "edge sasl:ann", "edge sasl:ann"}, "refused 2"},
	{[]string{"sasl edge-7", "edge ", "edge sasl:ann"}, "refused 2"},
	{[]string{"sasl edge-7", "edge sasl:web-1", "sasl edge-7", "edge sasl:ann"}, "refused 3"},
	// what the edge had is gone, and what the client proves by itself is added
	{[]string{"digest super:secret", "sasl edge-7", "edge sasl:ann"}, "ip:1.1.1.1 sasl:ann by sasl:edge-7"},
	{[]string{"sasl edge-7", "edge sasl:ann", "digest bob:pw"}, "ip:1.1.1.1 sasl:ann digest:bob by sasl:edge-7"},
	{[]string{"sasl edge-7", "edge ", "digest super:secret"}, "ip:1.1.1.1 super: digest:super by sasl:edge-7"},
	// until the edge's identity ends
	{[]string{"sasl edge-7@10", "edge sasl:ann"}, "ip:1.1.1.1 sasl:ann by sasl:edge-7"},
}

func edgeCase(t testing.TB) *auth.Schemes {
	return edgeSchemes(t, "sasl:edge-* sasl:ann sasl:web-* digest:"+bobPW, "x509:CN=host-*,O=Acme x509:CN=*,O=Acme", "sasl:admin-1 sasl:* digest:"+superSecret)
}

// wrongEdges returns what is wrong with the rules of edges.
func wrongEdges(t testing.TB) (wrong []string) {
	s := edgeCase(t)
	for _, tc := range edgeCases {
		if got := whoIs(s, tc.packets...); got != tc.want {
			wrong = append(wrong, fmt.Sprintf("%q: %s, want %s", tc.packets, got, tc.want))
		}
	}
	have, err := s.Authenticate("sasl", []byte("edge-7@10"), auth.NewCredentials(id("ip:1.1.1.1")))
	if err == nil {
		have, err = s.Authenticate("edge", []byte("sasl:ann"), have)
	}
	if err != nil {
		return append(wrong, err.Error())
	}
	for at, want := range map[int64]string{9: "ip:1.1.1.1 sasl:ann by sasl:edge-7", 10: "ip:1.1.1.1 by sasl:edge-7"} {
		if got := said(have.At(at)); got != want {
			wrong = append(wrong, fmt.Sprintf("at %d: %s, want %s", at, got, want))
		}
	}
	own := auth.NewCredentials(ids("ip:1.1.1.1", "sasl:edge-7")...)
	for _, step := range []struct {
		rules []string
		still bool
	}{{[]string{"sasl:edge-7 sasl:ann"}, true}, {[]string{"sasl:edge-7 sasl:bob"}, false}, {[]string{"sasl:edge-8 sasl:ann"}, false}, {nil, false}} {
		s.SetEdges(edgeRules(t, step.rules...))
		if got := s.StillSpeaks(have); got != step.still || !s.StillSpeaks(own) {
			wrong = append(wrong, fmt.Sprintf("with the rules %q it still speaks: %v", step.rules, got))
		}
	}
	return wrong
}

func TestEdges(t *testing.T) {
	for _, what := range wrongEdges(t) {
		t.Error(what)
	}
}

func TestNewEdgeRuleRefuses(t *testing.T) {
	for _, tc := range []struct{ edge, user, want string }{
		{"edge-7", "sasl:ann", "is no identity"},
		{"sasl:edge-7", "*", "is no identity"},
		{"sasl:edge-7", "sasl:", "is no identity"},
		{"ip:10.0.0.7", "sasl:ann", "the scheme ip"},
		{"sasl:edge-7", "super:x", "the scheme super"},
		{"sasl:edge-7", "world:anyone", "the scheme world"},
		{"digest:edge:*", "sasl:ann", "is given in full"},
		{"sasl:edge-7", "digest:*", "is given in full"},
	} {
		if _, err := auth.NewEdgeRule(tc.edge, tc.user); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s: %v, want %q", tc.edge, tc.user, err, tc.want)
		}
	}
}

// TestCoversTwin compares patterns with regular expressions.
func TestCoversTwin(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 0))
	text := func(of string) string {
		b := make([]byte, r.IntN(9))
		for i := range b {
			b[i] = of[r.IntN(len(of))]
		}
		return string(b)
	}
	fit := 0
	for range 50_000 {
		pattern, name := text("ab,**"), text("ab,")
		twin := regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `[^,]*`) + `$`)
		got := auth.Covers(jute.ID{Scheme: "sasl", ID: pattern}, jute.ID{Scheme: "sasl", ID: name})
		if got != twin.MatchString(name) {
			t.Fatalf("seed %d: %q covers %q: %v", seed, pattern, name, got)
		}
		if got {
			fit++
		}
	}
	if fit < 1000 {
		t.Errorf("only %d fit", fit)
	}
	for _, bound := range strings.Split(`, + = / @ \`, " ") {
		if auth.Covers(id("sasl:a*"), id("sasl:a"+bound+"b")) || !auth.Covers(id("sasl:a"+bound+"*"), id("sasl:a"+bound+"b")) {
			t.Errorf("%q is no bound", bound)
		}
	}
	if auth.Covers(id("sasl:ann"), id("x509:ann")) || !slices.Equal(ids("sasl:a:b"), []jute.ID{{Scheme: "sasl", ID: "a:b"}}) {
		t.Error("schemes are mixed up")
	}
}
