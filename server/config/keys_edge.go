package config

import (
	"net"
	"slices"
	"strings"
	"time"
)

// edgePrefix begins the keys of zkd edge.
const edgePrefix = "edge."

// Edge configures zkd edge.
type Edge struct {
	// On means that the configuration is that of an edge, and of no server.
	On bool
	// Upstream are the servers, as host:port,host:port, or the name of SRV records.
	Upstream string
	// Listen are the addresses for clients: host:port, or unix:FILE.
	Listen []string
	// Handover is the socket at which the edge hands over to its successor, "" for none.
	Handover string
	// HTTP is the address of /metrics and /readyz, "" for none.
	HTTP string
	// TLS is for the connections to the servers. Any of the files implies it.
	TLS           bool
	CA, Cert, Key string
	// Connections is how many connections to each server carry the clients' sessions, 0 for one for each session. Default 2.
	Connections int
	// MaxClients is how many clients there may be. Default 10000.
	MaxClients int
	// MaxBuffer is the servers' jute.maxbuffer. Default 1048575.
	MaxBuffer int
	// Identities is the file that says for whom the servers are to take each client, "" for none: then they take them for the edge.
	Identities string
	// Cached are the subtrees whose reads are answered from memory. CachedBytes is how much they may take. Default 64 MiB.
	Cached      []string
	CachedBytes int64
	// Stale are the subtrees that read-only sessions are shown while no server is reached, for StaleFor. Default 10 minutes.
	Stale    []string
	StaleFor time.Duration
	// GraceAfterClose is how long the session lasts of a client that has gone without closing it. 0 is its timeout. Default 0.
	GraceAfterClose time.Duration

	login [len(edgeLogin)]string
}

// edgeLogin are the keys of a login, and the flags that they stand for.
var edgeLogin = [...]struct{ key, flag, doc string }{
	{"edge.sasl", "sasl", "Mechanism of the edge's login; `gssapi` is `kerberos`."},
	{"edge.sasl.user", "sasl-user", "User that logs in; with edge.kerberos.keytab the principal."},
	{"edge.sasl.passwordFile", "sasl-password-file", "File with the user's password."},
	{"edge.kerberos.keytab", "kerberos-keytab", "File with the key of the principal."},
	{"edge.kerberos.cache", "kerberos-cache", "File with tickets, if there is no keytab."},
	{"edge.kerberos.config", "kerberos-config", "krb5.conf, if it is not /etc/krb5.conf."},
	{"edge.kerberos.service", "kerberos-service", "Name of the servers' principals, or one whole principal; `zookeeper` if it is not set."},
}

// EachLogin calls f for each key of a login by SASL, with the flag that it stands for and its value, "" if it is not set.
func (e *Edge) EachLogin(f func(key, flag, value string) error) error {
	for i, value := range e.login {
		if err := f(edgeLogin[i].key, edgeLogin[i].flag, value); err != nil {
			return err
		}
	}
	return nil
}

