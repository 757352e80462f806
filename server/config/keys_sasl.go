package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/internal/jaas"
	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/server/auth/sasl"
)

// rawSASL holds the values of the keys of SASL.
type rawSASL struct {
	loginConfig, section string
	required             bool
	requiredScheme       string
	superPassword        secret.Text
	superUsers           []string
	rules, realm         string
	usersFile            string
	quorum               [3]bool // the keys of quorumSASL
	noSection            bool    // loginConfig is a file without the section
	keytab               string  // a file that loginConfig names
}

// quorumSASL are the keys that ask for SASL between servers.
var quorumSASL = [...]string{"quorum.auth.enableSasl", "quorum.auth.learnerRequireSasl", "quorum.auth.serverRequireSasl"}

func quorumSASLKeys(c *Config) (keys []Key) {
	for i, name := range quorumSASL {
		keys = append(keys, Key{Name: name, Default: "false", value: requested(&c.raw.sasl.quorum[i]), Protects: true,
			Doc: "Servers must authenticate each other: `true` needs zkd.quorumSecretFile or sslQuorum=true, and is an error without."})
	}
	return keys
}

// resolveQuorumSASL checks that servers authenticate each other if SASL between them is asked
// for.
func (l *loader) resolveQuorumSASL() {
	c := l.c
	for i, key := range quorumSASL {
		p := l.set[key]
		switch how := c.peersKnownBy(); {
		case !c.raw.sasl.quorum[i]:
		case !c.Replicated():
			l.warn(p, "has no effect: there are no other servers")
		case len(how) > 0:
			l.warn(p, "is met without SASL: servers authenticate each other by %s", strings.Join(how, " and "))
		case !l.failed("zkd.quorumSecretFile"):
			l.unprotected = append(l.unprotected, unprotected{p,
				"its servers use no SASL among themselves: set zkd.quorumSecretFile, a shared secret, or sslQuorum=true, certificates, and this key may stay"})
		}
	}
}

func saslKeys(c *Config) []Key {
	s, raw := &c.SASL, &c.raw.sasl
	return []Key{
		{Name: "java.security.auth.login.config", HoldsSecret: true, value: path(&raw.loginConfig), Protects: true,
			Doc: "Java's login configuration (JAAS), by which clients log in with [SASL](security.md#sasl): of the section sasl.serverconfig DigestLoginModule and Krb5LoginModule. Another module stops the start."},
		{Name: "zkd.sasl.users", HoldsSecret: true, value: path(&raw.usersFile), Protects: true,
			Doc: "File with users who log in with SASL, a line each, as `zkd sasl-user NAME` prints it. It is read again when it changes, and goes before the users of java.security.auth.login.config."},
		{Name: "sasl.serverconfig", Default: "Server", value: text(&raw.section), Protects: true,
			Doc: "Section of java.security.auth.login.config."},
		{Name: "sessionRequireClientSASLAuth", Default: "false", value: truth(&raw.required), Protects: true,
			Doc: "Turn away clients that have not logged in with SASL: as enforce.auth.enabled with enforce.auth.schemes=sasl, which it overrides."},
		{Name: "requireClientAuthScheme", Default: "none", value: oneOf(&raw.requiredScheme, "none", "sasl"), Protects: true,
			Doc: "`sasl` is sessionRequireClientSASLAuth=true. Apache's server does not know the key."},
		{Name: "allowSaslFailedClients", Default: "false", value: truth(&s.AllowFailed),
			Doc: "Serve a client whose login by SASL failed, without the identity; not if SASL is required."},
		{Name: "superUser", value: appended(&raw.superUsers),
			Doc: "Id of the scheme sasl that may do everything."},
		{Name: "superUser.*", value: appended(&raw.superUsers),
			Doc: "Further ids as superUser, each with a name of its own in place of the `*`."},
		{Name: "SASLAuthenticationProvider.superPassword", value: hidden(&raw.superPassword),
			Doc: "Password of the user super, in place of the one in java.security.auth.login.config. Every sasl entry of an ACL covers this user."},
		{Name: "letAnySaslUserDoX", value: text(&s.EverybodyAs),
			Doc: "An id: what an ACL allows to `sasl:` and this id, it allows to everybody who has logged in with SASL."},
		{Name: "kerberos.removeHostFromPrincipal", Default: "false", value: truth(&s.Names.RemoveHost),
			Doc: "Leave the host out of the ids of principals: `zk@EXAMPLE.COM` for zk/host1@EXAMPLE.COM."},
		{Name: "kerberos.removeRealmFromPrincipal", Default: "false", value: truth(&s.Names.RemoveRealm),
			Doc: "Leave the realm out of the ids of principals, if a rule of security.auth_to_local applies to them."},
		{Name: "security.auth_to_local", Default: "DEFAULT", value: text(&raw.rules),
			Doc: "Rules that make short names of principals: `DEFAULT` for those of the default realm, and those that begin with `RULE:`, with Go's patterns."},
		{Name: "java.security.krb5.realm", value: text(&raw.realm),
			Doc: "The default realm. Default: that of the server's principal. zkd does not read krb5.conf."},
	}
}

// appended appends each text to a list.
func appended(field *[]string) value {
	return value{
		allowed: "text",
		set:     func(t string) bool { *field = append(*field, t); return t != "" },
	}
}

