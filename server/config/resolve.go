package config

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/server/auth/sasl"
)

const (
	minSegmentSize = 4 << 20 // bytes
	minSnapCount   = 2
	minSnapRetain  = 3
)

// resolve computes the fields that depend on others.
func (l *loader) resolve() {
	c := l.c
	l.resolveMyID()
	if c.DataLogDir == "" {
		c.DataLogDir = c.DataDir
	}
	if c.MinSessionTimeout < 0 {
		c.MinSessionTimeout = c.defaultMinSession()
	}
	if c.MaxSessionTimeout < 0 {
		c.MaxSessionTimeout = c.defaultMaxSession()
	}
	c.InitLimit = c.ticks(c.raw.initLimit)
	c.SyncLimit = c.ticks(c.raw.syncLimit)
	l.atLeast("snapCount", &c.SnapCount, minSnapCount)
	l.atLeast("autopurge.snapRetainCount", &c.SnapRetainCount, minSnapRetain)
	l.resolveMetrics()
	l.resolveSegmentSize()
	l.resolveTTL()
	l.resolveAdmin()
	l.applySecure()
	l.resolveAudit()
	l.resolveLimits()
	l.resolveRole()
	l.resolvePeers()
	l.resolveSASL()
	l.resolveIdentities()
	l.resolveEdges()
	l.resolveAuth()
	if words := c.FourLetterWhitelist; c.ReadOnlyMode && !slices.Contains(words, "*") && !slices.Contains(words, "isro") {
		c.FourLetterWhitelist = append(c.FourLetterWhitelist, "isro")
	}
}

// mostSessionTimeout is the longest timeout that the protocol can encode.
const mostSessionTimeout = maxInt * time.Millisecond

func (c *Config) defaultMinSession() time.Duration { return min(c.ticks(2), mostSessionTimeout) }
func (c *Config) defaultMaxSession() time.Duration { return min(c.ticks(20), mostSessionTimeout) }

// ticks returns n times tickTime, or the longest duration if that is less.
func (c *Config) ticks(n int) time.Duration {
	if n > 0 && c.TickTime > math.MaxInt64/time.Duration(n) {
		return math.MaxInt64
	}
	return time.Duration(n) * c.TickTime
}

// atLeast raises a number that Apache's server raises too.
func (l *loader) atLeast(key string, field *int, least int) {
	if *field < least {
		l.warn(l.set[key], "less than %d counts as %d", least, least)
		*field = least
	}
}

// resolveTTL turns TTL nodes off, unless they are asked for, if a server has an id that they do not allow:
// Apache's server has them off by default.
func (l *loader) resolveTTL() {
	for _, s := range l.c.Members.Servers {
		if s.ID > maxTTLServerID && s.ID <= maxServerID && l.c.ExtendedTypes && !l.given("extendedTypesEnabled") {
			l.warn(s.line(), "TTL nodes do not allow an id above %d: extendedTypesEnabled is false", maxTTLServerID)
			l.c.ExtendedTypes = false
		}
	}
}

func (l *loader) resolveSegmentSize() {
	c, key := l.c, "zkd.walSegmentSizeKb"
	if c.WALSegmentSize == 0 {
		c.WALSegmentSize, key = c.raw.preAllocSize, "preAllocSize"
	}
	least := max(minSegmentSize, 8*int64(c.MaxBuffer))
	if c.WALSegmentSize >= least {
		return
	}
	if p, given := l.set[key]; given {
		l.warn(p, "is raised to %d KiB, which the log needs for jute.maxbuffer", (least+1023)/1024)
	}
	c.WALSegmentSize = (least + 1023) / 1024 * 1024
}

func (l *loader) resolveAuth() {
	c := l.c
	if c.EnforceAuth && len(c.EnforceAuthSchemes) == 0 {
		p := l.set["enforce.auth.enabled"]
		l.fail(property{key: "enforce.auth.schemes", origin: p.origin}, "enforce.auth.enabled=true needs at least one scheme, such as digest")
	}
	if !c.EnforceAuth {
		return
	}
	if slices.Contains(c.EnforceAuthSchemes, "digest") && !c.DigestAuth {
		l.warn(l.set["DigestAuthenticationProvider.enabled"], "is false, so no client can satisfy the scheme digest of enforce.auth.schemes")
	}
	for _, scheme := range c.EnforceAuthSchemes {
		if scheme == "ensemble" || scheme != "digest" && !c.HasScheme(scheme) {
			reason := "it has no scheme " + scheme + ", so no client can satisfy that"
			switch scheme {
			case sasl.Scheme:
				reason = l.noSASL()
			case "x509":
				reason += ": x509 needs secureClientPort or authProvider.1=" + apacheAuth + "X509AuthenticationProvider"
			case "jwt":
				reason += ": jwt needs zkd.jwt.issuer"
			}
			l.unprotected = append(l.unprotected, unprotected{l.set["enforce.auth.schemes"], reason})
		}
	}
}

