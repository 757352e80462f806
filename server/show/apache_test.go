package show

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/zab"
)

// TestApache parses the answers of real servers into facts, and renders the facts: that
// must give the same bytes.
func TestApache(t *testing.T) {
	files, err := filepath.Glob("testdata/apache/*/*.txt")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d captures, error %v", len(files), err)
	}
	for _, file := range files {
		word := strings.TrimSuffix(filepath.Base(file), ".txt")
		kind := filepath.Base(filepath.Dir(file))
		if kind == "notserving" && word == "conf" {
			continue // zkd tells it: TestNotServing
		}
		t.Run(kind+"/"+word, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			src := newFake(kind != "notserving")
			src.view.ReadOnly = kind == "readonly"
			if src.serving {
				takeApart(t, src, word, string(text))
			}
			got := execute(t, word, src)
			if got != string(text) {
				t.Errorf("got\n%s\nApache wrote\n%s", got, text)
			}
		})
	}
}

// takeApart sets the facts in an answer.
func takeApart(t *testing.T, f *fake, word, text string) {
	t.Helper()
	s := &scanner{t: t, text: text}
	switch word {
	case "srvr", "stat":
		scanServer(s, f)
	case "cons":
		f.conns = scanConnections(s)
	case "dump":
		scanDump(s, f)
	case "conf":
		f.settings = scanSettings(s)
	case "mntr":
		scanMetrics(s, f)
	case "envi":
		s.match(`Environment:`)
		for m := s.try(`(.*?)=(.*)`); m != nil; m = s.try(`(.*?)=(.*)`) {
			f.env = append(f.env, KV{m[0], m[1]})
		}
	case "dirs":
		f.dirs.Data = s.num(s.match(`datadir_size: (\d+)`)[0])
		f.dirs.Log = s.num(s.match(`logdir_size: (\d+)`)[0])
	case "wchs":
		m := s.match(`(\d+) connections watching (\d+) paths`)
		total := s.num(s.match(`Total watches:(\d+)`)[0])
		f.count = WatchCount{int(s.num(m[0])), int(s.num(m[1])), int(total)}
	case "wchc":
		f.bySession = scanSessionPaths(s, `0x(\w+)`)
	case "wchp":
		for m := s.try(`(/.*)`); m != nil; m = s.try(`(/.*)`) {
			f.byPath = append(f.byPath, PathSessions{m[0], scanIDs(s)})
		}
	}
}

func scanServer(s *scanner, f *fake) {
	f.view.Version = s.match(`Zookeeper version: (.*)`)[0]
	s.try(`READ-ONLY mode.*`)
	if s.try(`Clients:`) != nil {
		f.conns = scanConnections(s)
		s.match(``)
	}
	v := &f.view
	m := s.match(`Latency min/avg/max: (\d+)/([\d.]+)/(\d+)`)
	v.Latency = monitor.Latency{Min: s.num(m[0]), Avg: s.float(m[1]), Max: s.num(m[2])}
	v.PacketsReceived.Store(s.num(s.match(`Received: (\d+)`)[0]))
	v.PacketsSent.Store(s.num(s.match(`Sent: (\d+)`)[0]))
	v.Connections = int(s.num(s.match(`Connections: (\d+)`)[0]))
	v.WaitingRequests = s.num(s.match(`Outstanding: (\d+)`)[0])
	v.Zxid = s.hex(s.match(`Zxid: 0x(\w+)`)[0])
	v.be(s.match(`Mode: (.*)`)[0])
	v.Tree.Nodes = int(s.num(s.match(`Node count: (\d+)`)[0]))
	if m := s.try(`Proposal sizes last/min/max: (-?\d+)/(-?\d+)/(-?\d+)`); m != nil {
		v.ProposalSizes.ObserveAll(s.num(m[0]), s.num(m[1]), s.num(m[2]))
	}
}

func scanConnections(s *scanner) (conns []Connection) {
	const brief = ` /(.*)\[(\w)\]\(queued=(\d+),recved=(\d+),sent=(\d+)`
	const full = `,sid=0x(\w+),lop=(\w+),est=(\d+),to=(\d+)(?:,lcxid=0x(\w+))?,lzxid=0x(\w+),` +
		`lresp=(\d+),llat=(\d+),minlat=(\d+),avglat=(\d+),maxlat=(\d+)`
	for {
		m := s.try(brief + `(?:` + full + `)?\)`)
		if m == nil {
			return conns
		}
		c := Connection{Remote: netip.MustParseAddrPort(m[0]), Reading: m[1] == "1" || m[1] == "5",
			Writing: m[1] == "4" || m[1] == "5", Queued: s.num(m[2]), Received: s.num(m[3]), Sent: s.num(m[4])}
		if m[5] != "" {
			c.Session, c.LastOp = s.hex(m[5]), m[6]
			c.Established, c.TimeoutMs = time.UnixMilli(s.num(m[7])), s.num(m[8])
			c.LastCxid, c.LastZxid = -1, s.hex(m[10])
			if m[9] != "" {
				c.LastCxid = s.hex(m[9])
			}
			c.LastReplyMs, c.LastLatencyMs, c.MinLatencyMs = s.num(m[11]), s.num(m[12]), s.num(m[13])
			c.AvgLatencyMs, c.MaxLatencyMs = s.num(m[14]), s.num(m[15])
		}
		conns = append(conns, c)
	}
}

