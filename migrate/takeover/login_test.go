package takeover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadLogin(t *testing.T) {
	const module = "QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required "
	const kerberos = "QuorumLearner {\ncom.sun.security.auth.module.Krb5LoginModule required "
	for _, c := range []struct{ text, want string }{
		{module + `username="zkd" password="s3cret"; };`, ""},
		{`QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_zkd="s3cret"; };`, `no section "QuorumLearner"`},
		{module + `username="zkd"; };`, ":1: there is no username and password"},
		{kerberos + `useKeyTab=true keyTab="/k" principal="zkd@EXAMPLE.ORG"; };`, ""},
		{kerberos + `useTicketCache=true ticketCache="/c" principal="zkd@EXAMPLE.ORG"; };`, ""},
		{kerberos + `useKeyTab=true; };`, ":2: there is no keyTab with"},
		{kerberos + `keyTab="/k"; };`, ":2: there is a keyTab without a principal"},
		{"QuorumLearner {\nexample.LoginModule required; };", ":2: example.LoginModule: a mirror logs in by"},
		{"QuorumLearner { };", ":1: section \"QuorumLearner\" is empty"},
		{"QuorumLearner {", "line 1"},
	} {
		file := filepath.Join(t.TempDir(), "jaas.conf")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := ReadLogin(file, "QuorumLearner", "zkquorum/_HOST")
		switch {
		case c.want == "" && (err != nil || !strings.HasPrefix(l.User, "zkd")):
			t.Errorf("%s: %+v, %v", c.text, l, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret")):
			t.Errorf("%s: %v; want an error with %q", c.text, err, c.want)
		}
	}
	if _, err := ReadLogin(filepath.Join(t.TempDir(), "none"), "QuorumLearner", ""); err == nil {
		t.Error("no error for a file that is not there")
	}
}