// resolveRole determines this server's role from its own server.N line: the line takes
// precedence over peerType, and its client part over a missing clientPort.
func (l *loader) resolveRole() {
	c := l.c
	c.Observer = c.raw.peerType == "observer"
	self, listed := c.Members.Server(c.MyID)
	if !listed {
		return
	}
	if p, given := l.set["peerType"]; given && c.Observer != self.Observer {
		l.warn(p, "differs from the role in server.%d, which counts", self.ID)
	}
	c.Observer = self.Observer
	l.portOfLine("clientPort", "client part", &self, self.Client, &c.ClientPort, &c.ClientPortAddress)
	if to, lacks := self.SecureClient, l.firstSet("ssl.keyStore.location", "secureClientPort").key == ""; lacks && to.Port != 0 && self.origin.File == c.DynamicConfigFile {
		l.warn(self.line(), "has the secure client port %s, which stays closed, as this server has no keys for it: set ssl.keyStore.location and ssl.trustStore.location", to)
		return
	}
	l.portOfLine("secureClientPort", "secure client part", &self, self.SecureClient, &c.ClientTLS.Port, &c.ClientTLS.Address)
}

// portOfLine takes a port for clients from this server's own line, if that has it.
func (l *loader) portOfLine(key, part string, self *Server, line Endpoint, port *int, address *string) {
	if line.Port == 0 {
		return
	}
	if p, given := l.set[key]; given && *port >= 0 {
		wildcard := *address == "" || *address == "0.0.0.0" || *address == "::"
		if *port != line.Port || !wildcard && *address != line.Host {
			l.fail(p, "conflicts with the %s of server.%d, %s: remove one of them", part, self.ID, line)
		}
	}
	*port, *address = line.Port, line.Host
}

// validate checks settings against each other.
func (l *loader) validate() {
	c := l.c
	if c.DataDir == "" && !l.failed("dataDir") {
		l.fail(l.missing("dataDir"), "is missing: set it to the directory for snapshots and the log")
	}
	for _, key := range []string{"dataDir", "dataLogDir"} {
		p, given := l.set[key]
		if given && p.value != "" && !filepath.IsAbs(p.value) && !strings.HasPrefix(p.value, ".") {
			l.warn(p, "is relative to the working directory of the server; write ./%s to say that it is meant so", p.value)
		}
	}
	if c.MinSessionTimeout > c.MaxSessionTimeout {
		p := l.set["minSessionTimeout"]
		if p.key == "" {
			p = l.set["maxSessionTimeout"]
		}
		l.fail(p, "the smallest session timeout would be %v, and the largest %v, which is less", c.MinSessionTimeout, c.MaxSessionTimeout)
	}
	if p, given := l.set["secureClientPortAddress"]; given && c.ClientTLS.Port < 0 && !l.failed("secureClientPort") {
		l.fail(p, "needs secureClientPort")
	}
	if c.ClientPort < 0 && !l.failed("clientPort") {
		switch p, given := l.set["clientPortAddress"]; {
		case given:
			l.fail(p, "needs clientPort")
		case c.ClientTLS.Port >= 0 || l.failed("secureClientPort"):
		case !c.Replicated() && !l.failed("dynamicConfigFile"): // whose line of this server may have it
			l.fail(l.missing("clientPort"), "is missing: set it to the port for clients, usually 2181")
		}
	}
	l.validateMembers()
	l.validatePorts()
}

// ownPort is a port on which this server listens.
type ownPort struct {
	p    property // that sets the port
	host string
	port int
}

// ownPorts returns the ports of this server that are not chosen by the system.
func (l *loader) ownPorts() (list []ownPort) {
	c := l.c
	add := func(key string, used bool, host string, port int) {
		p, given := l.set[key]
		if !given {
			p = l.missing(key)
		}
		p.value = ""
		if used && port > 0 {
			list = append(list, ownPort{p, host, port})
		}
	}
	add("clientPort", true, c.ClientPortAddress, c.ClientPort)
	add("secureClientPort", true, c.ClientTLS.Address, c.ClientTLS.Port)
	add("metricsProvider.httpPort", c.Metrics, c.MetricsHost, c.MetricsPort)
	add("metricsProvider.httpsPort", c.Metrics, c.MetricsHost, c.MetricsTLS.Port)
	add("admin.serverPort", c.Admin.Enabled, c.Admin.Host, c.Admin.Port)
	self, listed := c.Members.Server(c.MyID)
	if !listed || !c.Replicated() {
		return list
	}
	for _, a := range self.Addrs {
		host := a.Host
		if c.QuorumListenOnAllIPs {
			host = ""
		}
		list = append(list, ownPort{self.line(), host, a.QuorumPort})
	}
	return list
}

// validatePorts checks that no two listeners of this server need the same port.
func (l *loader) validatePorts() {
	list := l.ownPorts()
	for i, a := range list {
		for _, b := range list[:i] {
			if a.port != b.port || a.p.key == b.p.key || !overlap(a.host, b.host) {
				continue
			}
			remedy := ""
			if a.p.key == "secureClientPort" && b.p.key == "clientPort" {
				remedy = ": client.portUnification=true takes TLS and plain connections on clientPort"
			}
			l.fail(a.p, "has the port of %s, %d%s", b.p.key, a.port, remedy)
		}
	}
}

// overlap reports whether one can't listen at both addresses with the same port.
func overlap(a, b string) bool {
	all := func(host string) bool { return host == "" || isWildcard(host) }
	return all(a) || all(b) || a == b || a == "localhost" && isLoopback(b) || b == "localhost" && isLoopback(a)
}

// missing returns the property of a key that is not in the file.
func (l *loader) missing(key string) property {
	return property{key: key, origin: Origin{File: l.name}}
}

// failed reports whether there already is an error about the key.
func (l *loader) failed(key string) bool {
	return slices.ContainsFunc(l.errs, func(e *Error) bool { return strings.TrimPrefix(e.Key, "zookeeper.") == key })
}
