package standby

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/server/archive/source"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/zab"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func placeIn(dir string, id zab.SID) data.Place {
	return data.Place{DataDir: dir, LogDir: dir, Server: id}
}

func configFor(t testing.TB, p data.Place) *config.Config {
	t.Helper()
	text := fmt.Sprintf("dataDir=%s\nclientPort=0\ntickTime=1000\nadmin.snapshot.intervalInMS=0\nserver.%d=127.0.0.1:1:2\n", p.DataDir, p.Server)
	check(t, os.MkdirAll(p.DataDir, 0o700))
	check(t, os.WriteFile(filepath.Join(p.DataDir, "myid"), fmt.Append(nil, p.Server), 0o600))
	cfg, _, err := config.Parse(strings.NewReader(text), "zoo.cfg")
	check(t, err)
	return cfg
}

var theirs = zab.ClusterInit{Cluster: zab.ID{1, 2, 3}, Secret: secret.Key{4, 5}}

// ensemble is a server of an ensemble, as far as a standby sees it: its log and its pages. It is a mirror, too, of what
// the test writes.
type ensemble struct {
	*mirror.Mirror
	t     *testing.T
	rand  *rand.Rand
	nodes []string
	http  *httptest.Server
	cut   atomic.Int64 // ends a stream after so many bytes, unless it is negative
}

func newEnsemble(t *testing.T, r *rand.Rand, init zab.ClusterInit) *ensemble {
	t.Helper()
	p := placeIn(t.TempDir(), zab.SIDOf(1))
	check(t, data.CreateMirror(p, datadirs.OfZkd))
	m, err := mirror.Open(t.Context(), p, datadirs.OfZkd, nil)
	check(t, err)
	t.Cleanup(func() { check(t, m.Close()) })
	check(t, m.ServeReaders(mirror.Options{Config: configFor(t, p)}))
	e := &ensemble{Mirror: m, t: t, rand: r}
	e.cut.Store(-1)
	pages := m.Pages(nil)
	e.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cut := e.cut.Load(); cut >= 0 {
			w = &cutWriter{ResponseWriter: w, left: cut}
		}
		pages.ServeHTTP(w, r)
	}))
	t.Cleanup(e.http.Close)
	state := zab.State{}
	if init.Cluster != (zab.ID{}) {
		marker := zab.Marker{TimeMs: 1, Init: &init}
		e.add(zab.EntryMarker, marker.Append(nil))
		state = *m.Ensemble()
	}
	check(t, m.InstallState(t.Context(), m.Tree(), state))
	return e
}

// cutWriter ends a connection after some bytes.
type cutWriter struct {
	http.ResponseWriter
	left int64
}

func (w *cutWriter) Write(b []byte) (int, error) {
	if w.left -= int64(len(b)); w.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return w.ResponseWriter.Write(b)
}

func (w *cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (e *ensemble) add(kind zab.EntryType, payload []byte) {
	e.t.Helper()
	z := e.Last() + 1
	if kind == zab.EntryMarker {
		z = jute.MakeZxid(e.Last().Epoch()+1, 0)
	}
	check(e.t, e.AppendEntry(&zab.Entry{Zxid: z, Prev: e.Last(), Type: kind, Data: payload}))
}

// write adds random transactions, and now and then a leader.
func (e *ensemble) write(n int) {
	e.t.Helper()
	for range n {
		if e.rand.IntN(50) == 0 {
			marker := zab.Marker{TimeMs: 2}
			e.add(zab.EntryMarker, marker.Append(nil))
		}
		var op datatree.Op
		switch i := e.rand.IntN(len(e.nodes) + 2); {
		case i >= len(e.nodes):
			path := fmt.Sprintf("/n%d", e.Last()+1)
			op = datatree.Op{Kind: datatree.OpCreate, Path: path, Data: []byte("new"), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}}
			e.nodes = append(e.nodes, path)
		case e.rand.IntN(4) == 0:
			op = datatree.Op{Kind: datatree.OpDelete, Path: e.nodes[i]}
			e.nodes = append(e.nodes[:i], e.nodes[i+1:]...)
		default:
			op = datatree.Op{Kind: datatree.OpSetData, Path: e.nodes[i], Data: fmt.Append(nil, e.rand.Int()), Version: int32(e.rand.IntN(100))}
		}
		txn := datatree.Txn{Zxid: e.Last() + 1, Time: int64(e.Last()), Session: 7, Ops: []datatree.Op{op}}
		e.add(zab.EntryTxn, txn.Append(nil))
	}
}

