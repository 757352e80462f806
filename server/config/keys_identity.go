package config

import (
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/auth/sasl"
)

// Identities configures the schemes by which clients get identities, besides digest and
// ip.
type Identities struct {
	// Schemes are those that authProvider.* and TLS for clients turn on, sorted: of x509 and
	// ensemble.
	Schemes []string
	// X509 configures the scheme x509.
	X509 X509
	// JWT configures the scheme jwt.
	JWT JWT
	// OIDC configures how people sign in at the issuer of tokens.
	OIDC OIDC
	// EnsembleNames are the names that the scheme ensemble accepts. Empty means any.
	EnsembleNames []string
}

// X509 says where a client's certificate has the client's identity.
type X509 struct {
	// IDType is "SDN" (the subject), "SAN" (an alternative name) or "SPIFFE". Default SDN.
	IDType string
	// SANType is the type of the alternative name, by its number in RFC 5280.
	SANType int
	// SANMatch selects the name, and group SANGroup of SANExtract is the identity.
	SANMatch, SANExtract *regexp.Regexp
	SANGroup             int
	// SuperUser is the identity that is allowed everything, "" if there is none.
	SuperUser string
}

// JWT says which tokens prove identities.
type JWT struct {
	// Issuer is the issuer of the tokens; "" turns the scheme off.
	Issuer string
	// Audiences are the names of this service, one of which a token must have.
	Audiences []string
	// Keys is the issuer's JSON Web Key Set: a file, or an address that begins with
	// "https://"; "" means the address that the issuer names.
	Keys string
	// Algorithms are the accepted signature algorithms. Default RS256, PS256, ES256, EdDSA.
	Algorithms []string
	// IDClaim is the claim that has the identity. Default sub.
	IDClaim string
	// SuperUser is the identity that is allowed everything, "" if there is none.
	SuperUser string
	// ClockSkew is how far the clocks of issuer and server may differ. Default 1 min.
	ClockSkew time.Duration
	// Refresh is the age at which the keys are read again. Default 5 min.
	Refresh time.Duration
}

// OIDC says as whom the console has people sign in at the issuer of JWT.
type OIDC struct {
	// ClientID is the console's name there; "" means that nobody signs in so.
	ClientID string
	// SecretFile has the Secret that the issuer has given out with the name, "" if there is none.
	SecretFile string
	Secret     secret.Text
	// Scopes are what is asked for. Default openid.
	Scopes []string
}

// KeysURL reports whether the keys come from an address: Keys, or the one that the issuer
// names if Keys is empty.
func (j *JWT) KeysURL() bool { return j.Keys == "" || strings.HasPrefix(j.Keys, "https://") }

// rawIdentities holds values that are only used to compute Identities.
type rawIdentities struct {
	sanType string
}

var jwtAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

const apacheAuth = "org.apache.zookeeper.server.auth."

// providerSchemes are the schemes of Apache's authentication providers, by the names of
// their classes without the package.
var providerSchemes = map[string]string{
	"DigestAuthenticationProvider":   "digest",
	"IPAuthenticationProvider":       "ip",
	"X509AuthenticationProvider":     "x509",
	"EnsembleAuthenticationProvider": "ensemble",
	"SASLAuthenticationProvider":     "sasl",
}

