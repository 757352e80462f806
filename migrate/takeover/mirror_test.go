package takeover

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/adler32"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/migrate/apachelink"
	"github.com/zkd-project/zkd/migrate/mirror"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/secure"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// toy imitates the leader of an ensemble of Apache's: it has a history, in which each transaction
// is a set of a znode or a create of one.
type toy struct {
	*testing.T
	listener net.Listener
	tls      *tls.Config // nil for plain links
	exact    *apachelink.Copy
	records  [][]byte // of the log: payloads
	data     string   // of its znodes; "data" if it is empty
}

func newToy(t *testing.T) *toy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { l.Close() })
	return &toy{T: t, listener: l, exact: apachelink.NewCopy(datatree.New())}
}

func (l *toy) last() jute.Zxid { return l.exact.Tree.LastZxid() }

// create adds a transaction to the history, and returns its payload. It is in the epoch, with the
// digest of the tree after it; wrong makes another one of that.
func (l *toy) create(epoch uint32, wrong uint64) []byte {
	z := l.last() + 1
	if epoch > l.last().Epoch() {
		z = jute.MakeZxid(epoch, 1)
	}
	root, _ := l.exact.Tree.Get("")
	b := jute.AppendBuffer(jute.AppendString(l.header(z, 1), fmt.Sprintf("/n%x", int64(z))), []byte(cmp.Or(l.data, "data")))
	b = jute.AppendBool(jute.AppendACLs(b, []jute.ACL{{Perms: 31, ID: jute.WorldAnyone}}), false)
	return l.add(jute.AppendInt32(b, root.Cversion+1), wrong)
}

// configure adds a transaction that sets the text of the ensemble's members.
func (l *toy) configure(text string) {
	z := jute.MakeZxid(1, 1)
	l.add(jute.AppendInt32(jute.AppendBuffer(jute.AppendString(l.header(z, 5), datatree.ConfigPath), []byte(text)), int32(1)), 0)
}

// header returns the header of a transaction of a type.
func (l *toy) header(z jute.Zxid, kind int32) []byte {
	b := jute.AppendInt32(jute.AppendInt64(nil, int64(7)), int32(1))
	return jute.AppendInt32(jute.AppendInt64(jute.AppendInt64(b, int64(z)), int64(1000)), kind)
}

func (l *toy) add(b []byte, wrong uint64) []byte {
	x, err := apachefiles.DecodeTxn(b)
	check(l.T, err)
	check(l.T, l.exact.Apply(x))
	b = jute.AppendInt64(jute.AppendInt32(b, int32(2)), int64(l.exact.Digest()+wrong))
	l.records = append(l.records, b)
	return b
}

// state returns the tree as a leader sends it.
func (l *toy) state() []byte {
	var b bytes.Buffer
	nodes := func(yield func(string, *apachefiles.Node) bool) {
		var walk func(path string) bool
		walk = func(path string) bool {
			data, n, _ := l.exact.Tree.GetData(path)
			if !yield(path, &apachefiles.Node{Data: data, ACL: n.ACL, Stat: apachefiles.Stat{Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid,
				Ctime: n.Ctime, Mtime: n.Mtime, Version: n.Version, Cversion: n.Cversion, Aversion: n.Aversion, Owner: n.Owner}}) {
				return false
			}
			for name := range l.exact.Tree.Children(path) {
				if !walk(path + "/" + name) {
					return false
				}
			}
			return true
		}
		walk("")
	}
	check(l.T, apachefiles.WriteSnapshot(&b, &apachefiles.State{Zxid: l.last(), Nodes: nodes}))
	const header, seals = 16, 13 + 20 + 13
	return jute.AppendString(b.Bytes()[header:b.Len()-seals], "BenWasHere")
}

// link is a link from a mirror, as the leader has it.
type link struct {
	*toy
	net.Conn
	in *apachelink.Stream
}

func (l *toy) accept() *link {
	l.Helper()
	conn, err := l.listener.Accept()
	check(l.T, err)
	l.Cleanup(func() { conn.Close() })
	if l.tls != nil {
		conn = tls.Server(conn, l.tls)
	}
	return &link{l, conn, apachelink.NewStream(conn)}
}