// running is a standby in a goroutine.
type running struct {
	place  data.Place
	cancel context.CancelFunc
	ended  chan error
	pages  chan http.Handler
	view   func() *show.View // after pages
}

func start(t *testing.T, p data.Place, of ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{place: p, cancel: cancel, ended: make(chan error, 1), pages: make(chan http.Handler, 1)}
	o := Options{Of: &source.Servers{Admins: of, Auth: []string{"digest:user:password"}, Compress: p.Server == zab.SIDOf(4)}, Place: p, Readers: configFor(t, p), Logger: zap.NewNop(),
		Serve: func(h http.Handler, view func() *show.View) (func(), error) {
			r.view = view
			r.pages <- h
			return func() {}, nil
		}}
	go func() { r.ended <- Run(ctx, o) }()
	return r
}

// stop ends a standby, and returns how it ended.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	check(t, <-r.ended)
}

// until waits for what a standby's status shows.
func (r *running) until(t *testing.T, what func(*Status) bool) *Status {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err := ReadStatus(r.place.DataDir); err == nil && s.Running && what(s) {
			return s
		}
		select {
		case err := <-r.ended:
			t.Fatalf("the standby has ended: %v", err)
		case <-tick.C:
		}
	}
}

// reach waits until a standby has what an ensemble has.
func (r *running) reach(t *testing.T, e *ensemble) *Status {
	t.Helper()
	return r.until(t, func(s *Status) bool { return s.Durable == e.Last().String() })
}

// digest reads the copy of a standby that does not run.
func digest(t *testing.T, p data.Place) (jute.Zxid, datatree.Digest) {
	t.Helper()
	m, err := open(t.Context(), p, nil)
	check(t, err)
	defer func() { check(t, m.Close()) }()
	return m.Last(), m.Tree().Digest()
}

// TestStandby follows an ensemble whose connections break, and another standby, is stopped and started, and
// has what the ensemble has.
func TestStandby(t *testing.T) {
	r := rand.New(rand.NewPCG(seeds.First(t), 1))
	e := newEnsemble(t, r, theirs)
	e.write(100)
	near, far := placeIn(t.TempDir(), zab.SIDOf(4)), placeIn(t.TempDir(), zab.SIDOf(5))
	for round := range 6 {
		s := start(t, near, "http://127.0.0.1:1", e.http.URL)
		chain := httptest.NewServer(<-s.pages)
		far := start(t, far, chain.URL)
		e.cut.Store(int64(r.IntN(4000)))
		e.write(1 + r.IntN(100))
		e.cut.Store(-1)
		e.http.CloseClientConnections()
		e.write(1 + r.IntN(20))
		if round != 3 { // that time they are stopped before they have it
			s.reach(t, e)
			far.reach(t, e)
		}
		far.stop(t)
		chain.Close()
		s.stop(t)
		if round == 3 {
			continue
		}
		for _, p := range []data.Place{near, far.place} {
			if last, got := digest(t, p); last != e.Last() || got != e.Tree().Digest() {
				t.Fatalf("round %d: server %d has %v at %v, want %v at %v", round, p.Server, got, last, e.Tree().Digest(), e.Last())
			}
		}
	}
}

// TestLogIsCompressed reads the log and a state as they are and compressed: they are the same, and shorter.
func TestLogIsCompressed(t *testing.T) {
	e := newEnsemble(t, rand.New(rand.NewPCG(8, 1)), theirs)
	e.write(200)
	read := func(command string) (b []byte, received int64) {
		url := httptestOf(t, e.Pages(nil)) // the same pages send another snapshot only after a while
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/commands/"+command, nil)
		check(t, err)
		req.Header.Set("Authorization", "digest user:password")
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := http.DefaultClient.Do(req)
		check(t, err)
		defer func() { check(t, resp.Body.Close()) }()
		counted := &countingReader{r: resp.Body}
		var log io.Reader = counted
		if resp.Header.Get("Content-Encoding") == "gzip" {
			log, err = gzip.NewReader(counted)
			check(t, err)
		}
		b, err = io.ReadAll(io.LimitReader(log, 8000))
		check(t, err)
		return b, counted.n
	}
	for _, command := range []string{"log?after=0x100000000", "snapshot?streaming=true"} {
		if strings.HasPrefix(command, "snapshot") {
			check(t, e.InstallState(t.Context(), e.Tree(), *e.Ensemble()))
		}
		plain, all := read(command)
		short, part := read(command + "&compressed=true")
		if !bytes.Equal(plain, short) || all < 8000 || part >= all {
			t.Errorf("%s: the same: %t; of %d bytes %d are received", command, bytes.Equal(plain, short), all, part)
		}
	}
}