func identityKeys(c *Config) []Key {
	x, j, o, raw := &c.Identities.X509, &c.Identities.JWT, &c.Identities.OIDC, &c.raw.identities
	const san = "ssl.X509AuthenticationProvider."
	names := func(key string) []string { return []string{"ssl.x509." + key, "ssl." + key} }
	return []Key{
		{Name: "authProvider.*", value: providerClass(), Protects: true,
			Doc: "Turn a scheme on: `authProvider.1=" + apacheAuth + "X509AuthenticationProvider`, or the same with EnsembleAuthenticationProvider. That of sasl needs java.security.auth.login.config. TLS for clients turns x509 on by itself. Those of digest and ip are not needed. Any other class stops the start."},
		{Name: san + "clientCertIdType", Aliases: names("clientCertIdType"), Default: "SDN", value: oneOf(&x.IDType, "SDN", "SAN", "SPIFFE"), Protects: true,
			Doc: "Where a certificate has the identity of scheme x509: the subject's distinguished name (SDN), an alternative name (SAN) by the next four keys, or the SPIFFE ID. A certificate without it is refused."},
		{Name: san + "clientCertIdSanMatchType", Aliases: names("clientCertIdSanMatchType"), value: oneOf(&raw.sanType, "1", "2", "4", "6"), Protects: true,
			Doc: "Type of the alternative name: 1 mail address, 2 DNS name, 4 directory name, 6 URI. Required with SAN."},
		{Name: san + "clientCertIdSanMatchRegex", Aliases: names("clientCertIdSanMatchRegex"), Default: ".*", value: pattern(&x.SANMatch, "^spiffe:"), Protects: true,
			Doc: "What matches exactly one of the alternative names of that type, anywhere in it."},
		{Name: san + "clientCertIdSanExtractRegex", Aliases: names("clientCertIdSanExtractRegex"), Default: ".*", value: pattern(&x.SANExtract, "^[^:]*:(.*)"), Protects: true,
			Doc: "What matches the identity within that name."},
		{Name: san + "clientCertIdSanExtractMatcherGroupIndex", Aliases: names("clientCertIdSanExtractMatcherGroupIndex"), Default: "0", value: number(&x.SANGroup, 0, 99), Protects: true,
			Doc: "Number of the group of clientCertIdSanExtractRegex that is the identity; 0 is all that it matches."},
		{Name: "X509AuthenticationProvider.superUser", value: text(&x.SuperUser, "CN=admin,O=Acme"),
			Doc: "Identity of scheme x509 that may do everything, exactly as whoAmI shows it."},
		{Name: "zkd.jwt.issuer", value: text(&j.Issuer, ""), Protects: true,
			Doc: "Turns the scheme [jwt](security.md#tokens-jwt) on. The value is the provider's name, as the tokens' claim `iss` has it."},
		{Name: "zkd.jwt.audience", value: list(&j.Audiences, "zkd", "zkd,zookeeper"), Protects: true,
			Doc: "Names of this service; a token must have one of them in its claim `aud`. Required with zkd.jwt.issuer."},
		{Name: "zkd.jwt.keys", value: path(&j.Keys), Protects: true,
			Doc: "The provider's JSON Web Key Set: a file, or an address with https. Default: the `jwks_uri` of <zkd.jwt.issuer>/.well-known/openid-configuration."},
		{Name: "zkd.jwt.algorithms", Default: "RS256,PS256,ES256,EdDSA", value: list(&j.Algorithms, "RS256", strings.Join(jwtAlgorithms, ",")), Protects: true,
			Doc: "Signature algorithms that tokens may have, of " + strings.Join(jwtAlgorithms, ", ") + "."},
		{Name: "zkd.jwt.idClaim", Default: "sub", value: text(&j.IDClaim, "email"), Protects: true,
			Doc: "Claim of the token that is the client's identity, and never another user's."},
		{Name: "zkd.jwt.superUser", value: text(&j.SuperUser, "admin"),
			Doc: "Identity of scheme jwt that may do everything."},
		{Name: "zkd.jwt.clockSkew", Default: "60000", value: millis(&j.ClockSkew, 0, 600000),
			Doc: "How far the clocks of the provider and of this server may differ: a token is accepted that much longer."},
		{Name: "zkd.jwt.refreshInterval", Default: "300000", value: millis(&j.Refresh, 10000, 86400000),
			Doc: "Age at which the keys are read again; for 24 hours the old ones count if they can't be read."},
		{Name: "zkd.oidc.clientId", value: text(&o.ClientID, ""),
			Doc: "The console's name at the provider of zkd.jwt.issuer, where people [sign in](console.md#signing-in). Needs zkd.console=true and an issuer with https."},
		{Name: "zkd.oidc.clientSecretFile", HoldsSecret: true, value: path(&o.SecretFile),
			Doc: "File with the provider's secret for zkd.oidc.clientId. Default: none, the client is a public one."},
		{Name: "zkd.oidc.scopes", Default: "openid", value: list(&o.Scopes, "openid", "openid,email"),
			Doc: "Scopes that the console asks the provider for; openid is one of them."},
		{Name: "ensembleAuthName", value: list(&c.Identities.EnsembleNames, "", "blue,green"), Protects: true,
			Doc: "Names of this ensemble, for the [scheme ensemble](security.md#names-of-ensembles-ensemble)."},
	}
}