func scanDump(s *scanner, f *fake) {
	v := &f.sessions
	s.match(`SessionTracker dump:`)
	if s.try(`Local Session Sets .*`) != nil {
		v.LocalEnabled, v.Local = true, scanSessionBuckets(s)
	}
	if s.try(`Global Sessions\(\d+\):`) != nil {
		v.Learner = true
		for m := s.try(`0x(\w+)\t(\d+)ms`); m != nil; m = s.try(`0x(\w+)\t(\d+)ms`) {
			v.Timeouts = append(v.Timeouts, SessionTimeout{s.hex(m[0]), s.num(m[1])})
		}
	} else {
		s.match(`(Global )?Session Sets .*`)
		v.Buckets = scanSessionBuckets(s)
	}
	s.match(`ephemeral nodes dump:`)
	s.match(`Sessions with Ephemerals \(\d+\):`)
	f.ephemerals = scanSessionPaths(s, `0x(\w+):`)
	s.match(`Connections dump:`)
	s.match(`Connections Sets \(\d+\)/\(\d+\):`)
	for m := s.try(expires); m != nil; m = s.try(expires) {
		b := ConnectionBucket{Expires: s.time(m[0])}
		const line = `\tip: /(.*) sessionId: 0x(\w+)`
		for m := s.try(line); m != nil; m = s.try(line) {
			b.Connections = append(b.Connections, ConnectionID{netip.MustParseAddrPort(m[0]), s.hex(m[1])})
		}
		f.deadlines = append(f.deadlines, b)
	}
}

const expires = `\d+ expire at (.*):`

func scanSessionBuckets(s *scanner) (buckets []SessionBucket) {
	for m := s.try(expires); m != nil; m = s.try(expires) {
		buckets = append(buckets, SessionBucket{s.time(m[0]), scanIDs(s)})
	}
	return buckets
}

func scanSettings(s *scanner) Settings {
	text := func(key string) string { return s.match(key + `=(.*)`)[0] }
	num := func(key string) int { return int(s.num(text(key))) }
	v := Settings{ClientPort: num("clientPort"), SecureClientPort: num("secureClientPort"),
		DataDir: text("dataDir"), DataDirBytes: int64(num("dataDirSize")),
		DataLogDir: text("dataLogDir"), DataLogBytes: int64(num("dataLogSize")),
		TickTimeMs: num("tickTime"), MaxClientCnxns: num("maxClientCnxns"),
		MinSessionTimeoutMs: num("minSessionTimeout"), MaxSessionTimeoutMs: num("maxSessionTimeout"),
		ListenBacklog: num("clientPortListenBacklog"), ServerID: int64(num("serverId"))}
	if s.text == "" {
		return v
	}
	v.Quorum = &Quorum{InitLimit: num("initLimit"), SyncLimit: num("syncLimit"), ElectionAlg: num("electionAlg"),
		ElectionPort: num("electionPort"), QuorumPort: num("quorumPort"), Observer: num("peerType") == 1}
	if s.try(`membership: `) != nil {
		v.Quorum.Membership, s.text = s.text, ""
	}
	return v
}

// scanMetrics shuffles the metrics whose order the renderer determines.
func scanMetrics(s *scanner, f *fake) {
	f.view.Version = s.match(`zk_version\t(.*)`)[0]
	f.view.be(s.match(`zk_server_state\t(.*)`)[0])
	s.try(`zk_peer_state\t(.*)`)
	if m := s.try(`zk_observer_master_id\t(\d+)`); m != nil {
		f.view.Role.Leader = zab.SID(s.num(m[0]))
	}
	for m := s.try(`zk_(\w+)\t(.*)`); m != nil; m = s.try(`zk_(\w+)\t(.*)`) {
		metric := Metric{m[0], m[1]}
		if v, err := strconv.ParseFloat(m[1], 64); err == nil && strings.Contains(m[1], ".") {
			metric = Float(m[0], v)
		}
		if coreRank(metric) < len(coreMetrics) {
			f.metrics = slices.Insert(f.metrics, 0, metric) // these are put in order
		} else {
			f.metrics = append(f.metrics, metric)
		}
	}
}

func scanSessionPaths(s *scanner, header string) (list []SessionPaths) {
	for m := s.try(header); m != nil; m = s.try(header) {
		sp := SessionPaths{Session: s.hex(m[0])}
		for m := s.try(`\t(/.*)`); m != nil; m = s.try(`\t(/.*)`) {
			sp.Paths = append(sp.Paths, m[0])
		}
		list = append(list, sp)
	}
	return list
}

func scanIDs(s *scanner) (ids []int64) {
	for m := s.try(`\t0x(\w+)`); m != nil; m = s.try(`\t0x(\w+)`) {
		ids = append(ids, s.hex(m[0]))
	}
	return ids
}

// scanner splits a text into lines.
type scanner struct {
	t    *testing.T
	text string
}

// try consumes the next line and returns the groups of the pattern, or returns nil if the
// line does not match.
func (s *scanner) try(pattern string) []string {
	line, rest, _ := strings.Cut(s.text, "\n")
	m := regexp.MustCompile(`^(?:` + pattern + `)$`).FindStringSubmatch(line)
	if m == nil || s.text == "" {
		return nil
	}
	s.text = rest
	return m[1:]
}

func (s *scanner) match(pattern string) []string {
	s.t.Helper()
	m := s.try(pattern)
	if m == nil {
		s.t.Fatalf("no %q at %q", pattern, s.text)
	}
	return m
}

func (s *scanner) num(text string) int64 { return must(s, strconv.ParseInt, text, 10) }

func (s *scanner) hex(text string) int64 { return int64(must(s, strconv.ParseUint, text, 16)) }

func must[T any](s *scanner, parse func(string, int, int) (T, error), text string, base int) T {
	s.t.Helper()
	v, err := parse(text, base, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *scanner) float(text string) float64 {
	s.t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *scanner) time(text string) time.Time {
	s.t.Helper()
	v, err := time.Parse("Mon Jan 2 15:04:05 MST 2006", text)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}
