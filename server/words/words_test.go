package words

import (
	"path"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/state"
)

// server is one without clients, and its Source.
type server struct {
	Source
	tree           *datatree.Tree
	tracker        *session.Tracker
	disk           *crashfs.FS
	serving, leads bool
}

func newServer(t *testing.T, lines ...string) *server {
	t.Helper()
	cfg, _, err := config.Parse(strings.NewReader(strings.Join(append([]string{"dataDir=/data", "clientPort=2181", "tickTime=1000"}, lines...), "\n")), "zoo.cfg")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{tree: datatree.New(), tracker: session.NewTracker(1000), disk: crashfs.New(1)}
	clock := new(base.Clock)
	clock.Begin()
	w := New(Options{
		Config: cfg, Live: func() *config.Config { return cfg }, Clock: clock, FS: s.disk, State: &state.State{Tree: s.tree}, Tracker: s.tracker,
		Serving: func() bool { return s.serving }, Leads: func() bool { return s.leads }, Founders: func() []byte { return []byte("founders") },
	})
	w.Clients(new(clients.Clients))
	s.Source = w.Source(0)
	return s
}

var ensembleLines = []string{"initLimit=10", "syncLimit=5", "zkd.myid=2", "server.1=a:2888:3888", "server.2=b:2889:3889:observer", "server.3=c:2888:3888"}

func (s *server) apply(session jute.SessionID, ops ...datatree.Op) {
	var out datatree.Applied
	s.tree.Apply(&datatree.Txn{Zxid: s.tree.LastZxid() + 1, Session: session, Ops: ops}, &out)
}

func node(path string, owner jute.SessionID) datatree.Op {
	op := datatree.Op{Kind: datatree.OpCreate, Path: path, Cversion: 1}
	if owner != 0 {
		op.Owner = jute.OwnerSession(owner)
	}
	return op
}

// Sessions and their ephemerals are listed in order.
func TestEphemerals(t *testing.T) {
	s := newServer(t)
	for _, id := range []jute.SessionID{9, 3} {
		s.apply(id, datatree.Op{Kind: datatree.OpCreateSession, TimeoutMs: int32(id) * 1000})
	}
	s.apply(9, node("/z", 9), node("/b", 9))
	s.apply(3, node("/y", 3), node("/kept", 0))
	want := []show.SessionPaths{{Session: 3, Paths: []string{"/y"}}, {Session: 9, Paths: []string{"/b", "/z"}}}
	if got := s.ephemerals(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Who decides when sessions expire knows when; others know their timeouts, as a copy does of those of its ensemble.
func TestSessions(t *testing.T) {
	timeouts := []show.SessionTimeout{{Session: 3, TimeoutMs: 3000}, {Session: 9, TimeoutMs: 9000}}
	for _, tt := range []struct {
		name     string
		ensemble bool
		leads    bool
		copy     bool
		learner  bool
	}{
		{name: "alone"},
		{name: "leader", ensemble: true, leads: true},
		{name: "follower", ensemble: true, learner: true},
		{name: "copy", copy: true, learner: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines []string
				if tt.ensemble {
					lines = ensembleLines
				}
				s := newServer(t, lines...)
				s.leads = tt.leads
				for _, id := range []jute.SessionID{9, 3} {
					s.apply(id, datatree.Op{Kind: datatree.OpCreateSession, TimeoutMs: int32(id) * 1000})
					s.tracker.Add(id, int32(id)*1000, 0)
				}
				want := show.Sessions{Learner: tt.learner}
				if tt.learner {
					want.Timeouts = timeouts
				} else {
					for _, x := range timeouts { // a session may live for a tick longer
						at := time.Now().Add(time.Duration(x.TimeoutMs+1000) * time.Millisecond).UTC()
						want.Buckets = append(want.Buckets, show.SessionBucket{Expires: at, Sessions: []int64{x.Session}})
					}
				}
				if got := s.sessions(tt.copy); !reflect.DeepEqual(got, want) {
					t.Errorf("%+v, want %+v", got, want)
				}
			})
		})
	}
}

// The sizes are those of the files of the log and of the snapshots, of a directory that has both counted twice.
func TestDirSizes(t *testing.T) {
	for _, tt := range []struct {
		lines []string
		log   string
		want  show.Dirs
	}{
		{nil, "/data/journal", show.Dirs{Data: 12, Log: 12}},
		{[]string{"dataLogDir=/log"}, "/log/journal", show.Dirs{Data: 5, Log: 7}},
	} {
		s := newServer(t, tt.lines...)
		if got := s.dirSizes(); got != (show.Dirs{}) {
			t.Errorf("%q: %+v before there is a directory", tt.lines, got)
		}
		for name, text := range map[string]string{"/data/snap/a": "12345", tt.log + "/b": "123456", tt.log + "/c": "7", tt.log + "/deeper/d": "not counted"} {
			if err := s.disk.MkdirAll(path.Dir(name)); err != nil {
				t.Fatal(err)
			}
			f, err := s.disk.Create(name)
			if err == nil {
				_, err = f.WriteAt([]byte(text), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		if got := s.dirSizes(); got != tt.want {
			t.Errorf("%q: %+v, want %+v", tt.lines, got, tt.want)
		}
	}
}

// The members are those of the tree, and the founders as long as there is no ensemble.
func TestQuorumSettings(t *testing.T) {
	if q := newServer(t).quorumSettings(); q != nil {
		t.Errorf("alone: %+v", q)
	}
	for _, tt := range []struct {
		name              string
		text              string
		serving, readOnly bool
		want              string
	}{
		{name: "not founded", want: "founders"},
		{name: "empty", serving: true},
		{name: "without a quorum", text: "members", want: "members"},
		{name: "in service", text: "members", serving: true, want: "members"},
		{name: "read-only", text: "members", readOnly: true},
	} {
		s := newServer(t, ensembleLines...)
		s.serving = tt.serving
		if tt.readOnly {
			s.w.clients.BeginReadOnly()
		}
		if tt.text != "" {
			s.apply(0, datatree.Op{Kind: datatree.OpSetData, Path: datatree.ConfigPath, Data: []byte(tt.text), Version: 1})
		}
		want := &show.Quorum{InitLimit: 10, SyncLimit: 5, ElectionAlg: 3, QuorumPort: 2889, ElectionPort: 3889, Observer: true, Membership: tt.want}
		if got := s.quorumSettings(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, want)
		}
	}
}
