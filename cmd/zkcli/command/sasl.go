package command

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/sasl"
	"github.com/zkd-project/zkd/client/sasl/kerberos"
)

// login says how to log in with SASL.
type login struct {
	mechanism string // "" is that of zkCli.sh, if there is a user
	user      string
	file      string // with the password
	password  string // from the environment, or as the user was asked for
	keytab    string
	cache     string
	krb5conf  string
	service   string
}

// The mechanisms, as the flag has them.
const (
	digestMD5   = "digest-md5"
	scramSHA256 = "scram-sha-256"
	scramSHA512 = "scram-sha-512"
	plain       = "plain"
	kerberos5   = "kerberos"
)

var mechanisms = []string{digestMD5, scramSHA256, scramSHA512, plain, kerberos5}

// askFunc asks the user for a text that is not shown.
type askFunc func(question string) (string, error)

func (l *login) flags(root *cobra.Command) {
	p := root.PersistentFlags()
	p.StringVar(&l.mechanism, "sasl", "", "log in with this SASL `mechanism`: "+strings.Join(mechanisms, ", ")+" (default "+digestMD5+", with --sasl-user)")
	p.StringVar(&l.user, "sasl-user", l.user, "user to log in with SASL ($"+envSASLUser+"); the password is in $"+envSASLPassword+" or a file, or is asked for. With --kerberos-keytab: the principal")
	p.StringVar(&l.file, "sasl-password-file", "", "file with the password of --sasl-user")
	p.StringVar(&l.keytab, "kerberos-keytab", "", "file with the key of the principal --sasl-user")
	p.StringVar(&l.cache, "kerberos-cache", "", "file with tickets, if there is no keytab (default that of kinit)")
	p.StringVar(&l.krb5conf, "kerberos-config", "", "krb5.conf ($KRB5_CONFIG, or /etc/krb5.conf)")
	p.StringVar(&l.service, "kerberos-service", "", "the servers' principals: `name`/host, or a whole principal (default zookeeper)")
	for _, name := range []string{"sasl-password-file", "kerberos-keytab", "kerberos-cache", "kerberos-config"} {
		_ = p.SetAnnotation(name, kindAnnotation, []string{kindNames[File]}) // the flag is there
	}
	// It fails only for a flag that has not been defined.
	_ = root.RegisterFlagCompletionFunc("sasl", cobra.FixedCompletions(mechanisms, cobra.ShellCompDirectiveNoFileComp))
}

// apply sets the client's option.
func (l *login) apply(o *client.Options, ask askFunc) error {
	mechanism := strings.ToLower(l.mechanism)
	ofKerberos := l.keytab != "" || l.cache != "" || l.krb5conf != "" || l.service != ""
	switch {
	case mechanism == "gssapi" || mechanism == "" && ofKerberos:
		mechanism = kerberos5
	case mechanism == "" && l.user == "":
		return l.unused()
	case mechanism == "":
		mechanism = digestMD5
	}
	switch {
	case !slices.Contains(mechanisms, mechanism):
		return &UsageError{Text: fmt.Sprintf("--sasl %s: there is no such mechanism, but %s", l.mechanism, strings.Join(mechanisms, ", "))}
	case mechanism == kerberos5:
		return l.kerberos(o)
	case ofKerberos:
		return &UsageError{Text: "--kerberos-... needs --sasl kerberos, not " + l.mechanism}
	case l.user == "":
		return &UsageError{Text: "--sasl " + mechanism + " needs --sasl-user NAME"}
	case mechanism == plain && o.TLSFor == nil:
		return &UsageError{Text: "--sasl plain sends the password to the server, so it needs TLS (--tls-ca FILE); --sasl scram-sha-256 does not"}
	}
	if err := l.needPassword(ask); err != nil {
		return err
	}
	o.SASL = map[string]func(user, password string) func(string) (sasl.Mechanism, error){
		digestMD5: sasl.DigestMD5, scramSHA256: sasl.ScramSHA256, scramSHA512: sasl.ScramSHA512, plain: sasl.Plain,
	}[mechanism](l.user, l.password)
	return nil
}

// unused refuses flags that have no effect without a user.
func (l *login) unused() error {
	if l.file != "" {
		return &UsageError{Text: "--sasl-password-file needs --sasl-user NAME"}
	}
	return nil
}

func (l *login) kerberos(o *client.Options) error {
	switch {
	case l.file != "":
		return &UsageError{Text: "--sasl kerberos takes no password: call kinit, or give a keytab (--kerberos-keytab FILE --sasl-user PRINCIPAL)"}
	case l.keytab != "" && l.user == "":
		return &UsageError{Text: "--kerberos-keytab needs --sasl-user PRINCIPAL: klist -k FILE shows whose keys a keytab has"}
	case l.keytab != "" && l.cache != "":
		return &UsageError{Text: "--kerberos-keytab and --kerberos-cache: only one of them can be used"}
	}
	o.SASL = kerberos.New(kerberos.Options{Principal: l.user, Keytab: l.keytab, Cache: l.cache, Config: l.krb5conf, Service: l.service})
	return nil
}

// needPassword reads the password, or asks for it if there is none. It is kept: the user is
// asked once.
func (l *login) needPassword(ask askFunc) error {
	if l.file != "" {
		data, err := os.ReadFile(l.file)
		if err != nil {
			return fmt.Errorf("read the password of --sasl-user: %w", err)
		}
		l.password = strings.TrimRight(string(data), "\r\n")
	}
	if l.password != "" || l.file != "" {
		return nil
	}
	password, err := ask("Password of " + l.user + ": ")
	if err == nil {
		l.password = password
		return nil
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("ask for the password of %s: %w", l.user, err)
	}
	return &UsageError{Text: fmt.Sprintf("--sasl-user %s has no password: set %s, or name a file by --sasl-password-file", l.user, envSASLPassword)}
}

// explain says why a login failed, and what a user of the shell can do about it; "" if err is no
// failed login.
func (l *login) explain(err error) string {
	noTicket, found := errors.AsType[*kerberos.TicketError](err)
	switch {
	case found && l.keytab != "":
		return fmt.Sprintf("%v. Check the principal (--sasl-user), the keytab (klist -k %s) and the service (--kerberos-service)", noTicket, l.keytab)
	case found:
		return fmt.Sprintf("%v. klist shows your tickets, kinit gets new ones; --kerberos-service names the servers' principals", noTicket)
	case errors.Is(err, sasl.ErrNoSASL):
		return "the server has no SASL: leave --sasl and --sasl-user out, or configure users on the server"
	case !errors.Is(err, sasl.ErrRefused):
		return ""
	case l.user == "":
		return "the server refused the Kerberos ticket: its log has the reason"
	}
	return fmt.Sprintf("the server refused the login of %s: check the name, the password or key, and --sasl; the server's log has the reason", l.user)
}