// resolveSASL computes SASL and reads its files.
func (l *loader) resolveSASL() {
	c, raw := l.c, &l.c.raw.sasl
	c.SASL.SuperUsers = raw.superUsers
	if p, given := l.set["java.security.auth.login.config"]; given {
		l.loginConfig(p)
	}
	if p, given := l.set["zkd.sasl.users"]; given && raw.usersFile != "" {
		file, err := sasl.OpenUsers(raw.usersFile, l.read)
		if err != nil {
			l.fail(p, "can't be used: %v", err)
		}
		c.SASL.On, c.SASL.UsersFile = true, file
	}
	rules, err := sasl.ParseRules(raw.rules)
	if err != nil {
		l.fail(l.set["security.auth_to_local"], "%v", err)
	}
	c.SASL.Names.Rules, c.SASL.Names.DefaultRealm = rules, raw.realm
	if k := c.SASL.Kerberos; k != nil && raw.realm == "" {
		c.SASL.Names.DefaultRealm = k.Realm()
	}
	l.requireSASL()
	if c.SASL.On {
		return
	}
	for _, k := range saslKeys(c) {
		if p, given := l.set[k.Name]; given && !k.Protects {
			l.warn(p, "has no effect: SASL is not configured (java.security.auth.login.config, zkd.sasl.users)")
		}
	}
}

// requireSASL carries out the keys that require SASL of each client.
func (l *loader) requireSASL() {
	c, raw := l.c, &l.c.raw.sasl
	var keys []string
	if raw.required {
		keys = append(keys, "sessionRequireClientSASLAuth")
	}
	if raw.requiredScheme == "sasl" {
		keys = append(keys, "requireClientAuthScheme")
	}
	for _, key := range keys {
		if c.SASL.On {
			c.EnforceAuth, c.EnforceAuthSchemes = true, []string{sasl.Scheme}
		} else {
			l.unprotected = append(l.unprotected, unprotected{l.set[key], l.noSASL()})
		}
	}
}

// noSASL returns the reason why a setting that needs SASL can't be honoured, and the remedy.
func (l *loader) noSASL() string {
	if l.c.raw.sasl.noSection {
		return fmt.Sprintf("SASL is not configured: the JAAS file has no section %s: add it, with the users or the keytab, or name a file of users in zkd.sasl.users", l.c.raw.sasl.section)
	}
	return "SASL is not configured: name the JAAS file in java.security.auth.login.config (here: zkd has no JVM to be given it), or a file of users in zkd.sasl.users" +
		l.flagHint("java.security.auth.login.config")
}

// loginConfig reads the login configuration.
func (l *loader) loginConfig(p property) {
	c, raw := l.c, &l.c.raw.sasl
	if raw.loginConfig == "" {
		return
	}
	text, err := l.read(raw.loginConfig)
	if err != nil {
		l.fail(p, "can't be read: %v", err)
		return
	}
	at := func(line int, key string) property {
		return property{key: key, origin: Origin{File: raw.loginConfig, Line: line}}
	}
	sections, err := jaas.Parse(string(text))
	if e, ok := errors.AsType[*jaas.Error](err); ok {
		l.fail(at(e.Line, p.key), "%s", e.Text)
		return
	}
	section, ok := jaas.Find(sections, raw.section)
	if !ok {
		raw.noSection = true
		l.warn(p, "has no section %q, so nobody can log in with SASL, as on Apache's server; sasl.serverconfig names the section of the server", raw.section)
		return
	}
	if len(section.Modules) == 0 {
		l.fail(at(section.Line, raw.section), "has no login module")
	}
	users, digest := make(map[string]string), false
	for _, m := range section.Modules {
		switch m.Class {
		case jaas.DigestLoginModule:
			digest = true
			for _, o := range m.Options {
				if name, ok := strings.CutPrefix(o.Key, "user_"); ok {
					users[name] = o.Value
				}
			}
		case jaas.Krb5LoginModule:
			l.kerberos(m, at)
		default:
			l.fail(at(m.Line, m.Class), "is not a login module that zkd knows: it has %s and %s", jaas.DigestLoginModule, jaas.Krb5LoginModule)
		}
	}
	if _, ok := users["super"]; ok && raw.superPassword.IsSet() {
		users["super"] = raw.superPassword.Reveal()
	}
	c.SASL.On = true
	if digest {
		c.SASL.Users = sasl.NewUsers(users)
	}
}

// kerberos reads the keytab of a Krb5LoginModule.
func (l *loader) kerberos(m jaas.Module, at func(line int, key string) property) {
	useKeyTab, _ := m.Option("useKeyTab")
	if useCache, _ := m.Option("useTicketCache"); !strings.EqualFold(useKeyTab.Value, "true") || strings.EqualFold(useCache.Value, "true") {
		l.fail(at(m.Line, m.Class), "needs the option useKeyTab=true, and not useTicketCache: the server takes its key from a keytab")
		return
	}
	keytab, hasKeytab := m.Option("keyTab")
	principal, hasPrincipal := m.Option("principal")
	if !hasKeytab || !hasPrincipal {
		l.fail(at(m.Line, m.Class), "needs the options keyTab and principal")
		return
	}
	p := at(keytab.Line, "keyTab")
	l.c.raw.sasl.keytab = strings.TrimPrefix(keytab.Value, "FILE:")
	k, err := sasl.OpenKerberos(l.c.raw.sasl.keytab, principal.Value, l.read)
	if err != nil {
		l.fail(p, "%s: %v", keytab.Value, err)
		return
	}
	l.c.SASL.Kerberos = k
}
