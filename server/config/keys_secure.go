package config

func secureKeys(c *Config) []Key {
	return []Key{
		{Name: "zkd.secure", Default: "false", value: truth(&c.Secure), Protects: true,
			Doc: "Turn on [every protection](security.md#zkdsecure) that clients do not notice, and do not start without TLS."},
	}
}

// applySecure sets what zkd.secure turns on, as far as the configuration does not say
// otherwise: what it says then is judged by requireSecure.
func (l *loader) applySecure() {
	c := l.c
	if !c.Secure {
		return
	}
	if _, given := l.set["audit.enable"]; !given {
		c.Audit.Enable = true
	}
	if _, given := l.set["zkd.audit.reads"]; !given {
		c.Audit.Reads = "refused"
	}
	if _, given := l.set["metricsProvider.httpHost"]; !given && c.MetricsPort >= 0 {
		c.MetricsHost = "127.0.0.1"
	}
}

// requireSecure reports the settings with which zkd.secure can't keep its promise.
func (l *loader) requireSecure() {
	c := l.c
	if !c.Secure {
		return
	}
	secure := l.set["zkd.secure"]
	secure.value = ""
	refuse := func(key, why string) {
		p, given := l.set[key]
		if !given {
			p = secure
			why = key + " " + why
		}
		p.value = ""
		if !l.failed(key) {
			l.fail(p, "%s, as zkd.secure=true requires", why)
		}
	}
	if p := l.set["secureClientPort"]; !isPort(p.value) {
		refuse("secureClientPort", "must be a port with TLS for clients, with ssl.keyStore.location and ssl.trustStore.location")
	}
	if c.ClientPort >= 0 && !isLoopback(c.ClientPortAddress) {
		refuse("clientPort", "must go, or clientPortAddress be 127.0.0.1: it has no TLS")
	}
	if c.Replicated() && !c.QuorumTLS.Dial {
		refuse("sslQuorum", "must be true: a secret alone does not keep others from listening")
	}
	if c.Replicated() && c.QuorumTLS.AcceptPlain && c.QuorumTLS.Dial {
		refuse("portUnification", "must be false: the quorum port takes links without TLS")
	}
	for _, bad := range []struct {
		set       bool
		key, must string
	}{
		{c.SkipACL, "skipACL", "must be no"},
		{c.IgnoreSecurityKeys, "zkd.ignoreSecurityKeys", "must be false"},
		{!c.Audit.Enable, "audit.enable", "must be true"},
		{c.Audit.Reads == "none", "zkd.audit.reads", "must be refused or all"},
		{c.AuthFailuresPerSecond == 0, "zkd.authFailuresPerSecond", "must be at least 1"},
		{c.Metrics && c.MetricsPort >= 0 && !isLoopback(c.MetricsHost), "metricsProvider.httpHost", "must be 127.0.0.1, or metricsProvider.httpPort give way to metricsProvider.httpsPort: the metrics have no TLS"},
		{c.Admin.Enabled && c.Admin.AcceptPlain && !isLoopback(c.Admin.Host), "admin.serverAddress", "must be 127.0.0.1, or admin.forceHttps be true: the AdminServer has no TLS"},
		{c.Traces.plainAndFar(), "zkd.traces.endpoint", "must begin with https://, or be on 127.0.0.1: spans name the paths of znodes"},
	} {
		if bad.set {
			refuse(bad.key, bad.must)
		}
	}
}

func isPort(text string) bool {
	n, ok := port(text, 1)
	return ok && n > 0
}
