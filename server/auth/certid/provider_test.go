package certid_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth/certid"
)

// certificate returns a certificate that signs itself.
func certificate(t testing.TB, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := new(x509.Certificate)
	change(template)
	return certs.SelfSigned(t, template).Cert
}

func uri(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func subject(name string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: name, Organization: []string{"Acme"}} }
}

func rule(kind int, match, extract string, group int) certid.Config {
	return certid.Config{From: certid.AltName, Rule: certid.Rule{
		Type: kind, Match: regexp.MustCompile(match), Extract: regexp.MustCompile(extract), Group: group}}
}

func TestProveCertificate(t *testing.T) {
	uris := func(list ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			for _, s := range list {
				c.URIs = append(c.URIs, uri(t, s))
			}
		}
	}
	mails := func(c *x509.Certificate) {
		c.EmailAddresses = []string{"ann@example.org", "root@localhost"}
		c.DNSNames = []string{"ann.example.org"}
	}
	const refused = "refused"
	for _, tc := range []struct {
		name string
		cfg  certid.Config
		cert func(*x509.Certificate)
		want string
	}{
		{"subject", certid.Config{}, subject("ann"), "x509:CN=ann,O=Acme"},
		{"no subject is no identity", certid.Config{}, mails, ""},
		{"super user", certid.Config{SuperUser: "CN=ann,O=Acme"}, subject("ann"), "super:CN=ann,O=Acme x509:CN=ann,O=Acme"},
		{"another is not super", certid.Config{SuperUser: "CN=ann,O=Acme"}, subject("ann "), `x509:CN=ann\ ,O=Acme`},
		{"a name that spells the super user's", certid.Config{SuperUser: "CN=ann,O=Acme"},
			func(c *x509.Certificate) { c.Subject.CommonName = "ann,O=Acme" }, `x509:CN=ann\,O\=Acme`},
		{"no super user and no subject", certid.Config{SuperUser: ""}, mails, ""},

		{"mail", rule(1, "@example", "^[^@]*", 0), mails, "x509:ann"},
		{"group", rule(1, "@example", "(.*)@(.*)", 2), mails, "x509:example.org"},
		{"DNS name", rule(2, "", `^(\w+)\.`, 1), mails, "x509:ann"},
		{"two match", rule(1, ".*", ".*", 0), mails, refused},
		{"none matches", rule(1, "^nobody", ".*", 0), mails, refused},
		{"none of the type", rule(6, ".*", ".*", 0), mails, refused},
		{"no names at all", rule(6, ".*", ".*", 0), subject("ann"), refused},
		{"nothing to extract", rule(1, "@example", "(nobody)", 1), mails, refused},
		{"extracts nothing", rule(1, "@example", "x*", 0), mails, refused},
		{"super user by mail", certid.Config{From: certid.AltName, Rule: rule(1, "@example", ".*", 0).Rule, SuperUser: "ann@example.org"},
			mails, "super:ann@example.org x509:ann@example.org"},
		{"URI", rule(6, "^urn:li:", "^urn:li:[^:]*:([^:]*)", 1), uris("urn:li:service:feed", "https://x/"), "x509:feed"},

		{"SPIFFE", certid.Config{From: certid.SPIFFE}, uris("spiffe://example.org/ns/a/sa/b"), "x509:spiffe://example.org/ns/a/sa/b"},
		{"two URIs", certid.Config{From: certid.SPIFFE}, uris("spiffe://example.org/a", "https://x/"), refused},
		{"two SPIFFE IDs", certid.Config{From: certid.SPIFFE}, uris("spiffe://example.org/a", "spiffe://example.org/b"), refused},
		{"another URI", certid.Config{From: certid.SPIFFE}, uris("https://example.org/a"), refused},
		{"a trust domain alone", certid.Config{From: certid.SPIFFE}, uris("spiffe://example.org"), refused},
		{"no URI", certid.Config{From: certid.SPIFFE}, subject("spiffe://example.org/a"), refused},
		{"an authority", certid.Config{From: certid.SPIFFE}, func(c *x509.Certificate) {
			uris("spiffe://example.org/a")(c)
			c.IsCA, c.BasicConstraintsValid = true, true
		}, refused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := certid.New(tc.cfg)
			if err != nil {
				t.Fatal(err)
			}
			cert := certificate(t, tc.cert)
			proof, err := p.ProveCertificate([]*x509.Certificate{cert, certificate(t, subject("the authority"))})
			var ids []string
			for _, id := range proof.IDs {
				ids = append(ids, id.Scheme+":"+id.ID)
			}
			got := strings.Join(ids, " ")
			if err != nil {
				got = refused
			}
			if got != tc.want || proof.Until != 0 {
				t.Errorf("got %q until %d (%v), want %q", got, proof.Until, err, tc.want)
			}
			if err != nil && !errors.Is(err, jute.ErrAuthFailed) {
				t.Errorf("error %v, want ErrAuthFailed", err)
			}
		})
	}
}