func edgeKeys(c *Config) []Key {
	e := &c.Edge
	keys := []Key{
		{Name: "edge.upstream", value: text(&e.Upstream), Doc: "The servers, as a client's connect string, or the name of SRV records. Required."},
		{Name: "edge.listen", Default: "127.0.0.1:2181", value: addresses(&e.Listen), Doc: "Addresses for clients; `unix:FILE` is a socket in the file system."},
		{Name: "edge.handover", value: path(&e.Handover), Doc: "Socket at which a [successor](edge.md#replacing-an-edge) of the same user takes over. Only on Linux."},
		{Name: "edge.http", value: address(&e.HTTP), Doc: "Address of `/metrics` and `/readyz`."},
		{Name: "edge.tls", Default: "false", value: truth(&e.TLS), Protects: true, Doc: "Connect to the servers with TLS. The files below imply it."},
		{Name: "edge.tls.ca", value: path(&e.CA), Protects: true, Doc: "File with the authorities that the servers' certificates are checked by; those of the system if it is not set."},
		{Name: "edge.tls.cert", value: path(&e.Cert), Protects: true, Doc: "File with the edge's certificate. This file and the next are read again when they change."},
		{Name: "edge.tls.key", value: path(&e.Key), HoldsSecret: true, Protects: true, Doc: "File with its key; the password of an encrypted one is in $ZKD_EDGE_KEY_PASSWORD."},
		{Name: "edge.connections", Default: "2", value: count(&e.Connections, "connections", 0, 64),
			Doc: "Connections to each server, which carry all sessions. 0: each session has one of its own, as with servers other than zkd's."},
		{Name: "edge.identities", value: path(&e.Identities), Protects: true,
			Doc: "File with the [identities](edge.md#users-of-a-host) of the users of this host. It is read again when it changes. Needs edge.tls.cert or edge.sasl. Only on Linux."},
		{Name: "edge.cached", value: subtrees(&e.Cached),
			Doc: "Subtrees, at most 16, whose reads and watches are answered from [memory](edge.md#cached-subtrees) where that can be."},
		{Name: "edge.cachedBytes", Default: "67108864", value: bytesOf64(&e.CachedBytes, 1, maxInt), Doc: "Memory of the cached and the stale subtrees. One for which there is not enough is given up."},
		{Name: "edge.stale", value: subtrees(&e.Stale),
			Doc: "Subtrees that clients which accept a read-only session are shown [while no server is reached](edge.md#while-no-server-is-reached): those of edge.cached, or others that are not below them; at most 16 in all."},
		{Name: "edge.staleFor", Default: "600000", value: millis(&e.StaleFor, 1, maxInt), Doc: "How long they are shown after they were known to be current."},
		{Name: "edge.maxClients", Default: "10000", value: count(&e.MaxClients, "clients", 1, 1_000_000), Doc: "The most clients with a session at a time; others are refused."},
		{Name: "edge.maxBuffer", Default: "1048575", value: bytesOf(&e.MaxBuffer, 1, MaxRequest), Doc: "The servers' jute.maxbuffer. Writes may have 8 bytes less."},
		{Name: "edge.graceAfterClose", Default: "0", value: millis(&e.GraceAfterClose, 0, maxInt),
			Doc: "When a client's connection is lost, the edge closes its session after this time, unless it is resumed. 0: it lasts for its timeout."},
	}
	for i, l := range edgeLogin {
		v := text(&e.login[i])
		if l.flag == "sasl" {
			v = oneOf(&e.login[i], "digest-md5", "scram-sha-256", "scram-sha-512", "plain", "kerberos", "gssapi")
		}
		keys = append(keys, Key{Name: l.key, value: v, Protects: true, HoldsSecret: l.flag == "sasl-password-file" || l.flag == "kerberos-keytab", Doc: l.doc})
	}
	for i := range keys {
		keys[i].Status = OfEdge
	}
	return keys
}

// addresses are listeners, with commas between them.
func addresses(field *[]string) value {
	v := list(field)
	v.allowed = "addresses such as 127.0.0.1:2181, or unix:FILE, with commas between them"
	split := v.set
	v.set = func(text string) bool {
		split(text)
		for _, a := range *field {
			if file, isFile := strings.CutPrefix(a, "unix:"); isFile && file != "" {
				continue
			}
			if !isAddress(a) {
				return false
			}
		}
		return len(*field) > 0
	}
	return v
}

// maxSubtrees is how many subtrees can be cached: zkd.maxFeedsPerConnection of a server.
const maxSubtrees = 16

