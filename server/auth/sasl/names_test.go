package sasl

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		names     Names
		rules     string
		principal string
		want      string // "!" is an error
	}{
		{Names{}, "", "bob", "bob"},
		{Names{}, "", "a/b", "a/b"},
		{Names{}, "", "a@b@c", "!"},
		{Names{}, "", "a/b/c@D", "!"},
		{Names{}, "", "a@B/C", "!"},
		{Names{}, "", "bob@EXAMPLE.COM", "bob@EXAMPLE.COM"}, // no rule applies
		{Names{RemoveRealm: true}, "", "bob@EXAMPLE.COM", "bob@EXAMPLE.COM"},
		{Names{DefaultRealm: "EXAMPLE.COM"}, "", "bob@EXAMPLE.COM", "bob@EXAMPLE.COM"},
		{Names{DefaultRealm: "EXAMPLE.COM", RemoveRealm: true}, "", "bob@EXAMPLE.COM", "bob"},
		{Names{DefaultRealm: "EXAMPLE.COM", RemoveRealm: true}, "", "bob@EVIL.COM", "bob@EVIL.COM"},
		{Names{DefaultRealm: "EXAMPLE.COM", RemoveRealm: true}, "", "zk/h1@EXAMPLE.COM", "zk/h1"},
		{Names{DefaultRealm: "EXAMPLE.COM", RemoveHost: true}, "", "zk/h1@EXAMPLE.COM", "zk@EXAMPLE.COM"},
		{Names{DefaultRealm: "EXAMPLE.COM", RemoveHost: true, RemoveRealm: true}, "", "zk/h1@EXAMPLE.COM", "zk"},
		{Names{DefaultRealm: "EXAMPLE.COM", RemoveHost: true, RemoveRealm: true}, "", "zk/h1@EVIL.COM", "zk/h1@EVIL.COM"},

		{Names{RemoveHost: true, RemoveRealm: true}, "RULE:[1:$1]", "bob@ANY", "bob"},
		{Names{RemoveHost: true, RemoveRealm: true}, "RULE:[1:$1]", "bob/h@ANY", "bob/h@ANY"}, // of one part only
		{Names{RemoveHost: true, RemoveRealm: true}, "RULE:[2:$1.$2]DEFAULT", "bob/h@ANY", "bob.h"},
		{Names{RemoveHost: true, RemoveRealm: true}, "RULE:[1:$1@$0](.*@CORP)s/@.*//", "bob@CORP", "bob"},
		{Names{RemoveHost: true, RemoveRealm: true}, "RULE:[1:$1@$0](.*@CORP)s/@.*//", "bob@CORP.EVIL", "bob@CORP.EVIL"},
		{Names{RemoveHost: true, RemoveRealm: true}, "RULE:[1:$1](bob|ann)s/^/u_/\n RULE:[1:$1]", "ann@X", "u_ann"},
		{Names{RemoveHost: true, RemoveRealm: true}, "RULE:[1:$1](bob|ann)s/^/u_/\n RULE:[1:$1]", "xann@X", "xann"},
		{Names{RemoveHost: true, RemoveRealm: true}, "RULE:[1:$1]s/a/o/", "anna@X", "onna"},
		{Names{RemoveHost: true, RemoveRealm: true}, "RULE:[1:$1]s/a/o/g", "anna@X", "onno"},
		{Names{RemoveHost: true, RemoveRealm: true}, `RULE:[1:$1]s/(a)(n)/$2$1x\$/`, "anna@X", "nax$na"},
		{Names{RemoveHost: true, RemoveRealm: true}, "RULE:[1:$1@$0]", "bob@X", "bob@X"}, // not a simple name
		{Names{}, "RULE:[1:$1]s/bob/admin/", "bob@X", "admin@X"},
	} {
		rules, err := ParseRules(c.rules)
		if err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		c.names.Rules = rules
		got, err := c.names.id(c.principal)
		if err != nil {
			got = "!"
		}
		if got != c.want {
			t.Errorf("%+v: %s is %q, %v; want %q", c.names, c.principal, got, err, c.want)
		}
	}
}

func TestRulesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"X":                              "no rule begins at",
		"RULE:[1:$1] Y":                  "no rule begins at",
		"RULE:[:$1]":                     "number of parts",
		"RULE:[99999999999999999999:$1]": "number of parts",
		"RULE:[1:$2]":                    "$2 is not $0 to $1",
		"RULE:[1:$]":                     "$ is not",
		"RULE:[1:$1](a[)":                "missing closing ]",
		"RULE:[1:$1](?=x)":               "missing argument to repetition operator",
		"RULE:[1:$1]s/(/x/":              "missing closing )",
	} {
		if _, err := ParseRules(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func FuzzRules(f *testing.F) {
	f.Add("RULE:[1:$1@$0](.*@CORP)s/@.*//g DEFAULT", "bob@CORP")
	f.Add("RULE:[2:$1.$2]s/(a)/$1\\$/", "a/b@C")
	f.Fuzz(func(t *testing.T, text, principal string) {
		rules, err := ParseRules(text)
		if err != nil {
			return
		}
		names := Names{Rules: rules, RemoveHost: true, RemoveRealm: true}
		if id, err := names.id(principal); err == nil && id != principal && strings.ContainsAny(id, "/@") {
			t.Errorf("%s: %q is %q, which is no simple name", text, principal, id)
		}
	})
}
