package config

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Identities configures the schemes by which clients get identities, besides digest and
// ip.
type Identities struct {
	// Schemes are those that authProvider.* turns on, sorted: of x509 and ensemble.
	Schemes []string
	// X509 configures the scheme x509.
	X509 X509
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

// rawIdentities holds values that are only used to compute Identities.
type rawIdentities struct {
	sanType string
}

const apacheAuth = "org.apache.zookeeper.server.auth."

// providerSchemes are the schemes of Apache's authentication providers, by the names of
// their classes without the package.
var providerSchemes = map[string]string{
	"DigestAuthenticationProvider":   "digest",
	"IPAuthenticationProvider":       "ip",
	"X509AuthenticationProvider":     "x509",
	"EnsembleAuthenticationProvider": "ensemble",
}

func identityKeys(c *Config) []Key {
	x, raw := &c.Identities.X509, &c.raw.identities
	const san = "ssl.X509AuthenticationProvider."
	names := func(key string) []string { return []string{"ssl.x509." + key, "ssl." + key} }
	return []Key{
		{Name: "authProvider.*", value: providerClass(), Protects: true,
			Doc: "Turn a scheme on, by the class of Apache's server: `authProvider.1=" + apacheAuth + "X509AuthenticationProvider`, or the same with EnsembleAuthenticationProvider. Those of digest and ip are accepted and not needed. Any other class stops the start."},
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
		{Name: "ensembleAuthName", value: list(&c.Identities.EnsembleNames, "", "blue,green"), Protects: true,
			Doc: "Names of this ensemble, for the scheme ensemble: a client that presents another one with addAuth is disconnected, and tries another server. It is no protection against clients that present none."},
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
				strings.Join(slices.Sorted(maps.Keys(providerSchemes)), ", ")})
		case "digest", "ip": // are there anyway
		default:
			schemes[scheme] = true
		}
	}
	l.c.Identities.Schemes = slices.Sorted(maps.Keys(schemes))
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
			l.warn(p, "has no effect without authProvider.1=%sX509AuthenticationProvider", apacheAuth)
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
	}
	return slices.Contains(c.Identities.Schemes, scheme)
}