func (l *link) send(kind apachelink.Type, z jute.Zxid, data []byte, more ...byte) {
	l.Helper()
	p := apachelink.Packet{Type: kind, Zxid: z, Data: data}
	_, err := l.Write(append(p.Append(nil), more...))
	check(l.T, err)
}

func (l *link) expect(kind apachelink.Type, z jute.Zxid) {
	l.Helper()
	p, err := l.in.Next()
	check(l.T, err)
	if p.Type != kind || p.Zxid != z {
		l.Fatalf("got %v %v, want %v %v", p.Type, p.Zxid, kind, z)
	}
}

// greet plays the begin of a link up to the mirror's report of its last zxid, want.
func (l *link) greet(accepted, epoch uint32, want jute.Zxid) {
	l.Helper()
	l.expect(apachelink.ObserverInfo, jute.MakeZxid(accepted, 0))
	l.send(apachelink.LeaderInfo, jute.MakeZxid(epoch, 0), jute.AppendInt32(nil, int32(0x10000)))
	l.expect(apachelink.AckEpoch, want)
}

// activate plays the end of a synchronization.
func (l *link) activate(epoch uint32) {
	l.Helper()
	l.send(apachelink.NewLeader, jute.MakeZxid(epoch, 0), []byte("server.1=a:1:2\nversion=0"))
	l.expect(apachelink.Ack, jute.MakeZxid(epoch, 0))
	l.send(apachelink.UpToDate, -1, nil)
	l.expect(apachelink.Ack, jute.MakeZxid(epoch, 0))
}

// inform sends a new transaction, and waits until the mirror has it.
func (l *link) inform(epoch uint32) {
	l.Helper()
	b := l.create(epoch, 0)
	l.send(apachelink.Inform, l.last(), b)
	l.send(apachelink.Ping, l.last(), nil)
	l.expect(apachelink.Ping, l.last())
}

// running is a mirror that runs.
type running struct {
	cancel context.CancelFunc
	done   chan error
}

func start(t *testing.T, dir string, id uint8, from ...string) *running {
	return startWith(t, Options{From: from, Dir: dir, ID: id})
}

