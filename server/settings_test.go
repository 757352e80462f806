package server

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/zab"
)

var (
	pairs    = flag.Int("settings.pairs", 30, "how many pairs of settings TestPairsOfSettings tries")
	pairSeed = flag.Uint64("settings.seed", 1, "which pairs")
)

// setting is one key with one value, and the requirements for a test of it.
type setting struct {
	key, value string

	lines []string // what the value needs to be allowed, or to have an effect
	// contradicts means that the value and the defaults of other keys contradict each
	// other, and that the configuration is therefore refused.
	contradicts bool
	// noClients means that the value rejects clients: on the leader, or anywhere.
	noClientsOfLeader, noClients bool
	// noEphemerals, likewise.
	noEphemerals bool
	// onDisk has real files: snapshots need them.
	onDisk bool
	// prepare makes a disk ready before the first start.
	prepare func(fs vfs.FS, dir string) error
	// members replaces the server lines.
	members []string
	// patience is how long there may be no leader after the start, 1 min if 0.
	patience time.Duration
}

func (s setting) String() string { return s.key + "=" + s.value }

// settingsFiles are files that values of keys name.
type settingsFiles struct{ secret, dynamic, store, trust, password, keys, crl, jaas string }

// allSettings returns every honoured key with each kind of its values. A key without values
// is an error: the table of keys, or the map below, must list them for a new key.
func allSettings(t *testing.T, f *settingsFiles) []setting {
	t.Helper()
	values := map[string][]string{ // of keys whose values depend on the machine
		"dataDir":                                     {"/elsewhere"},
		"dataLogDir":                                  {"/log"},
		"group.*":                                     {"1:2:3"},
		"weight.*":                                    {"0", "3"},
		"server.*":                                    {"10.0.0.3:2888:3888:observer"},
		"zkd.limit.*":                                 {"address * requests/s=1000000", "identity digest:u watches=5"},
		"zkd.edge.*":                                  {"digest:edge:lK75jTNcA+U9vtVEw5vB51mj/w4= digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM="},
		"dynamicConfigFile":                           {f.dynamic},
		"zkd.quorumSecretFile":                        {f.secret},
		"zkd.jwt.keys":                                {f.keys},
		"zkd.oidc.clientId":                           {"console"},
		"zkd.oidc.clientSecretFile":                   {f.secret},
		"ssl.quorum.keyStore.location":                {f.store},
		"ssl.quorum.keyStore.password":                {"not needed"},
		"ssl.quorum.keyStore.passwordPath":            {f.password},
		"ssl.quorum.trustStore.location":              {f.trust},
		"ssl.quorum.trustStore.passwordPath":          {f.password},
		"zkd.audit.file":                              {auditFile},
		"zkd.archive":                                 {"/backup"},
		"java.security.auth.login.config":             {f.jaas},
		"superUser":                                   {"bob"},
		"superUser.*":                                 {"bob"},
		"SASLAuthenticationProvider.superPassword":    {"not needed"},
		"letAnySaslUserDoX":                           {"bob"},
		"java.security.krb5.realm":                    {"EXAMPLE.COM"},
		"zkd.ssl.quorum.crlFiles":                     {f.crl},
		"ssl.keyStore.location":                       {f.store},
		"ssl.keyStore.passwordPath":                   {f.password},
		"ssl.trustStore.location":                     {f.trust},
		"ssl.trustStore.passwordPath":                 {f.password},
		"zkd.ssl.crlFiles":                            {f.crl},
		"metricsProvider.ssl.keyStore.location":       {f.store},
		"metricsProvider.ssl.keyStore.passwordPath":   {f.password},
		"metricsProvider.ssl.trustStore.location":     {f.trust},
		"metricsProvider.ssl.trustStore.passwordPath": {f.password},
		"zkd.metricsProvider.ssl.crlFiles":            {f.crl},
	}
	// elsewhere has the keys that can't be tested with an ensemble in memory, and the
	// test that covers each.
	elsewhere := map[string]string{
		"clientPortListenBacklog":       "TestEverySettingOfTheProcess in cmd/zkd",
		"clientTcpKeepAlive":            "TestEverySettingOfTheProcess in cmd/zkd",
		"metricsProvider.className":     "TestEverySettingOfTheProcess in cmd/zkd",
		"metricsProvider.httpHost":      "TestEverySettingOfTheProcess in cmd/zkd",
		"metricsProvider.httpPort":      "TestEverySettingOfTheProcess in cmd/zkd",
		"metricsProvider.exportJvmInfo": "TestEverySettingOfTheProcess in cmd/zkd",
		"metricsProvider.httpsPort":     "TestMetricsWithTLS in cmd/zkd",
		"zkd.logFormat":                 "TestEverySettingOfTheProcess in cmd/zkd",
		"zkd.logLevel":                  "TestEverySettingOfTheProcess in cmd/zkd",
		"sessionRequireClientSASLAuth":  "TestSASLRequired",
		"requireClientAuthScheme":       "TestSASLRequired",
		"zkd.sasl.users":                "TestLoginsOfAFileOfUsers in cmd/zkd",
		"zkd.ssl.ocspStapling":          "TestStaple in server/secure",
		"zkd.traces.endpoint":           "TestTracesAreSent in cmd/zkd",
		"zkd.myid":                      "TestScenarios/members in server/config; all ensembles here set it",
	}
	var list []setting
	for _, k := range config.Keys() {
		if k.Status != config.Honoured || elsewhere[k.Name] != "" {
			delete(elsewhere, k.Name)
			continue
		}
		samples := append(k.Samples(), values[k.Name]...)
		if len(samples) == 0 {
			t.Errorf("%s has no values to try: give it some in the table of keys, or here", k.Name)
		}
		delete(values, k.Name)
		for _, v := range samples {
			s := setting{key: k.Name, value: v}
			s.know(f)
			list = append(list, s)
		}
	}
	for name := range values {
		t.Errorf("%s is not an honoured key", name)
	}
	return list
}

