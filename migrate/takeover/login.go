package takeover

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/client/sasl/kerberos"
	"github.com/zkd-project/zkd/internal/digestmd5"
	"github.com/zkd-project/zkd/internal/jaas"
	"github.com/zkd-project/zkd/internal/smallfile"
	"github.com/zkd-project/zkd/migrate/apachelink"
)

// Login is how a mirror logs in where Apache's servers log in to each other.
type Login struct {
	User  string
	begin func(host string) (apachelink.Mechanism, error)
}

// digestURI is the service of Apache's servers among themselves, in DIGEST-MD5.
const digestURI = "zookeeper-quorum/zk-quorum-sasl-md5"

// ReadLogin reads the user of a server that connects from the JAAS file of Apache's servers.
// The user is in the given section. service is the principal of Apache's servers, in case that they use
// Kerberos: NAME/HOST, or NAME/_HOST with the host of each server.
func ReadLogin(file, section, service string) (*Login, error) {
	text, err := smallfile.Read(file, 1<<20, "a login configuration")
	if err != nil {
		return nil, err
	}
	sections, err := jaas.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	s, ok := jaas.Find(sections, section)
	if !ok {
		return nil, fmt.Errorf("%s has no section %q (quorum.auth.learner.saslLoginContext of Apache's servers)", file, section)
	}
	if len(s.Modules) == 0 {
		return nil, fmt.Errorf("%s:%d: section %q is empty", file, s.Line, section)
	}
	m := s.Modules[0]
	var l *Login
	switch m.Class {
	case jaas.DigestLoginModule:
		l, err = digestLogin(m)
	case jaas.Krb5LoginModule:
		l, err = kerberosLogin(m, service)
	default:
		err = fmt.Errorf("%s: a mirror logs in by DIGEST-MD5 (%s) or Kerberos (%s)", m.Class, jaas.DigestLoginModule, jaas.Krb5LoginModule)
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", file, m.Line, err)
	}
	return l, nil
}

func digestLogin(m jaas.Module) (*Login, error) {
	user, ok := m.Option("username")
	password, hasPassword := m.Option("password")
	if !ok || !hasPassword {
		return nil, errors.New("there is no username and password")
	}
	return &Login{user.Value, func(string) (apachelink.Mechanism, error) {
		return digestmd5.NewClient(user.Value, password.Value, digestURI, rand.Text())
	}}, nil
}

// kerberosLogin takes what Java's module takes: a key, or else tickets, those of kinit if no file is named.
func kerberosLogin(m jaas.Module, service string) (*Login, error) {
	principal, _ := m.Option("principal")
	o := kerberos.Options{Principal: principal.Value, Service: strings.TrimSuffix(service, "/_HOST")}
	keytab, hasKeytab := m.Option("keyTab")
	cached, _ := m.Option("useTicketCache")
	cache, _ := m.Option("ticketCache")
	switch {
	case hasKeytab && o.Principal == "":
		return nil, errors.New("there is a keyTab without a principal")
	case hasKeytab:
		o.Keytab = keytab.Value
	case cached.Value == "true":
		o.Cache = cache.Value
	default:
		return nil, errors.New("there is no keyTab with a principal, and no useTicketCache=true")
	}
	begin := kerberos.New(o)
	return &Login{principal.Value, func(host string) (apachelink.Mechanism, error) { return begin(host) }}, nil
}
