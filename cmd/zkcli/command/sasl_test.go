package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client/zktest"
)

// TestLogin logs in with each mechanism that needs no other program, and makes the mistakes that
// users of a shell make. Messages name flags, and no options of a Go program.
func TestLogin(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// The verifier is that of the password pencil, from the example of RFC 7677.
	users := file("users", "ann plain:secret\n"+
		"bob SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=\n")
	with := zktest.Start(t, zktest.Config("zkd.sasl.users="+users))
	without := zktest.Start(t)
	pencil, secret := file("pencil", "pencil\n"), file("secret", "secret")
	for _, tc := range []struct {
		server *zktest.Server
		args   string
		env    string // ZKCLI_SASL_PASSWORD
		want   string
		exit   int
	}{
		{with, "--sasl scram-sha-256 --sasl-user bob --sasl-password-file " + pencil, "", "sasl: bob", 0},
		{with, "--sasl SCRAM-SHA-256 --sasl-user bob", "pencil", "sasl: bob", 0},
		{with, "--sasl-user ann --sasl-password-file " + secret, "", "sasl: ann", 0},
		{with, "--sasl digest-md5 --sasl-user ann", "secret", "sasl: ann", 0},
		{with, "", "secret", "ip: 127.0.0.1", 0},
		{with, "--sasl scram-sha-256 --sasl-user bob", "wrong", "the server refused the login of bob: check the name, the password", exitAuth},
		{with, "--sasl scram-sha-512 --sasl-user bob", "pencil", "the server refused the login of bob: check the name, the password or key, and --sasl", exitAuth},
		{with, "--sasl-user ann", "", "--sasl-user ann has no password: set ZKCLI_SASL_PASSWORD, or name a file by --sasl-password-file", exitUsage},
		{with, "--sasl-user ann --sasl-password-file " + filepath.Join(dir, "none"), "", "read the password of --sasl-user: open ", exitUsage},
		{with, "--sasl-password-file " + secret, "", "--sasl-password-file needs --sasl-user", exitUsage},
		{with, "--sasl scram-sha-256", "pencil", "--sasl scram-sha-256 needs --sasl-user", exitUsage},
		{with, "--sasl ntlm --sasl-user ann", "secret", "--sasl ntlm: there is no such mechanism, but digest-md5, scram-sha-256", exitUsage},
		{with, "--sasl plain --sasl-user ann", "secret", "so it needs TLS (--tls-ca FILE)", exitUsage},
		{without, "--sasl-user ann", "secret", "the server has no SASL: leave --sasl and --sasl-user out", exitConnection},
		{with, "--sasl digest-md5 --sasl-user ann --kerberos-service zk", "secret", "needs --sasl kerberos", exitUsage},
		{with, "--sasl kerberos --sasl-password-file " + secret, "", "--sasl kerberos takes no password: call kinit", exitUsage},
		{with, "--kerberos-keytab x", "", "--kerberos-keytab needs --sasl-user PRINCIPAL", exitUsage},
		{with, "--kerberos-keytab x --sasl-user ann --kerberos-cache y", "", "only one of them can be used", exitUsage},
		{with, "--kerberos-keytab x --sasl-user ann --kerberos-config " + secret, "", "no Kerberos ticket for zookeeper/127.0.0.1: ", exitConnection},
		{with, "--sasl gssapi --kerberos-cache x --kerberos-service a/b --kerberos-config " + file("krb5.conf", "[libdefaults]\n"), "",
			"no Kerberos ticket for a/b: there are no tickets in x. klist shows your tickets, kinit gets new ones", exitConnection},
	} {
		args := append([]string{"-server", tc.server.ConnectString()}, strings.Fields(tc.args)...)
		out, errOut, code := run(t, t.Context(), map[string]string{"ZKCLI_SASL_PASSWORD": tc.env}, append(args, "whoami")...)
		if code != tc.exit || !strings.Contains(out+errOut, tc.want) || strings.Contains(out+errOut, "Options.") {
			t.Errorf("%s (%s): exit %d, want %d and %q:\n%s%s", tc.args, tc.env, code, tc.exit, tc.want, out, errOut)
		}
	}
}