// know fills in the special properties of a setting.
func (s *setting) know(f *settingsFiles) {
	tls := []string{"sslQuorum=true", "ssl.quorum.keyStore.location=" + f.store, "ssl.quorum.trustStore.location=" + f.trust}
	x509 := []string{
		"authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
		"ssl.X509AuthenticationProvider.clientCertIdSanMatchType=6",
		"ssl.X509AuthenticationProvider.clientCertIdSanExtractRegex=" + strings.Repeat("()", 99),
	}
	clientTLS := []string{"client.portUnification=true", "ssl.keyStore.location=" + f.store, "ssl.trustStore.location=" + f.trust}
	metricsTLS := []string{"metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider", "metricsProvider.httpsPort=0",
		"metricsProvider.ssl.keyStore.location=" + f.store, "metricsProvider.ssl.trustStore.location=" + f.trust}
	jaas := []string{"java.security.auth.login.config=" + f.jaas}
	off := s.value == "false" || s.value == "no"
	switch s.key {
	case "datadir.autocreate", "db.autocreate":
		if off {
			s.prepare = func(fs vfs.FS, dir string) error {
				if err := fs.MkdirAll(dir); err != nil {
					return err
				}
				file, err := fs.Create(filepath.Join(dir, "initialize"))
				if err != nil {
					return err
				}
				return file.Close()
			}
		}
	case "snapCount", "snapSizeLimitInKb", "autopurge.snapRetainCount", "autopurge.purgeInterval":
		s.onDisk = true
		s.lines = []string{"snapCount=20", "forceSync=no"}
	case "clientPort":
		s.noClients = s.value == "-1"
	case "minSessionTimeout":
		s.contradicts = s.value == "2147483647" // is above the maximum
	case "maxSessionTimeout":
		s.contradicts = s.value == "0" || s.value == "1" // is below the minimum
	case "connection_throttle_fill_time", "connection_throttle_fill_count":
		s.lines = []string{"connection_throttle_tokens=1"}
	case "largeRequestMaxBytes":
		s.lines = []string{"largeRequestThreshold=100000"}
	case "enforce.auth.enabled":
		s.lines = []string{"enforce.auth.schemes=digest", "DigestAuthenticationProvider.enabled=true"}
	case "enforce.auth.schemes":
		s.lines = []string{"enforce.auth.enabled=true", "DigestAuthenticationProvider.enabled=true"}
	case "initLimit", "syncLimit":
		s.contradicts = s.value == "0" // an ensemble needs them
	case "zkd.electionTimeout":
		s.patience = time.Hour
	case "zkd.secure":
		s.contradicts = !off // these servers have no TLS
	case "zkd.heartbeat":
		s.lines = []string{"zkd.electionTimeout=600000"}
		s.patience = time.Hour
	case "zkd.autopilot":
		s.lines = []string{"reconfigEnabled=true"}
		s.contradicts = s.value == "1" // is too short
	case "leaderServes":
		s.noClientsOfLeader = off
	case "localSessionsEnabled":
		s.noEphemerals = !off
	case "localSessionsUpgradingEnabled":
		s.lines = []string{"localSessionsEnabled=true"}
		s.noEphemerals = off
	case "dynamicConfigFile":
		s.members = []string{}
	case "group.*":
		s.key = "group.1"
	case "weight.*":
		s.key = "weight.2"
		s.lines = []string{"group.1=1:2:3"}
	case "server.*":
		s.key = "server.3"
		s.members = []string{"server.1=10.0.0.1:2888:3888", "server.2=10.0.0.2:2888:3888"}
	case "zkd.limit.*":
		s.key = "zkd.limit.some"
	case "zkd.edge.*":
		s.key = "zkd.edge.some"
	case "superUser.*":
		s.key, s.lines = "superUser.2", jaas
	case "superUser", "letAnySaslUserDoX", "allowSaslFailedClients", "sasl.serverconfig", "security.auth_to_local", "java.security.krb5.realm":
		s.lines = jaas
	case "sslQuorum":
		s.lines = tls[1:]
	case "admin.portUnification", "admin.forceHttps":
		s.lines = tls[1:]
	case "zkd.api":
		s.lines = []string{"admin.serverPort=8080"}
	case "zkd.console":
		s.lines = []string{"admin.serverPort=8080", "zkd.api=true"}
	case "admin.needClientAuth":
		s.lines = append([]string{"admin.forceHttps=true"}, tls[1:]...)
	case "portUnification":
		s.lines = tls[1:]
	case "zkd.jwt.audience", "zkd.jwt.algorithms", "zkd.jwt.idClaim", "zkd.jwt.superUser", "zkd.jwt.clockSkew", "zkd.jwt.refreshInterval", "zkd.jwt.keys":
		s.lines = []string{"zkd.jwt.issuer=https://id.example.org", "zkd.jwt.audience=zkd", "zkd.jwt.keys=" + f.keys}
	case "zkd.oidc.clientId", "zkd.oidc.clientSecretFile", "zkd.oidc.scopes":
		s.lines = []string{"zkd.jwt.issuer=https://id.example.org", "zkd.jwt.audience=zkd", "zkd.jwt.keys=" + f.keys, "zkd.oidc.clientId=console", "admin.serverPort=8080", "zkd.api=true", "zkd.console=true"}
	case "ensembleAuthName":
		s.lines = []string{"authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider"}
	case "X509AuthenticationProvider.superUser":
		s.lines = x509
	case "secureClientPort", "secureClientPortAddress":
		s.lines = append(clientTLS, "secureClientPort=2281")
	case "quorum.auth.enableSasl", "quorum.auth.learnerRequireSasl", "quorum.auth.serverRequireSasl":
		s.lines = []string{"zkd.quorumSecretFile=" + f.secret}
	case "fips-mode":
		s.contradicts = s.value == "true" // the test's process does not run in that mode
	default:
		switch {
		case strings.HasPrefix(s.key, "SASLAuthenticationProvider."), strings.HasPrefix(s.key, "kerberos."):
			s.lines = jaas
		case strings.HasPrefix(s.key, "ssl.quorum."):
			s.lines = tls
		case strings.HasPrefix(s.key, "ssl.X509AuthenticationProvider."):
			s.lines = x509
		case strings.Contains(s.key, "audit."):
			s.lines = []string{"audit.enable=true", "zkd.audit.file=" + auditFile}
		case s.key == "zkd.ssl.quorum.crlFiles":
			s.lines = append(tls, "ssl.quorum.crl=true")
		case strings.HasPrefix(s.key, "metricsProvider.ssl."):
			s.lines = metricsTLS
		case s.key == "zkd.metricsProvider.ssl.crlFiles":
			s.lines = append(metricsTLS, "metricsProvider.ssl.crl=true")
		case strings.HasPrefix(s.key, "ssl."), s.key == "client.portUnification":
			s.lines = clientTLS
		case s.key == "zkd.ssl.crlFiles":
			s.lines = append(clientTLS, "ssl.crl=true")
		}
	}
}