// providerClass is the name of a class. resolveProviders reads it.
func providerClass() value {
	return value{
		allowed: "a class of Apache's server",
		samples: []string{apacheAuth + "X509AuthenticationProvider", apacheAuth + "EnsembleAuthenticationProvider"},
		set:     func(string) bool { return true },
	}
}

// pattern is a regular expression.
func pattern(field **regexp.Regexp, samples ...string) value {
	return value{
		allowed: "a regular expression in the syntax of Go, which has no lookaround, backreferences, atomic groups and possessive quantifiers",
		samples: samples,
		set: func(text string) (ok bool) {
			re, err := regexp.Compile(text)
			*field = re
			return err == nil
		},
		get: func() string {
			if *field == nil {
				return ""
			}
			return (*field).String()
		},
	}
}

// resolveIdentities computes Identities.
func (l *loader) resolveIdentities() {
	l.resolveProviders()
	l.resolveX509()
	l.resolveJWT()
	l.resolveOIDC()
	l.checkSuperDigest()
	if p, given := l.set["ensembleAuthName"]; given && p.value != "" && !l.c.HasScheme("ensemble") {
		l.unprotected = append(l.unprotected, unprotected{p, "the scheme ensemble is off: it needs authProvider.1=" + apacheAuth + "EnsembleAuthenticationProvider"})
	}
}

// resolveProviders reads the keys that begin with "authProvider.".
func (l *loader) resolveProviders() {
	schemes := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(l.set)) {
		p := l.set[name]
		if !strings.HasPrefix(name, "authProvider.") || !(Key{}).requestsFeature(p.value) {
			continue
		}
		class, _ := strings.CutPrefix(p.value, apacheAuth)
		switch scheme := providerSchemes[class]; scheme {
		case "":
			l.unprotected = append(l.unprotected, unprotected{p, "zkd loads no classes; of Apache's authentication providers it has " +
				strings.Join(slices.Sorted(maps.Keys(providerSchemes)), ", ") + ", and zkd.jwt.issuer turns on tokens of an OpenID Connect provider"})
		case "digest", "ip": // are there anyway
		case sasl.Scheme:
			if !l.c.SASL.On && !l.c.raw.sasl.noSection { // without the section, Apache's server serves without SASL
				l.unprotected = append(l.unprotected, unprotected{p, l.noSASL()})
			}
		default:
			schemes[scheme] = true
		}
	}
	if t := &l.c.ClientTLS; t.Used() { // as in Apache's server
		schemes["x509"] = schemes["x509"] || t.AuthScheme == "x509"
		if !schemes[t.AuthScheme] {
			l.fail(l.set["ssl.authProvider"], "there is no scheme of certificates with that name; there is x509")
		}
	}
	l.c.Identities.Schemes = slices.Sorted(maps.Keys(schemes))
}

// checkSuperDigest warns of a super user that nobody can be, such as one with a plain password.
func (l *loader) checkSuperDigest() {
	p, given := l.set["DigestAuthenticationProvider.superDigest"]
	if !given || l.failed("DigestAuthenticationProvider.digestAlg") {
		return
	}
	if err := auth.CheckDigestID(l.c.DigestAlg, l.c.SuperDigest.Reveal()); err != nil {
		l.warn(p, "nobody can be the super user: %v; make it with: zkd digest super", err)
	}
}

func (l *loader) resolveX509() {
	x := &l.c.Identities.X509
	x.SANType, _ = strconv.Atoi(l.c.raw.identities.sanType)
	const san = "ssl.X509AuthenticationProvider."
	if x.IDType == "SAN" && x.SANType == 0 && !l.failed(san+"clientCertIdSanMatchType") {
		l.fail(l.missing(san+"clientCertIdSanMatchType"), "is missing: clientCertIdType=SAN needs the type of the alternative name, such as 6 for a URI")
	}
	if x.SANExtract != nil && x.SANGroup > x.SANExtract.NumSubexp() {
		l.fail(l.set[san+"clientCertIdSanExtractMatcherGroupIndex"], "clientCertIdSanExtractRegex has %s", numberOfGroups(x.SANExtract.NumSubexp()))
	}
	for _, key := range []string{san + "clientCertIdType", "X509AuthenticationProvider.superUser"} {
		if p, given := l.set[key]; given && !l.c.HasScheme("x509") {
			l.warn(p, "has no effect without secureClientPort, client.portUnification=true or authProvider.1=%sX509AuthenticationProvider", apacheAuth)
		}
	}
}

