package login

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zkd-project/zkd/client/sasl"
	"github.com/zkd-project/zkd/client/sasl/kerberos"
	"github.com/zkd-project/zkd/client/sasl/scram"
)

// Login says how to log in.
type Login struct {
	env       string // prefix of the environment variables
	mechanism string // "" is that of zkCli.sh, if there is a user
	user      string
	file      string // with the password
	password  string // from the environment, or as the user was asked for
	keytab    string
	cache     string
	krb5conf  string
	service   string
}

// New returns a Login with the user and the password of the environment: of ZKCLI_SASL_USER
// and ZKCLI_SASL_PASSWORD, if program is "ZKCLI". As a flag the password would be visible in
// lists of processes.
func New(program string, getenv func(string) string) Login {
	l := Login{env: program + "_SASL_"}
	l.user, l.password = getenv(l.env+"USER"), getenv(l.env+"PASSWORD")
	return l
}

// UsageError means that the flags do not fit together.
type UsageError struct{ text string }

// Error names the flags.
func (e *UsageError) Error() string { return e.text }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// ParseAuth parses an identity for a session, such as digest:user:password.
func ParseAuth(s string) (scheme string, data []byte, err error) {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || scheme == "" {
		return "", nil, usage("auth %q has no scheme: it should look like digest:user:password", s)
	}
	return scheme, []byte(rest), nil
}

// The mechanisms, as the flag has them.
const (
	digestMD5   = "digest-md5"
	scramSHA256 = "scram-sha-256"
	scramSHA512 = "scram-sha-512"
	plain       = "plain"
	kerberos5   = "kerberos"
)

// Mechanisms returns the values of the flag sasl.
func Mechanisms() []string { return []string{digestMD5, scramSHA256, scramSHA512, plain, kerberos5} }

// FileFlags returns the names of the flags whose values are files.
func FileFlags() []string {
	return []string{"sasl-password-file", "kerberos-keytab", "kerberos-cache", "kerberos-config"}
}

// Flags defines the flags.
func (l *Login) Flags(f *pflag.FlagSet) {
	f.StringVar(&l.mechanism, "sasl", "", "log in with this SASL `mechanism`: "+strings.Join(Mechanisms(), ", ")+" (default "+digestMD5+", with --sasl-user)")
	f.StringVar(&l.user, "sasl-user", l.user, "user to log in with SASL ($"+l.env+"USER); the password is in $"+l.env+"PASSWORD or a file. With --kerberos-keytab: the principal")
	f.StringVar(&l.file, "sasl-password-file", "", "file with the password of --sasl-user")
	f.StringVar(&l.keytab, "kerberos-keytab", "", "file with the key of the principal --sasl-user")
	f.StringVar(&l.cache, "kerberos-cache", "", "file with tickets, if there is no keytab (default that of kinit)")
	f.StringVar(&l.krb5conf, "kerberos-config", "", "krb5.conf ($KRB5_CONFIG, or /etc/krb5.conf)")
	f.StringVar(&l.service, "kerberos-service", "", "the servers' principals: `name`/host, or a whole principal (default zookeeper)")
}

// Pass returns the flags and the environment with which another of our programs logs in in the
// same way. program is as for New. A password that the user was asked for is passed, too.
func (l *Login) Pass(program string) (flags, env []string) {
	for _, f := range []struct{ name, value string }{
		{"sasl", l.mechanism}, {"sasl-user", l.user}, {"sasl-password-file", l.file}, {"kerberos-keytab", l.keytab},
		{"kerberos-cache", l.cache}, {"kerberos-config", l.krb5conf}, {"kerberos-service", l.service},
	} {
		if f.value != "" {
			flags = append(flags, "--"+f.name+"="+f.value)
		}
	}
	if l.password != "" {
		env = append(env, program+"_SASL_PASSWORD="+l.password)
	}
	return flags, env
}

// Mechanism returns the value for client.Options.SASL, which is nil without a login. tls means
// that the connections have TLS. ask asks the user for the password, if there is none; it is nil, or
// its error is errors.ErrUnsupported, where nobody can be asked. The user is asked once.
func (l *Login) Mechanism(tls bool, ask func(question string) (string, error)) (func(server string) (sasl.Mechanism, error), error) {
	mechanism := strings.ToLower(l.mechanism)
	ofKerberos := l.keytab != "" || l.cache != "" || l.krb5conf != "" || l.service != ""
	switch {
	case mechanism == "gssapi" || mechanism == "" && ofKerberos:
		mechanism = kerberos5
	case mechanism == "" && l.user == "" && l.file != "":
		return nil, usage("--sasl-password-file needs --sasl-user NAME")
	case mechanism == "" && l.user == "":
		return nil, nil
	case mechanism == "":
		mechanism = digestMD5
	}
	switch {
	case !slices.Contains(Mechanisms(), mechanism):
		return nil, usage("--sasl %s: there is no such mechanism, but %s", l.mechanism, strings.Join(Mechanisms(), ", "))
	case mechanism == kerberos5:
		return l.kerberos()
	case ofKerberos:
		return nil, usage("--kerberos-... needs --sasl kerberos, not %s", l.mechanism)
	case l.user == "":
		return nil, usage("--sasl %s needs --sasl-user NAME", mechanism)
	case mechanism == plain && !tls:
		return nil, usage("--sasl plain sends the password to the server, so it needs TLS (--tls-ca FILE); --sasl scram-sha-256 does not")
	}
	if err := l.needPassword(ask); err != nil {
		return nil, err
	}
	return map[string]func(user, password string) func(string) (sasl.Mechanism, error){
		digestMD5: sasl.DigestMD5, scramSHA256: scram.SHA256, scramSHA512: scram.SHA512, plain: sasl.Plain,
	}[mechanism](l.user, l.password), nil
}

func (l *Login) kerberos() (func(server string) (sasl.Mechanism, error), error) {
	switch {
	case l.file != "":
		return nil, usage("--sasl kerberos takes no password: call kinit, or give a keytab (--kerberos-keytab FILE --sasl-user PRINCIPAL)")
	case l.keytab != "" && l.user == "":
		return nil, usage("--kerberos-keytab needs --sasl-user PRINCIPAL: klist -k FILE shows whose keys a keytab has")
	case l.keytab != "" && l.cache != "":
		return nil, usage("--kerberos-keytab and --kerberos-cache: only one of them can be used")
	}
	return kerberos.New(kerberos.Options{Principal: l.user, Keytab: l.keytab, Cache: l.cache, Config: l.krb5conf, Service: l.service}), nil
}

// needPassword reads the password, or asks for it if there is none, and keeps it.
func (l *Login) needPassword(ask func(question string) (string, error)) error {
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
	password, err := "", errors.ErrUnsupported
	if ask != nil {
		password, err = ask("Password of " + l.user + ": ")
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return usage("--sasl-user %s has no password: set %sPASSWORD, or name a file by --sasl-password-file", l.user, l.env)
	}
	if err != nil {
		return fmt.Errorf("ask for the password of %s: %w", l.user, err)
	}
	l.password = password
	return nil
}

// Explain says why a login failed, and what a user of the flags can do about it; "" if err is no
// failed login.
func (l *Login) Explain(err error) string {
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