// TestEverySetting runs an ensemble of three with each kind of value of each honoured key
// for ten seconds, in fake time. The checks are in works. In short runs an ensemble has
// several of them, and without -short one: that tells which of them a failure comes from.
func TestEverySetting(t *testing.T) {
	f := makeSettingsFiles(t)
	atATime := 1
	if testing.Short() {
		atATime = 40
	}
	var groups [][]setting
	for _, s := range allSettings(t, f) {
		if _, _, text, err := parseSettings(s); (err != nil) != s.contradicts {
			t.Errorf("error %v, want one: %v\n%s", err, s.contradicts, text)
		}
		if i := slices.IndexFunc(groups, func(g []setting) bool { return len(g) < atATime && s.joins(g) }); i >= 0 {
			groups[i] = append(groups[i], s)
		} else if !s.contradicts {
			groups = append(groups, []setting{s})
		}
	}
	for _, g := range groups {
		var names []string
		for _, s := range g {
			names = append(names, strings.ReplaceAll(s.key+"="+filepath.Base(s.value), "/", "_"))
		}
		t.Run(strings.Join(names, ","), func(t *testing.T) { trySettings(t, g...) })
	}
}

// joins reports whether an ensemble can have a setting beside others, and all have their effects.
func (s setting) joins(others []setting) bool {
	if !s.plain() || !others[0].plain() || s.onDisk != others[0].onDisk {
		return false
	}
	if slices.ContainsFunc(others, func(o setting) bool { return o.key == s.key || s.disturbs(o) || o.disturbs(s) }) {
		return false
	}
	_, _, _, err := parseSettings(append(slices.Clone(others), s)...)
	return err == nil
}