func TestNoCertificate(t *testing.T) {
	p, err := certid.New(certid.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.ProveCertificate(nil); !errors.Is(err, jute.ErrAuthFailed) {
		t.Errorf("got %v, %v, want ErrAuthFailed", got, err)
	}
}

func TestNewRefusesRules(t *testing.T) {
	for name, cfg := range map[string]certid.Config{
		"type without text": rule(7, ".*", ".*", 0),
		"no such group":     rule(1, ".*", "(.*)", 2),
		"group below 0":     rule(1, ".*", "(.*)", -1),
		"no patterns":       {From: certid.AltName, Rule: certid.Rule{Type: 1}},
	} {
		if _, err := certid.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestValid(t *testing.T) {
	all := []string{"CN=ann,O=Acme", "spiffe://example.org/a", "ann", "", "a\x00b", "spiffe://example.org/", strings.Repeat("a", 2049)}
	for _, tc := range []struct {
		cfg  certid.Config
		want []string
	}{
		{certid.Config{}, []string{"CN=ann,O=Acme", ""}},
		{rule(1, ".*", ".*", 0), []string{"CN=ann,O=Acme", "spiffe://example.org/a", "ann", "spiffe://example.org/"}},
		{certid.Config{From: certid.SPIFFE}, []string{"CN=ann,O=Acme", "spiffe://example.org/a", ""}},
	} {
		p, err := certid.New(tc.cfg)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !p.Valid(s) })
		if !slices.Equal(got, tc.want) {
			t.Errorf("%v: got %q, want %q", tc.cfg, got, tc.want)
		}
	}
}

func TestSPIFFEIDs(t *testing.T) {
	p, err := certid.New(certid.Config{From: certid.SPIFFE})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{
		"spiffe://example.org/a":                            true,
		"spiffe://a_b-1.c/A/b.c/d-e":                        true,
		"spiffe://example.org/...":                          true,
		"spiffe://Example.org/a":                            false,
		"spiffe://example.org/a/":                           false,
		"spiffe://example.org//a":                           false,
		"spiffe://example.org/./a":                          false,
		"spiffe://example.org/../a":                         false,
		"spiffe://example.org/a%2fb":                        false,
		"spiffe://example.org/a?b":                          false,
		"spiffe://example.org/a#b":                          false,
		"spiffe://example.org:80/a":                         false,
		"spiffe://me@example.org/a":                         false,
		"spiffe:///a":                                       false,
		"SPIFFE://example.org/a":                            false,
		"spiffe://example.org/é":                            false,
		"spiffe://example.org/" + strings.Repeat("a", 2048): false,
	} {
		if got := p.Valid(id); got != want {
			t.Errorf("%s: got %v, want %v", id, got, want)
		}
	}
}

// FuzzAltNames checks that no certificate has an identity that an ACL may not name.
func FuzzAltNames(f *testing.F) {
	for _, s := range []string{"spiffe://example.org/a", "https://example.org"} {
		cert := certificate(f, func(c *x509.Certificate) {
			c.URIs = []*url.URL{uri(f, s)}
			c.EmailAddresses = []string{"a@b"}
		})
		for _, ext := range cert.Extensions {
			f.Add(ext.Value)
		}
	}
	f.Add([]byte("\x30\x10\xa4\x0e0\f1\n0\b\x06\x03U\x04\x03\x0c\x01a"))
	f.Fuzz(func(t *testing.T, value []byte) {
		cert := &x509.Certificate{Extensions: []pkix.Extension{{Id: []int{2, 5, 29, 17}, Value: value}}}
		for _, cfg := range []certid.Config{
			{From: certid.SPIFFE}, rule(1, "", ".*", 0), rule(2, "", ".*", 0), rule(4, "", ".*", 0), rule(6, "", ".*", 0),
		} {
			p, err := certid.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			proof, err := p.ProveCertificate([]*x509.Certificate{cert})
			if err == nil && (len(proof.IDs) != 1 || !p.Valid(proof.IDs[0].ID)) {
				t.Errorf("identities %q", proof.IDs)
			}
		}
	})
}
