package config

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/server/secure"
)

func adminKeys(c *Config) []Key {
	raw := &c.raw.admin
	return []Key{
		{Name: "admin.enableServer", value: truth(&c.Admin.Enabled),
			Doc: "Open the AdminServer. Default: only if admin.serverPort is set."},
		{Name: "admin.serverAddress", Default: "127.0.0.1", value: host(&c.Admin.Host), Protects: true,
			Doc: "Host name or address of the AdminServer. Everybody who reaches it can read what its commands show."},
		{Name: "admin.serverPort", Default: "8080", value: number(&c.Admin.Port, 0, 65535),
			Doc: "TCP port of the AdminServer; 0 is any free port."},
		{Name: "admin.commandURL", Default: "/commands", value: text(&c.Admin.URL, "/commands", "/zk"),
			Doc: "Path of the AdminServer's commands."},
		{Name: "zkd.api", Default: "false", value: truth(&c.Admin.API),
			Doc: "The AdminServer's port has the [HTTP API](api.md), too. Off loopback it needs admin.forceHttps=true."},
		{Name: "zkd.console", Default: "false", value: truth(&c.Admin.Console),
			Doc: "The AdminServer's port has the [console](console.md) at /console/. Needs zkd.api=true."},
		{Name: "admin.portUnification", Default: "false", value: truth(&raw.unified), Protects: true,
			Doc: "The AdminServer's port takes connections with TLS, too. Its files are those of ssl.quorum.keyStore and ssl.quorum.trustStore."},
		{Name: "admin.forceHttps", Default: "false", value: truth(&raw.forceHTTPS), Protects: true,
			Doc: "The AdminServer's port takes only connections with TLS."},
		{Name: "admin.needClientAuth", Default: "false", value: truth(&raw.needClientAuth), Protects: true,
			Doc: "A client must show a certificate of an authority of ssl.quorum.trustStore.location. Needs admin.forceHttps=true."},
		{Name: "admin.snapshot.enabled", Default: "true", Live: true, value: truth(&c.Admin.Snapshots),
			Doc: "Allow the AdminServer's command snapshot."},
		{Name: "admin.rateLimiterIntervalInMS", Default: "300000", Live: true, value: millis(&c.Admin.SnapshotInterval, 0, maxInt),
			Doc: "Limits how often the command snapshot may be given. As in Apache's server, 300000 means 0.3 s."},
	}
}

func (l *loader) resolveAdmin() {
	a := &l.c.Admin
	if _, given := l.set["admin.enableServer"]; !given {
		_, a.Enabled = l.set["admin.serverPort"]
	}
	if !strings.HasPrefix(a.URL, "/") || len(a.URL) < 2 || strings.ContainsAny(a.URL, " {}?#") || slices.Contains([]string{"/livez", "/readyz", "/healthz"}, a.URL) {
		l.fail(l.set["admin.commandURL"], "must be a path such as /commands")
	}
	if a.Console && !a.API {
		l.fail(l.set["zkd.console"], "needs zkd.api=true: the console shows what the HTTP API tells it")
	}
	switch {
	case !a.API:
	case !a.Enabled:
		l.fail(l.set["zkd.api"], "needs admin.serverPort")
	case !isLoopback(a.Host) && !l.c.raw.admin.forceHTTPS:
		l.fail(l.set["zkd.api"], "needs admin.forceHttps=true, as admin.serverAddress is reached from other machines")
	}
}

// resolveAdminTLS takes the TLS settings of the links between servers for the AdminServer,
// as Apache's server does.
func (l *loader) resolveAdminTLS() {
	a, raw := &l.c.Admin, &l.c.raw.admin
	a.Accept, a.AcceptPlain = raw.unified || raw.forceHTTPS, !raw.forceHTTPS
	a.TLS = l.c.QuorumTLS.Settings
	a.TLS.ClientAuth = secure.NoClientAuth
	if raw.needClientAuth {
		a.TLS.ClientAuth = secure.NeedClientAuth
	}
	if raw.needClientAuth && a.AcceptPlain {
		l.fail(l.set["admin.needClientAuth"], "needs admin.forceHttps=true: a connection without TLS has no certificate")
	}
}