// disturbs reports whether a setting, or what it needs, changes what another one needs.
func (s setting) disturbs(o setting) bool {
	for _, mine := range append(slices.Clone(s.lines), s.String()) {
		key, _, _ := strings.Cut(mine, "=")
		if slices.ContainsFunc(o.lines, func(needed string) bool { return needed != mine && strings.HasPrefix(needed, key+"=") }) {
			return true
		}
	}
	return false
}

// plain reports that a setting changes nothing of the test but the configuration, and perhaps the disk.
func (s setting) plain() bool {
	return !s.contradicts && !s.noClients && !s.noClientsOfLeader && !s.noEphemerals && s.prepare == nil && s.members == nil && s.patience == 0
}

// TestPairsOfSettings does the same with two keys at a time: 30 of the tens of thousands
// of pairs, always the same ones unless flags change that. In short runs there are 5, since
// TestEverySetting then has hundreds.
func TestPairsOfSettings(t *testing.T) {
	n := *pairs
	if testing.Short() {
		n = min(n, 5)
	}
	list := allSettings(t, makeSettingsFiles(t))
	rng := rand.New(rand.NewPCG(*pairSeed, 0))
	for range n {
		a, b := list[rng.IntN(len(list))], list[rng.IntN(len(list))]
		if a.key != b.key {
			t.Run(fmt.Sprintf("%s,%s", filepath.Base(a.String()), filepath.Base(b.String())), func(t *testing.T) { trySettings(t, a, b) })
		}
	}
}

// together combines several settings.
func together(list []setting) (all setting, lines []string) {
	all.members = slices.Clone(defaultMembers)
	for _, s := range list {
		lines = append(lines, s.lines...)
		all.contradicts = all.contradicts || s.contradicts
		all.noClients = all.noClients || s.noClients
		all.noClientsOfLeader = all.noClientsOfLeader || s.noClientsOfLeader
		all.noEphemerals = all.noEphemerals || s.noEphemerals
		all.onDisk = all.onDisk || s.onDisk
		all.patience = max(all.patience, s.patience, time.Minute)
		if s.prepare != nil {
			all.prepare = s.prepare
		}
		if s.members != nil {
			all.members = s.members
		}
	}
	for _, s := range list { // they override the lines that other settings need
		lines = append(lines, s.String())
	}
	return all, append(lines, all.members...)
}