// countingReader counts what is read. It is read no further than needed, as it has a ReadByte.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(c, b[:])
	return b[0], err
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// TestStandbyIsBehindTheLog gets the whole state again when nobody has the log that it lacks.
func TestStandbyIsBehindTheLog(t *testing.T) {
	e := newEnsemble(t, rand.New(rand.NewPCG(1, 1)), theirs)
	e.write(10)
	p := placeIn(t.TempDir(), zab.SIDOf(4))
	s := start(t, p, e.http.URL)
	if st := s.reach(t, e); st.States != 1 {
		t.Errorf("%d states were fetched", st.States)
	}
	s.stop(t)
	e.write(1000)
	check(t, e.InstallState(t.Context(), e.Tree(), *e.Ensemble())) // forgets the log before it
	e.write(10)
	check(t, os.WriteFile(filepath.Join(p.DataDir, "standby-1.tmp"), nil, 0o600)) // of an interrupted fetch
	s = start(t, p, e.http.URL)
	if st := s.reach(t, e); st.States != 1 || st.Entries != 10 {
		t.Errorf("%d states were fetched, and %d entries followed", st.States, st.Entries)
	}
	s.stop(t)
	if _, got := digest(t, p); got != e.Tree().Digest() {
		t.Error("the copy differs")
	}
	if left, _ := filepath.Glob(filepath.Join(p.DataDir, "*.tmp")); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestPromote makes an ensemble of two standbys that are equal, in whatever order, also if one command is
// interrupted.
func TestPromote(t *testing.T) {
	e := newEnsemble(t, rand.New(rand.NewPCG(2, 1)), theirs)
	e.write(50)
	var places []data.Place
	var members []string
	for id := uint8(4); id <= 5; id++ {
		p := placeIn(t.TempDir(), zab.SIDOf(id))
		s := start(t, p, e.http.URL)
		places, members = append(places, p), append(members, s.reach(t, e).Member)
		s.stop(t)
	}
	last := e.Last()
	var result *Promoted
	promote := func(p data.Place, after jute.Zxid, members ...string) (err error) {
		result, err = (&Promote{Place: p, Consent: copies.Consent{LossAfter: after}, Members: members, Logger: zap.NewNop()}).Run(t.Context())
		return err
	}
	stranger := strings.Replace(members[0], "4:", "6:", 1)
	behind := strings.Replace(members[1], last.String(), (last - 1).String(), 1)
	for _, tt := range []struct {
		want string
		err  error
	}{
		{"--accept-data-loss-after " + last.String(), promote(places[0], 0, members...)},
		{"--accept-data-loss-after " + last.String(), promote(places[0], last-1, members...)},
		{"is not among the members", promote(places[0], last, members[1], stranger)},
		{"comes twice", promote(places[0], last, members[0], members[0])},
		{"that of server 5 at " + (last - 1).String(), promote(places[0], last, members[0], behind)},
		{"is no member", promote(places[0], last, "4")},
		{"is of server 4, not 5", promote(placeIn(places[0].DataDir, zab.SIDOf(5)), last)},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("error %v, want %s", tt.err, tt.want)
		}
	}
	for _, p := range places { // nothing has changed
		if of, err := data.MirrorOf(p); of != datadirs.OfZkd || err != nil {
			t.Errorf("server %d is no standby any more: %v", p.Server, err)
		}
		if err := data.Check(configFor(t, p)); err == nil || !strings.Contains(err.Error(), "zkd standby promote") {
			t.Errorf("a server starts as a standby, or: %v", err)
		}
	}

	check(t, promote(places[0], last, members[1], members[0]))
	halfPromoted(t, places[0])
	s := start(t, places[0], e.http.URL)
	if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "was interrupted") {
		t.Errorf("a standby that is half a member: %v", err)
	}
	check(t, promote(places[0], last, members...))
	check(t, promote(places[1], last, members...))
	was := *result
	check(t, promote(places[1], last, members...)) // it was killed when all was done
	if result.Text() != was.Text() {
		t.Errorf("promoted again:\n%sand before\n%s", result.Text(), was.Text())
	}
	other := placeIn(t.TempDir(), zab.SIDOf(4))
	check(t, data.CreateMirror(other, datadirs.OfZkd))
	own(t, other, 0)
	if err := promote(other, last); err == nil || !strings.Contains(err.Error(), "start zkd") {
		t.Errorf("a member that was not promoted: %v", err)
	}
	var first zab.State
	for i, p := range places {
		check(t, data.Check(configFor(t, p)))
		c, err := data.Read(t.Context(), p)
		check(t, err)
		if c.Tree.Digest() != e.Tree().Digest() || c.Epoch < last.Epoch()+1000 || c.Secret != theirs.Secret || c.Voters != 2 {
			t.Errorf("server %d: digest %v, epoch %d, secret %v, %d voters", p.Server, c.Tree.Digest(), c.Epoch, c.Secret, c.Voters)
		}
		state := ensembleOf(t, p)
		if i == 0 {
			first = state
		}
		if state.Init.Cluster == theirs.Cluster || state.Init != first.Init || len(state.Admitted) != 2 {
			t.Errorf("server %d is of ensemble %x with %v; the first of %x", p.Server, state.Init.Cluster, state.Admitted, first.Init.Cluster)
		}
	}
}