// subtrees are paths, with commas between them.
func subtrees(field *[]string) value {
	v := list(field)
	v.allowed = "paths such as /services, with commas between them, none of which is below another one or /zookeeper"
	split := v.set
	v.set = func(text string) bool {
		split(text)
		for i, path := range *field {
			if !strings.HasPrefix(path, "/") || path != "/" && strings.HasSuffix(path, "/") || strings.Contains(path, "//") || isBelow(path, "/zookeeper") {
				return false
			}
			for _, other := range (*field)[:i] {
				if isBelow(path, other) || isBelow(other, path) {
					return false
				}
			}
		}
		return len(*field) <= maxSubtrees
	}
	return v
}

func isBelow(path, of string) bool { return path == of || of == "/" || strings.HasPrefix(path, of+"/") }

// address is a listener.
func address(field *string) value {
	v := text(field)
	v.allowed = "an address such as 127.0.0.1:7001"
	v.set = func(text string) bool {
		*field = text
		return isAddress(text)
	}
	return v
}

func isAddress(text string) bool {
	host, p, err := net.SplitHostPort(text)
	_, ok := port(p, 0)
	return err == nil && ok && (host == "" || validHost(host))
}

// LoadEdge is Load for the configuration of an edge. Without a path there are the settings alone.
func LoadEdge(path string, on ...Setting) (*Config, []Warning, error) {
	l := newLoader(readFile)
	l.c.Edge.On = true
	var text []byte
	if path != "" {
		var err error
		if text, err = readFile(path); err != nil {
			return nil, nil, err
		}
	}
	c, warnings, err := l.load(text, path, on)
	if err == nil {
		c.File = path
	}
	return c, warnings, err
}

// isEdges reports whether a file is that of an edge: it has a key of one, and no place for a server's data.
func (l *loader) isEdges(props []property) bool {
	edges := false
	for _, p := range props {
		_, name, _ := l.row(p)
		if name == "dataDir" {
			return false
		}
		edges = edges || strings.HasPrefix(name, edgePrefix)
	}
	return edges
}

// edge checks the configuration of an edge. It has no members.
func (l *loader) edge(members []property) {
	for _, p := range members {
		l.misplaced(Key{}, p)
	}
	l.rejectUnprotected()
	e := &l.c.Edge
	if e.Upstream == "" {
		l.fail(property{key: "edge.upstream", origin: Origin{File: l.name}}, "the value is missing: it must be the servers, such as zk1:2181,zk2:2181,zk3:2181")
	}
	if e.Key != "" && e.Cert == "" {
		l.fail(l.set["edge.tls.key"], "needs edge.tls.cert, the file of its certificate")
	}
	l.staleSubtrees(e)
	e.TLS = e.TLS || e.CA+e.Cert+e.Key != ""
}

// staleSubtrees checks the stale subtrees beside the cached ones.
func (l *loader) staleSubtrees(e *Edge) {
	all := len(e.Cached)
	for _, path := range e.Stale {
		if slices.Contains(e.Cached, path) {
			continue
		}
		all++
		for _, other := range e.Cached {
			if isBelow(path, other) || isBelow(other, path) {
				l.fail(l.set["edge.stale"], "%s and %s of edge.cached are one below the other: have the same subtree in both", path, other)
			}
		}
	}
	if all > maxSubtrees {
		l.fail(l.set["edge.stale"], "there are %d subtrees with those of edge.cached: at most %d can be kept", all, maxSubtrees)
	}
}

// misplaced handles a key of a server in the configuration of an edge, and the reverse.
func (l *loader) misplaced(k Key, p property) {
	switch {
	case l.c.Edge.On && k.Status != OfEdge:
		l.fail(p, "is a key of servers; those of zkd edge begin with %s", edgePrefix)
	case !l.c.Edge.On && k.Status == OfEdge:
		l.warn(p, "has no effect on a server: it is for zkd edge, with a file of its own")
	}
}

// Wrong returns an error in the value of a key, with its place.
func (c *Config) Wrong(key string, err error) error {
	p := c.settings[key]
	return &Error{Origin: p.origin, Key: key, Value: p.value, Text: err.Error()}
}