var defaultMembers = []string{"server.1=10.0.0.1:2888:3888", "server.2=10.0.0.2:2888:3888", "server.3=10.0.0.3:2888:3888"}

// parseSettings parses the configuration of a member with several settings.
func parseSettings(list ...setting) (all setting, lines []string, text string, err error) {
	all, lines = together(list)
	text = strings.Join(slices.Concat([]string{"dataDir=/data", "clientPort=2181", "tickTime=1000", "initLimit=10", "syncLimit=5", "zkd.myid=1"}, lines), "\n")
	_, _, err = config.Parse(strings.NewReader(text), "zoo.cfg")
	return all, lines, text, err
}

func trySettings(t *testing.T, list ...setting) {
	all, lines, _, err := parseSettings(list...)
	if err != nil {
		return // two values may contradict each other, which the operator is told
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.size = 0 // the members are among the lines
		e.lines = append([]string{"initLimit=10", "syncLimit=5"}, lines...)
		for id := 1; id <= 3; id++ {
			var fs vfs.FS = fastFS{}
			data := filepath.Join(dir, fmt.Sprint(id))
			if !all.onDisk {
				e.disks[id] = crashfs.New(uint64(id))
				fs, data = e.disks[id], e.dir
			}
			if all.prepare != nil {
				if err := all.prepare(fs, data); err != nil {
					t.Fatal(err)
				}
			}
		}
		if all.onDisk {
			e.dir = dir
		}
		for id := 1; id <= 3; id++ {
			e.start(id)
			time.Sleep(700 * time.Millisecond) // operators do not start all servers at the same moment
		}
		e.works(all)
	})
}

// works lets clients work for ten seconds, one at each server. It checks that writes are
// acknowledged, and found on all servers; that reads are answered, watches fire, and
// sessions and their ephemerals are kept; that the leader is the same for the whole time;
// and that nothing ends and no server logs an error.
func (e *testEnsemble) works(s setting) {
	t := e.t
	for begin := time.Now(); !e.inService(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > s.patience {
			t.Fatalf("no ensemble after %v: %s", time.Since(begin), e.roles())
		}
	}
	leader := e.leader()
	epoch := e.servers[leader].standing.role.Load().Epoch
	var clients []*worker
	for id := 1; id <= 3; id++ {
		if !s.noClients && !(s.noClientsOfLeader && id == leader) {
			clients = append(clients, newWorker(t, e.servers[id], id, !s.noEphemerals))
		}
	}
	for i, w := range clients {
		w.watch(clients[(i+1)%len(clients)].node)
	}
	for step, begin := 0, time.Now(); time.Since(begin) < 10*time.Second; step++ {
		for _, w := range clients {
			w.work(step)
		}
		for _, w := range clients {
			w.hear()
		}
		for rest := 500 * time.Millisecond; rest > 0; {
			d := min(rest, shortest(clients)/3)
			time.Sleep(d)
			rest -= d
			for _, w := range clients {
				w.ping()
			}
		}
	}
	for _, w := range clients {
		w.check(e)
	}
	if now := e.leader(); now != leader || e.servers[now].standing.role.Load().Epoch != epoch {
		t.Errorf("server %d leads in epoch %d; server %d had begun, in epoch %d", now, e.servers[now].standing.role.Load().Epoch, leader, epoch)
	}
	e.settled()
	for id := 1; id <= 3; id++ {
		e.servers[id].noErrors(t)
		select {
		case err := <-e.servers[id].Failed():
			t.Errorf("server %d has ended: %v", id, err)
		default:
		}
	}
}

// inService reports whether one server leads and the others follow or observe.
func (e *testEnsemble) inService() bool {
	leads, follows := 0, 0
	for _, s := range e.servers {
		if s != nil {
			switch s.standing.role.Load().Role {
			case zab.Leading:
				leads++
			case zab.Following:
				follows++
			}
		}
	}
	return leads == 1 && follows == 2
}