// TestPromoteRetired promotes copies of a retired ensemble without a word about losses, also if one command is interrupted. The
// new ensemble is not retired.
func TestPromoteRetired(t *testing.T) {
	e := newEnsemble(t, rand.New(rand.NewPCG(7, 1)), theirs)
	e.write(50)
	p := placeIn(t.TempDir(), zab.SIDOf(4))
	s := start(t, p, e.http.URL)
	if st := s.reach(t, e); st.Retired {
		t.Error("an ensemble that serves is retired")
	}
	want := e.Tree().Stats().Nodes
	txn := datatree.Txn{Zxid: e.Last() + 1, Time: int64(e.Last()), Session: 7,
		Ops: []datatree.Op{{Kind: datatree.OpCreate, Path: jute.RetiredPath, ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}}}}
	e.add(zab.EntryTxn, txn.Append(nil))
	if st := s.until(t, func(s *Status) bool { return s.Retired }); st.RetiredSince != e.Last().String() || !strings.Contains(st.Text(), "since zxid "+st.RetiredSince+":") {
		t.Errorf("the ensemble is retired since %v, and the status says\n%s", e.Last(), st.Text())
	}
	s.stop(t)
	since := e.Last()
	promote := func(c copies.Consent) error {
		_, err := (&Promote{Place: p, Consent: c, Logger: zap.NewNop()}).Run(t.Context())
		return err
	}
	for _, c := range []copies.Consent{{}, {LossAfter: 1}, {RetiredSince: since + 5}} {
		if err := promote(c); err == nil || !strings.Contains(err.Error(), "--retired-since "+since.String()) {
			t.Errorf("promoted with %+v: %v", c, err)
		}
	}
	check(t, promote(copies.Consent{RetiredSince: since}))
	c, err := data.Read(t.Context(), p)
	check(t, err)
	if _, retired := c.Tree.Get(jute.RetiredPath); retired || c.Tree.Stats().Nodes != want || c.Tree.LastZxid() != jute.MakeZxid(e.Last().Epoch()+2*copies.EpochMargin, 1) {
		t.Errorf("retired: %t, %d znodes at %v", retired, c.Tree.Stats().Nodes, c.Tree.LastZxid())
	}
	halfPromoted(t, p)
	check(t, promote(copies.Consent{RetiredSince: since}))
	if again, err := data.Read(t.Context(), p); err != nil || again.Tree.Digest() != c.Tree.Digest() {
		t.Errorf("after a command that was interrupted: %v", err)
	}
}

// halfPromoted makes a member what a crash leaves before its last step.
func halfPromoted(t *testing.T, p data.Place) { own(t, p, datadirs.OfZkd) }