func (l *loader) resolveJWT() {
	j := &l.c.Identities.JWT
	if j.Issuer == "" {
		for _, key := range []string{"zkd.jwt.audience", "zkd.jwt.keys", "zkd.jwt.idClaim", "zkd.jwt.algorithms"} {
			if p, given := l.set[key]; given {
				l.warn(p, "has no effect without zkd.jwt.issuer")
			}
		}
		return
	}
	if len(j.Audiences) == 0 {
		l.fail(l.missing("zkd.jwt.audience"), "is missing: without it, a token for any other service would be accepted")
	}
	for _, a := range j.Algorithms {
		if !slices.Contains(jwtAlgorithms, a) {
			l.fail(l.set["zkd.jwt.algorithms"], "has %q, which is not one of %s", a, strings.Join(jwtAlgorithms, ", "))
		}
	}
	if len(j.Algorithms) == 0 || j.IDClaim == "" {
		l.fail(l.firstSet("zkd.jwt.algorithms", "zkd.jwt.idClaim"), "the value is missing")
	}
	l.checkJWTKeys()
	for _, port := range []struct {
		key  string
		open bool
		host string
	}{
		{"clientPort", l.c.ClientPort >= 0, l.c.ClientPortAddress},
		{"admin.serverPort", l.c.Admin.Enabled && l.c.Admin.AcceptPlain, l.c.Admin.Host},
	} {
		if port.open && !isLoopback(port.host) {
			l.warn(l.set["zkd.jwt.issuer"], "clients of %s send their tokens in plain text: everybody on the way can use them until they end", port.key)
		}
	}
}

// resolveOIDC checks how people sign in.
func (l *loader) resolveOIDC() {
	o := &l.c.Identities.OIDC
	p := l.set["zkd.oidc.clientId"]
	if o.ClientID == "" {
		for _, key := range []string{"zkd.oidc.clientSecretFile", "zkd.oidc.scopes"} {
			if p, given := l.set[key]; given {
				l.warn(p, "has no effect without zkd.oidc.clientId")
			}
		}
		return
	}
	switch {
	case !l.c.Admin.Console:
		l.fail(p, "needs zkd.console=true: it is for those who sign in there")
	case !strings.HasPrefix(l.c.Identities.JWT.Issuer, "https://"):
		l.fail(p, "needs zkd.jwt.issuer with https, which is where they sign in")
	}
	if !slices.Contains(o.Scopes, "openid") {
		l.fail(l.set["zkd.oidc.scopes"], "must have openid")
	}
	if o.SecretFile == "" {
		return
	}
	text, err := l.read(o.SecretFile)
	if o.Secret = secret.NewText(strings.TrimSpace(string(text))); err == nil && !o.Secret.IsSet() {
		err = errors.New("it is empty")
	}
	if err != nil {
		l.fail(l.set["zkd.oidc.clientSecretFile"], "can't be read: %v", err)
	}
}

func (l *loader) checkJWTKeys() {
	j := &l.c.Identities.JWT
	p, given := l.set["zkd.jwt.keys"]
	switch u, err := url.Parse(j.Keys); {
	case !given && strings.HasPrefix(j.Issuer, "https://"): // it says where they are
	case !given || j.Keys == "":
		l.fail(l.missing("zkd.jwt.keys"), "is missing: set it to the provider's jwks_uri, or to a file; only an issuer with https can be asked for it")
	case strings.HasPrefix(j.Keys, "http:"):
		l.fail(p, "must begin with https: everybody on the way could replace the keys otherwise")
	case j.KeysURL() && (err != nil || u.Host == "" || u.User != nil):
		l.fail(p, "is no address of the form https://host/path")
	case !j.KeysURL():
		if _, err := l.read(j.Keys); err != nil {
			l.fail(p, "can't be read: %v", err)
		}
	}
}

func numberOfGroups(n int) string {
	if n == 0 {
		return "no group"
	}
	return plural(n, "group")
}

// HasScheme reports whether clients can have identities of a scheme.
func (c *Config) HasScheme(scheme string) bool {
	switch scheme {
	case "digest":
		return c.DigestAuth
	case "ip", "super":
		return true
	case sasl.Scheme:
		return c.SASL.On
	}
	return scheme == "jwt" && c.Identities.JWT.Issuer != "" || slices.Contains(c.Identities.Schemes, scheme)
}