func shortest(clients []*worker) time.Duration {
	d := time.Minute
	for _, w := range clients {
		d = min(d, time.Duration(w.timeout)*time.Millisecond)
	}
	return max(d, 3*time.Millisecond) // a session lives at least for a tick
}

// worker is a client that does some of every operation.
type worker struct {
	*client
	node, ephemeralNode, watched, last string
}

func newWorker(t testing.TB, s *testServer, id int, ephemerals bool) *worker {
	c := s.dial(t, dialOptions{ip: fmt.Sprintf("10.0.1.%d", id)})
	c.establish(&jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true})
	if c.session == 0 {
		t.Fatalf("server %d gives no session", id)
	}
	if got := time.Duration(c.timeout) * time.Millisecond; got <= 0 || got < s.cfg.MinSessionTimeout || got > s.cfg.MaxSessionTimeout {
		t.Fatalf("server %d gives a session of %v, want %v to %v", id, got, s.cfg.MinSessionTimeout, s.cfg.MaxSessionTimeout)
	}
	w := &worker{client: c, node: fmt.Sprintf("/n%d", id)}
	if s.cfg.EnforceAuth {
		c.auth("u:p")
	}
	c.create(w.node, "")
	if ephemerals {
		w.ephemeralNode = fmt.Sprintf("/e%d", id)
		c.ephemeral(w.ephemeralNode)
	}
	return w
}

// watch begins to watch another client's node.
func (w *worker) watch(node string) {
	w.t.Helper()
	w.watched = node
	w.ok(jute.OpSync, &jute.SyncRequest{Path: "/"})
	w.ok(jute.OpGetData, get(w.watched, true))
}

// work writes, and reads its write.
func (w *worker) work(step int) {
	w.t.Helper()
	w.last = fmt.Sprint("step ", step)
	w.set(w.node, w.last)
	if got, ok := w.get(w.node); !ok || got != w.last {
		w.t.Fatalf("%s is %q, want %q, which was acknowledged", w.node, got, w.last)
	}
}

// hear requires that the watch has fired, and sets it again.
func (w *worker) hear() {
	w.t.Helper()
	w.ok(jute.OpSync, &jute.SyncRequest{Path: "/"})
	fired := slices.ContainsFunc(w.events, func(r reply) bool { return r.event().Path == w.watched })
	if w.events = nil; !fired {
		w.t.Fatalf("no event about %s, which was changed", w.watched)
	}
	w.ok(jute.OpGetData, get(w.watched, true))
}

// check looks for the client's nodes in the trees of all servers.
func (w *worker) check(e *testEnsemble) {
	w.t.Helper()
	w.ping()
	e.settled()
	for id, s := range e.servers {
		if s == nil {
			continue
		}
		s.state.RLock()
		data, _ := s.state.Tree.Data(w.node)
		_, ephemeral := s.state.Tree.Get(w.ephemeralNode)
		s.state.RUnlock()
		if string(data) != w.last {
			w.t.Errorf("%s is %q on server %d, want %q", w.node, data, id, w.last)
		}
		if w.ephemeralNode != "" && !ephemeral {
			w.t.Errorf("%s is not on server %d", w.ephemeralNode, id)
		}
	}
}

// makeSettingsFiles makes the files that values of keys name.
func makeSettingsFiles(t *testing.T) *settingsFiles {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := certs.New(t, "zk")
	return &settingsFiles{
		keys:     write("keys.json", `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`),
		jaas:     write("jaas.conf", `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="secret"; };`),
		secret:   write("secret", "0123456789abcdef"),
		dynamic:  write("zoo.cfg.dynamic", strings.Join(defaultMembers, "\n")),
		store:    certs.Write(t, dir, "store.pem", ca.Issue("10.0.0.1", "10.0.0.2", "10.0.0.3").PEM(t)),
		trust:    certs.Write(t, dir, "trust.pem", ca.CertPEM()),
		password: write("password", "not needed"),
		crl:      certs.Write(t, dir, "crl.pem", ca.Revoke(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))),
	}
}