// own makes data those of a copy, or of a member.
func own(t *testing.T, p data.Place, of datadirs.Copy) {
	t.Helper()
	name := filepath.Join(p.DataDir, datadirs.OwnerFile)
	b, err := os.ReadFile(name)
	check(t, err)
	o, err := datadirs.DecodeOwner(b)
	check(t, err)
	o.Copy = of
	check(t, os.WriteFile(name, o.Encode(), 0o600))
}

// ensembleOf reads the state of the ensemble that a member has.
func ensembleOf(t *testing.T, p data.Place) zab.State {
	t.Helper()
	halfPromoted(t, p)
	m, err := open(t.Context(), p, nil)
	check(t, err)
	defer func() { check(t, m.Close()) }()
	return *m.Ensemble()
}

// TestStandbyIsRefused ends with an error where another attempt is in vain.
func TestStandbyIsRefused(t *testing.T) {
	e := newEnsemble(t, rand.New(rand.NewPCG(3, 1)), theirs)
	e.write(5)
	other := newEnsemble(t, rand.New(rand.NewPCG(4, 1)), zab.ClusterInit{Cluster: zab.ID{9}})
	other.write(5)
	alone := newEnsemble(t, rand.New(rand.NewPCG(5, 1)), zab.ClusterInit{})
	p := placeIn(t.TempDir(), zab.SIDOf(4))
	s := start(t, p, e.http.URL)
	s.reach(t, e)
	s.stop(t)
	apache := placeIn(t.TempDir(), zab.SIDOf(4))
	check(t, data.CreateMirror(apache, datadirs.OfApache))
	forbidden := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }))
	defer forbidden.Close()
	for _, tt := range []struct {
		name, of string
		place    data.Place
		want     string
	}{
		{"another history", other.http.URL, p, "another one"},
		{"a server alone", alone.http.URL, placeIn(t.TempDir(), zab.SIDOf(4)), "without an ensemble"},
		{"no right", forbidden.URL, placeIn(t.TempDir(), zab.SIDOf(4)), "authenticate as a user with all permissions"},
		{"another server's copy", e.http.URL, placeIn(p.DataDir, zab.SIDOf(5)), "of server 4, not 5"},
		{"a copy of Apache's", e.http.URL, apache, "no standby's copy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := <-start(t, tt.place, tt.of).ended; err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// TestPagesOfAStandby looks at the pages and the metrics of a standby.
func TestPagesOfAStandby(t *testing.T) {
	e := newEnsemble(t, rand.New(rand.NewPCG(6, 1)), theirs)
	s := start(t, placeIn(t.TempDir(), zab.SIDOf(4)), e.http.URL)
	pages := httptest.NewServer(<-s.pages)
	defer pages.Close()
	s.reach(t, e)
	for path, want := range map[string]string{
		"/readyz":                "ok",
		"/commands/is_read_only": `"read_only" : true`,
		"/commands/monitor":      `"standby_states" : 1`,
		"/v1/feed?follow=false":  "changes follow",
	} {
		resp, err := http.Get(pages.URL + path)
		check(t, err)
		b, err := io.ReadAll(resp.Body)
		check(t, errors.Join(err, resp.Body.Close()))
		if !strings.Contains(string(b), want) {
			t.Errorf("%s: %s, want %s", path, b, want)
		}
	}
	metrics := prometheus.NewPedanticRegistry()
	metrics.MustRegister(show.NewCollector("1", s.view))
	if _, err := metrics.Gather(); err != nil {
		t.Error(err)
	}
	s.stop(t)
}

// door returns a server before that of the ensemble, which answers with an error while it is shut.
func (e *ensemble) door(t *testing.T, shut *atomic.Bool, status int) *httptest.Server {
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if shut.Load() {
			http.Error(w, "no", status)
			return
		}
		e.http.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(door.Close)
	return door
}

// TestStandbyTellsTheTruth refuses a standby that follows, has standbys follow each other, and looks at what they say.
func TestStandbyTellsTheTruth(t *testing.T) {
	e := newEnsemble(t, rand.New(rand.NewPCG(7, 1)), theirs)
	e.write(10)
	var refuses atomic.Bool
	door := e.door(t, &refuses, http.StatusForbidden)
	p := placeIn(t.TempDir(), zab.SIDOf(4))
	s := start(t, p, door.URL)
	pages := httptest.NewServer(<-s.pages)
	defer pages.Close()
	s.until(t, func(st *Status) bool { return st.State == "following" && !st.Current.IsZero() })
	if v := s.view().Standby; v.From != door.URL || v.Of != door.URL || v.Lag < 0 || v.Refused || !strings.HasPrefix(v.String(), "follows http") {
		t.Errorf("it follows: %+v", v)
	}

	refuses.Store(true)
	door.CloseClientConnections()
	was := s.until(t, func(st *Status) bool { return st.Refused && st.State == "connecting" })
	if v := s.view().Standby; v.From != "" || !v.Refused || !strings.Contains(v.String(), "all permissions") || v.Lag < 0 {
		t.Errorf("it is refused: %+v", v)
	}
	refuses.Store(false)
	s.until(t, func(st *Status) bool { return !st.Refused && st.State == "following" })
	s.stop(t)

	again := start(t, p, "http://127.0.0.1:1") // nobody is there: the copy is as old as it was
	st := again.until(t, func(st *Status) bool { return st.Problem != "" })
	if st.Current.Before(was.Current) || st.Current.After(st.Written) {
		t.Errorf("after a restart its copy is of %v; it was of %v", st.Current, was.Current)
	}
	far := start(t, placeIn(t.TempDir(), zab.SIDOf(5)), httptestOf(t, <-again.pages))
	got := far.until(t, func(st *Status) bool { return st.State == "following" && st.BehindMs > 0 })
	if got.Current.After(got.Written.Add(-time.Duration(got.BehindMs) * time.Millisecond)) {
		t.Errorf("a standby of a standby says that its copy is of %v at %v, and that it follows one that is behind by %d ms", got.Current, got.Written, got.BehindMs)
	}
	far.stop(t)
	again.stop(t)
}

// gate holds what is written.
type gate struct {
	http.ResponseWriter
	shut *sync.RWMutex
}

func (g gate) Write(b []byte) (int, error) {
	g.shut.RLock()
	defer g.shut.RUnlock()
	return g.ResponseWriter.Write(b)
}

func (g gate) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// TestStandbyLag holds the log on its way: a standby, and a standby of that, say what they lack. A server that does not tell it is followed, too.
func TestStandbyLag(t *testing.T) {
	e := newEnsemble(t, rand.New(rand.NewPCG(9, 1)), theirs)
	e.write(10)
	var shut sync.RWMutex
	var earlier atomic.Bool // it does not know the parameter left
	url := httptestOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if earlier.Load() {
			q.Del("left")
			r.URL.RawQuery = q.Encode()
		}
		if r.URL.Path == "/commands/log" && !q.Has("left") {
			w = gate{w, &shut}
		}
		e.http.Config.Handler.ServeHTTP(w, r)
	}))
	s := start(t, placeIn(t.TempDir(), zab.SIDOf(4)), url)
	far := start(t, placeIn(t.TempDir(), zab.SIDOf(5)), httptestOf(t, <-s.pages))
	lacks := func(want int64) func(*Status) bool {
		return func(st *Status) bool { return st.LagEntries == want && (st.LagBytes > 0) == (want > 0) }
	}
	for _, r := range []*running{s, far} {
		r.reach(t, e)
		r.until(t, lacks(0))
	}
	shut.Lock()
	was := e.Last()
	e.write(200) // over epochs
	n := copies.LeftAfter(e.Ensemble(), was, 1).Entries
	for _, r := range []*running{s, far} {
		st := r.until(t, lacks(n))
		if v := r.view().Standby; v.LagEntries != n || !strings.Contains(v.String(), fmt.Sprintf("lacks %d entries", n)) || !strings.Contains(st.Text(), fmt.Sprintf("%d entries", n)) {
			t.Errorf("it lacks %d entries and says %s\n%s", n, v.String(), st.Text())
		}
	}
	shut.Unlock()
	for _, r := range []*running{s, far} {
		r.reach(t, e)
		r.until(t, lacks(0))
	}
	earlier.Store(true)
	far.stop(t)
	s.stop(t)
	s = start(t, s.place, url)
	e.write(5)
	if st := s.reach(t, e); st.LagEntries != -1 || st.LagBytes != -1 {
		t.Errorf("nobody has told what it lacks, and it says %d, %d", st.LagEntries, st.LagBytes)
	}
	s.stop(t)
}

