package config

import (
	"io/fs"
	"strings"
	"testing"
)

// TestSecureAccepts checks that zkd.secure has nothing against ports with TLS and what is on
// loopback, and what it turns on. The keys of TLS are about files that are not there.
func TestSecureAccepts(t *testing.T) {
	for name, text := range map[string]string{
		"one server":           "secureClientPort=2281\n",
		"a port for the shell": "secureClientPort=2281\nclientPort=2181\nclientPortAddress=localhost\n",
		"an ensemble": "secureClientPort=2281\nsslQuorum=true\nzkd.myid=1\ninitLimit=10\nsyncLimit=5\n" +
			"server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n",
		"more than asked for": "secureClientPort=2281\naudit.enable=true\nzkd.audit.reads=all\nzkd.authFailuresPerSecond=1\nskipACL=no\n" +
			"metricsProvider.className=" + prometheusMetrics + "\nmetricsProvider.httpHost=::1\n",
	} {
		l := newLoader(func(string) ([]byte, error) { return nil, fs.ErrNotExist })
		_, _, _ = l.load([]byte("dataDir=/d\nzkd.secure=true\n"+text), "zoo.cfg", nil) // the result has the errors about the files
		for _, err := range l.errs {
			if strings.Contains(err.Error(), "zkd.secure") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if c := l.c; !c.Audit.Enable || c.Audit.Reads == "none" || !isLoopback(c.MetricsHost) {
			t.Errorf("%s: audit %+v, metrics on %s", name, c.Audit, c.MetricsHost)
		}
	}
	if c, _, err := Parse(strings.NewReader("dataDir=/d\nclientPort=2181\n"), "zoo.cfg"); err != nil || c.Secure || c.Audit.Enable {
		t.Errorf("the default is %+v, %v", c, err)
	}
}