func startWith(t *testing.T, o Options) *running {
	o.InitLimit, o.SyncLimit, o.Logger = time.Minute, time.Minute, cmp.Or(o.Logger, zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{cancel, make(chan error, 1)}
	go func() { r.done <- Mirror(ctx, o) }()
	return r
}

// stop ends the mirror. end waits until it ends by itself.
func (r *running) stop() error {
	r.cancel()
	return <-r.done
}

func (r *running) end() error {
	defer r.cancel()
	return <-r.done
}

// TestMirrorFollows follows a leader: a state, transactions, the loss of the link, another epoch, a
// stop. Then the mirrors become an ensemble.
func TestMirrorFollows(t *testing.T) {
	l := newToy(t)
	addr := l.listener.Addr().String()
	for range 3 {
		l.create(1, 0)
	}
	top := t.TempDir()
	var dirs []string
	for id := uint8(101); id <= 103; id++ {
		dir := filepath.Join(top, fmt.Sprint(id))
		dirs = append(dirs, dir)
		m := start(t, dir, id, "127.0.0.1:1", addr)
		in := l.accept()
		in.greet(0, 2, 0)
		in.send(apachelink.Snap, l.last(), nil, l.state()...)
		in.activate(2)
		in.inform(2)
		in.inform(2)
		in.Close()

		in = l.accept()
		in.greet(2, 2, l.last())
		in.send(apachelink.Diff, l.last(), nil)
		in.activate(2)
		in.inform(2)
		in.Close()
		check(t, m.stop())

		m = start(t, dir, 0, addr)
		in = l.accept()
		in.greet(2, 3, l.last())
		b := l.create(3, 0)
		in.send(apachelink.Diff, l.last(), nil)
		in.send(apachelink.Proposal, l.last(), b)
		in.send(apachelink.Commit, l.last(), nil)
		in.activate(3)
		in.inform(3)
		check(t, m.stop())

		s, err := ReadStatus(dir)
		check(t, err)
		if s.Running || s.State != "stopped" || s.Server != id || s.Epoch != 3 || s.Zxid != l.last().String() || s.Durable != s.Zxid || s.Unfit != 0 ||
			s.Digest != fmt.Sprintf("%x", l.exact.Digest()) || s.Digests != 2 || s.Diffs != 1 || s.Znodes != l.exact.Tree.Stats().Nodes || s.Text() == "" {
			t.Errorf("status %+v", s)
		}
	}

	disks := filepath.Join(top, "disks")
	l.writeDisks(disks)
	if err := finish(t, disks, dirs...); err == nil || !strings.Contains(err.Error(), "quorum port "+addr) {
		t.Errorf("an ensemble is taken over that runs: %v", err)
	}
	check(t, l.listener.Close())
	if err := finish(t, disks, dirs[:2]...); err == nil {
		t.Error("two mirrors are made an ensemble")
	}
	check(t, finish(t, disks, dirs...))
	for _, dir := range dirs {
		s, err := data.Read(t.Context(), data.Place{DataDir: dir, LogDir: dir})
		check(t, err)
		if again := apachelink.NewCopy(s.Tree); again.Digest() != l.exact.Digest() {
			t.Errorf("%s: digest %x, want %x", dir, again.Digest(), l.exact.Digest())
		}
		if _, err := os.Stat(filepath.Join(dir, StatusFile)); err == nil {
			t.Errorf("%s has still a status", dir)
		}
	}
	check(t, finish(t, disks, dirs...))
	if err := start(t, dirs[0], 0, addr).end(); err == nil || !strings.Contains(err.Error(), "zkd") {
		t.Errorf("a member becomes a mirror again: %v", err)
	}
}

// TestDecide makes an ensemble of mirrors of which each has less than the one before it, by a
// decision in a file, as on several machines.
func TestDecide(t *testing.T) {
	l := newToy(t)
	l.create(1, 0)
	top := t.TempDir()
	var dirs, members []string
	for id := uint8(103); id > 100; id-- {
		dir := filepath.Join(top, fmt.Sprint(id))
		m := start(t, dir, id, l.listener.Addr().String())
		in := l.accept()
		in.greet(0, 1, 0)
		in.send(apachelink.Snap, l.last(), nil, l.state()...)
		in.activate(1)
		in.inform(1)
		check(t, m.stop())
		s, err := ReadStatus(dir)
		check(t, err)
		dirs, members = append(dirs, dir), append(members, s.Member)
	}
	disks := filepath.Join(top, "disks")
	l.create(1, 0)
	l.writeDisks(disks)
	decide := func(file string, others ...string) error {
		d := &Decide{From: []string{disks}, Single: true, Dir: dirs[2], Others: others, File: file, Logger: zap.NewNop()}
		_, err := d.Run(t.Context())
		return err
	}
	file := filepath.Join(top, "decision")
	if err := decide(file, members[:2]...); err == nil || !strings.Contains(err.Error(), "quorum port") {
		t.Errorf("a decision about an ensemble that runs: %v", err)
	}
	check(t, l.listener.Close())
	for _, others := range [][]string{nil, members[:1], {members[0], members[0]}, {members[0], members[2]}, {members[0], "102"}} {
		if err := decide(file, others...); err == nil {
			t.Errorf("a decision with %v", others)
		}
	}
	check(t, decide(file, members[:2]...))
	if err := decide(file, members[:2]...); !errors.Is(err, os.ErrExist) {
		t.Errorf("a decision is replaced: %v", err)
	}
	check(t, decide(file+"2", members[:2]...))

	carryOut := func(file, dir string) (*Result, error) {
		return (&Finish{Decision: file, Dirs: []string{dir}, Logger: zap.NewNop()}).Run(t.Context())
	}
	for i, dir := range dirs {
		r, err := carryOut(file, dir)
		check(t, err)
		if want := 3 - i; i < 2 && r.Tail[0] != want || i == 2 && r.Tail[0] != 0 {
			t.Errorf("server %d lacked %d transactions", r.Members[0], r.Tail[0])
		}
		if _, err := carryOut(file+"2", dir); err == nil || !strings.Contains(err.Error(), "another ensemble") {
			t.Errorf("another decision: %v", err)
		}
		again, err := carryOut(file, dir)
		check(t, err)
		if again.Digest != r.Digest {
			t.Errorf("digest %s, and then %s", r.Digest, again.Digest)
		}
	}
	if err := decide(file+"3", members[:2]...); err == nil || !strings.Contains(err.Error(), "member already") {
		t.Errorf("a decision by a member: %v", err)
	}
	for _, text := range []string{"", "{}", `{"Format":1,"Zxid":5}`, `{"Format":2,"Zxid":5}`} {
		check(t, os.WriteFile(file+"4", []byte(text), 0o600))
		if _, err := carryOut(file+"4", dirs[0]); err == nil {
			t.Errorf("the decision %q is carried out", text)
		}
	}
}

// writeDisks writes the data directory of a server that has all of the history.
func (l *toy) writeDisks(dir string) {
	check(l.T, os.MkdirAll(filepath.Join(dir, "version-2"), 0o700))
	b := append([]byte("ZKLG\x00\x00\x00\x02"), make([]byte, 8)...)
	for _, r := range l.records {
		b = jute.AppendInt64(b, int64(adler32.Checksum(r)))
		b = append(jute.AppendBuffer(b, r), 'B')
	}
	check(l.T, os.WriteFile(filepath.Join(dir, "version-2", "log.100000001"), b, 0o600))
}

// finish calls Finish for an ensemble of one.
func finish(t *testing.T, disks string, dirs ...string) error {
	f := &Finish{From: []string{disks}, Single: true, Dirs: dirs, Logger: zap.NewNop()}
	r, err := f.Run(t.Context())
	if err == nil && (len(r.Members) != len(dirs) || r.Text() == "") {
		t.Errorf("result %+v", r)
	}
	return err
}

// TestUnfit sends a transaction whose digest is wrong: the mirror asks for the state, and stops
// after it has happened again and again.
func TestUnfit(t *testing.T) {
	l := newToy(t)
	l.create(1, 0)
	m := start(t, t.TempDir(), 101, l.listener.Addr().String())
	last := jute.Zxid(0)
	for range 3 {
		in := l.accept()
		if last == 0 {
			in.greet(0, 1, 0)
		} else {
			in.greet(1, 1, 0) // it does not report what it has
		}
		in.send(apachelink.Snap, l.last(), nil, l.state()...)
		in.activate(1)
		in.inform(1)
		last = l.last()
		in.send(apachelink.Inform, last+1, l.create(1, 5))
		if _, err := in.in.Next(); err == nil {
			t.Error("the link goes on")
		}
	}
	if err := m.end(); !errors.Is(err, apachelink.ErrStartOver) {
		t.Errorf("the mirror ended with %v", err)
	}
}

// TestTLS follows a leader over TLS. A leader with a certificate of another authority gets nothing.
func TestTLS(t *testing.T) {
	ca, others := certs.New(t, "CA"), certs.New(t, "others")
	dir := t.TempDir()
	settings := func(name string, key certs.Pair) *secure.Settings {
		s := &secure.Settings{VerifyHost: true}
		s.Key.File = certs.Write(t, dir, name+".pem", key.PEM(t))
		s.Trust.File = certs.Write(t, dir, "ca.pem", ca.CertPEM())
		return s
	}
	peer := func(name string, key certs.Pair) *tls.Config {
		s, err := secure.New(*settings(name, key), "quorum", zap.NewNop())
		check(t, err)
		return s.Peer("")
	}
	l := newToy(t)
	l.create(1, 0)
	l.tls = peer("other", others.Issue("127.0.0.1"))
	m := startWith(t, Options{From: []string{l.listener.Addr().String()}, Dir: t.TempDir(), ID: 101, TLS: settings("mirror", ca.Issue("mirror"))})
	if p, err := l.accept().in.Next(); err == nil {
		t.Errorf("a leader of another authority is sent %v", p.Type)
	}
	l.tls = peer("leader", ca.Issue("127.0.0.1"))
	in := l.accept()
	in.greet(0, 1, 0)
	in.send(apachelink.Snap, l.last(), nil, l.state()...)
	in.activate(1)
	in.inform(1)
	check(t, m.stop())
}

// TestUnanswered closes a link as a server of Apache's does that wants a login or TLS: the log tells the
// operator what may be missing.
func TestUnanswered(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	l := newToy(t)
	m := startWith(t, Options{From: []string{l.listener.Addr().String()}, Dir: t.TempDir(), ID: 101, Logger: zap.New(core)})
	in := l.accept()
	in.expect(apachelink.ObserverInfo, 0)
	in.Close()
	l.accept().expect(apachelink.ObserverInfo, 0)
	var said []string
	for _, e := range logs.All() {
		said = append(said, e.Message)
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "serverRequireSasl") || !strings.Contains(text, "--jaas") || !strings.Contains(text, "sslQuorum") {
		t.Errorf("logged: %s", text)
	}
	check(t, m.stop())
}

// TestPinging: a leader that waits gets pings, each of them well within the time after which it gives up.
func TestPinging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, conn := net.Pipe()
		go func() {
			defer conn.Close()
			m := &follower{o: Options{SyncLimit: 10 * time.Second}}
			m.pinging(conn, func() error { time.Sleep(time.Minute); return nil }) // it is nil
		}()
		in, last, pings := apachelink.NewStream(leader), time.Now(), 0
		for ; ; pings++ {
			p, err := in.Next()
			if err != nil {
				break
			}
			if p.Type != apachelink.Ping || p.Data == nil || time.Since(last) > 5*time.Second {
				t.Errorf("%v after %v", p.Type, time.Since(last))
			}
			last = time.Now()
		}
		if pings < 20 {
			t.Errorf("%d pings in a minute", pings)
		}
	})
}