// TestStandbyCircle has a standby follow another one that follows it, when no server of the ensemble answers: it refuses that, and follows the
// ensemble again.
func TestStandbyCircle(t *testing.T) {
	e := newEnsemble(t, rand.New(rand.NewPCG(10, 1)), theirs)
	e.write(10)
	var down atomic.Bool
	door := e.door(t, &down, http.StatusServiceUnavailable)
	var farPages atomic.Pointer[http.Handler]
	farURL := httptestOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := farPages.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		http.Error(w, "down", http.StatusServiceUnavailable)
	}))
	near := start(t, placeIn(t.TempDir(), zab.SIDOf(4)), door.URL, farURL)
	far := start(t, placeIn(t.TempDir(), zab.SIDOf(5)), httptestOf(t, <-near.pages))
	h := <-far.pages
	near.reach(t, e)
	far.reach(t, e)
	far.until(t, func(st *Status) bool { return st.LagEntries == 0 })
	farPages.Store(&h)
	down.Store(true)
	door.CloseClientConnections()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		v := near.view().Standby
		if v.From == farURL {
			t.Fatal("it follows one that follows it")
		}
		if strings.Contains(v.Problem, farURL+" gets the log from this standby") {
			break
		}
	}
	down.Store(false)
	e.write(10)
	near.reach(t, e)
	far.reach(t, e)
	far.stop(t)
	near.stop(t)
}

