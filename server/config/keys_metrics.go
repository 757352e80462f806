package config

import (
	"slices"

	"github.com/zkd-project/zkd/server/secure"
)

const metricsTLSPrefix = "metricsProvider.ssl."

// MetricsTLS configures the metrics endpoint with TLS.
type MetricsTLS struct {
	secure.Settings
	// Port is the TCP port; 0 means any free port, and -1, the default, none.
	Port int
}

func metricsTLSKeys(c *Config) []Key {
	m := &c.MetricsTLS
	keys := []Key{
		{Name: "metricsProvider.httpsPort", Default: "-1", value: number(&m.Port, -1, 65535), Protects: true,
			Doc: "TCP port of the metrics with TLS; -1 for none, 0 for any free port. Needs metricsProvider.ssl.keyStore.location. The port without TLS is then open only if metricsProvider.httpPort is set."},
		{Name: metricsTLSPrefix + "need.client.auth", Default: "true", value: truth(&c.raw.metricsNeed), Protects: true,
			Doc: "A client of that port must show a certificate that an authority of metricsProvider.ssl.trustStore.location has signed."},
		{Name: metricsTLSPrefix + "want.client.auth", Default: "true", value: truth(&c.raw.metricsWant), Protects: true,
			Doc: "If it need not, it may show none, but no other one. With false, which needs metricsProvider.ssl.need.client.auth=false, it is not asked for one."},
	}
	return append(keys, slices.DeleteFunc(tlsKeys(metricsTLSPrefix, &m.Settings, &c.raw.metricsTLS), func(k Key) bool {
		return k.Name == metricsTLSPrefix+"hostnameVerification" // of clients, there is no host to compare
	})...)
}

// resolveMetrics computes where the metrics are, and reads the files for TLS.
func (l *loader) resolveMetrics() {
	c, raw := l.c, &l.c.raw
	m := &c.MetricsTLS
	c.Metrics = raw.metricsProvider == prometheusMetrics
	used := c.Metrics && m.Port >= 0
	if p, given := l.set["metricsProvider.className"]; given && !slices.Contains([]string{defaultMetrics, prometheusMetrics, "org.apache.zookeeper.metrics.impl.NullMetricsProvider", ""}, p.value) {
		l.warn(p, "is not used: zkd loads no classes; it has %s", prometheusMetrics)
	}
	if p, given := l.set["metricsProvider.httpsPort"]; given && m.Port >= 0 && !c.Metrics {
		l.warn(p, "has no effect without metricsProvider.className=%s", prometheusMetrics)
	}
	if _, given := l.set["metricsProvider.httpPort"]; used && !given {
		c.MetricsPort = -1
	}
	switch {
	case raw.metricsNeed:
		m.ClientAuth = secure.NeedClientAuth
	case raw.metricsWant && m.Trust.File != "":
		m.ClientAuth = secure.WantClientAuth
	default:
		m.ClientAuth = secure.NoClientAuth
	}
	l.settings(metricsTLSPrefix, &m.Settings, &raw.metricsTLS, used, "metricsProvider.httpsPort")
}