// TestFirstStatus checks that the status names the member from the first time that it is written: a
// mirror that is killed right after its start leaves that.
func TestFirstStatus(t *testing.T) {
	dir := t.TempDir()
	place := data.Place{DataDir: dir, LogDir: dir, Server: 101}
	check(t, data.CreateMirror(place, datadirs.OfApache))
	data, err := mirror.Open(t.Context(), place, datadirs.OfApache, nil)
	check(t, err)
	m := &follower{o: Options{Dir: dir, ID: 101}, data: data, copy: apachelink.NewCopy(data.Tree())}
	r := newReporter(m)
	if f, err := copies.ParseMember(r.status().(*Status).Member); f.Admission != data.Founder() || f.Last != 0 || err != nil {
		t.Errorf("the first status names %v, %v", f, err)
	}
	r.close()
	check(t, data.Close())
}

// TestRefusals checks what a mirror does not do.
func TestRefusals(t *testing.T) {
	l := newToy(t)
	addr := l.listener.Addr().String()
	l.create(1, 0)
	dir := t.TempDir()
	if err := start(t, dir, 0, addr).end(); err == nil || !strings.Contains(err.Error(), "--sid") {
		t.Errorf("a mirror without an id: %v", err)
	}
	m := start(t, dir, 1, addr)
	in := l.accept()
	in.greet(0, 1, 0)
	in.send(apachelink.Snap, l.last(), nil, l.state()...)
	in.send(apachelink.NewLeader, 1<<32, []byte("server.1=a:1:2"))
	if _, err := in.in.Next(); err == nil {
		t.Error("a mirror with the id of a member goes on")
	}
	if err := m.end(); !errors.Is(err, apachelink.ErrStop) {
		t.Errorf("the mirror ended with %v", err)
	}
	if err := start(t, dir, 2, addr).end(); err == nil || !strings.Contains(err.Error(), "of server 1, not 2") {
		t.Errorf("another id: %v", err)
	}
	other := t.TempDir()
	check(t, os.WriteFile(filepath.Join(other, "precious"), nil, 0o600))
	if err := start(t, other, 101, addr).end(); err == nil || !strings.Contains(err.Error(), "precious") {
		t.Errorf("a directory with other files: %v", err)
	}
}

// TestUnfitCopiesAreForgotten: a copy is made again twice, and twice again after a time in which
// everything fitted.
func TestUnfitCopiesAreForgotten(t *testing.T) {
	m := &follower{}
	now := time.Unix(1_000_000, 0)
	for i, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {time.Minute, true}, {unfitSpan, false}, {unfitSpan + 1, true}, {time.Second, true}, {time.Second, false}} {
		now = now.Add(step.after)
		if got := m.mayStartOver(now); got != step.want {
			t.Errorf("copy %d, %v after the one before: made again: %v", i, step.after, got)
		}
	}
}