// httptestOf serves pages until the test ends.
func httptestOf(t *testing.T, pages http.Handler) string {
	t.Helper()
	s := httptest.NewServer(pages)
	t.Cleanup(s.Close)
	return s.URL
}

// TestPromoteAtASnapshot promotes a copy whose snapshot is its end, as that of a standby which has fetched the state of an ensemble that wrote
// nothing more before it was lost. A crash may leave the snapshot of the new ensemble, or that of the copy.
func TestPromoteAtASnapshot(t *testing.T) {
	e := newEnsemble(t, rand.New(rand.NewPCG(9, 1)), theirs)
	e.write(50)
	check(t, e.InstallState(t.Context(), e.Tree(), *e.Ensemble()))
	p := placeIn(t.TempDir(), zab.SIDOf(4))
	s := start(t, p, e.http.URL)
	if st := s.reach(t, e); st.Entries != 0 {
		t.Errorf("%d entries were followed", st.Entries)
	}
	s.stop(t)
	snapshots := func(dir string) (names []string) {
		files, err := os.ReadDir(filepath.Join(dir, "snap"))
		check(t, err)
		for _, f := range files {
			names = append(names, f.Name())
		}
		return names
	}
	copyOf := func() data.Place {
		dir := t.TempDir()
		check(t, os.CopyFS(dir, os.DirFS(p.DataDir)))
		return placeIn(dir, p.Server)
	}
	promote := func(p data.Place) {
		t.Helper()
		_, err := (&Promote{Place: p, Consent: copies.Consent{LossAfter: e.Last()}, Logger: zap.NewNop()}).Run(t.Context())
		check(t, err)
		check(t, data.Check(configFor(t, p)))
		c, err := data.Read(t.Context(), p)
		check(t, err)
		if c.Tree.Digest() != e.Tree().Digest() || c.Voters != 1 || c.Epoch < e.Last().Epoch()+copies.EpochMargin {
			t.Errorf("digest %v, %d voters, epoch %d", c.Tree.Digest(), c.Voters, c.Epoch)
		}
	}
	was, done := snapshots(p.DataDir), copyOf()
	promote(done)
	is := snapshots(done.DataDir)
	if len(was) != 1 || len(is) != 1 || was[0] == is[0] {
		t.Fatalf("snapshots %q, and then %q", was, is)
	}
	link := func(from, to data.Place, name string) {
		check(t, os.Link(filepath.Join(from.DataDir, "snap", name), filepath.Join(to.DataDir, "snap", name)))
	}
	again := copyOf()
	link(done, again, is[0])
	promote(again)
	link(p, done, was[0])
	halfPromoted(t, done)
	promote(done)
}
