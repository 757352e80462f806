package apachelink

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/server/datatree"
)

// TestScenarios runs the pages in testdata. The commands are the leader's packets:
//
//	link SID EPOCH LAST           a new link of a learner that reports these
//	leaderinfo E | diff | trunc Z | uptodate | ping Z | commit Z
//	newleader E [CONFIG|null]     a leader of 3.4 sends null
//	snap Z [PATH@ZXID=DATA]...    SNAP and a state: the root, the system nodes and these
//	propose|inform|activate Z OP  OP is create PATH, set PATH DATA, delete PATH, session, fail
func TestScenarios(t *testing.T) {
	scenario.Run(t, "testdata/*.txt", func(*testing.T) scenario.Command {
		var l *Learner
		return func(words []string) (string, error) {
			if words[0] == "link" {
				l = NewLearner(Options{SID: uint8(number(words[1])), Accepted: uint32(number(words[2])), Last: jute.Zxid(number(words[3]))})
				return "send " + show(l.Greeting()), nil
			}
			p, state := packet(words)
			if p == nil {
				return "", errors.New("unknown")
			}
			s, err := l.Step(p)
			text := render(s, err)
			if s.ReadState {
				f, err := NewStream(bytes.NewReader(state)).State(l.Label())
				if err != nil {
					return text + err.Error(), nil
				}
				l.State(f)
			}
			return text, nil
		}
	})
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// packet returns the packet that a command describes, and the state after it.
func packet(words []string) (p *Packet, state []byte) {
	types := map[string]Type{"leaderinfo": LeaderInfo, "diff": Diff, "trunc": Trunc, "snap": Snap, "newleader": NewLeader, "uptodate": UpToDate,
		"ping": Ping, "commit": Commit, "propose": Proposal, "inform": Inform, "activate": InformAndActivate}
	p = &Packet{Type: types[words[0]]}
	if len(words) > 1 {
		p.Zxid = jute.Zxid(number(words[1]))
	}
	switch words[0] {
	case "leaderinfo":
		p.Zxid, p.Data = p.Zxid<<32, jute.AppendInt32(nil, int32(protocolVersion))
	case "newleader":
		p.Zxid, p.Data = p.Zxid<<32, []byte{}
		if len(words) > 2 {
			p.Data = []byte(words[2])
		}
		if string(p.Data) == "null" {
			p.Data = nil
		}
	case "snap":
		state = stateOf(words[2:])
	case "propose", "inform":
		p.Data = payload(p.Zxid, words[2:])
	case "activate":
		p.Data = append(jute.AppendInt64(nil, int64(1)), payload(p.Zxid, words[2:])...)
	}
	if p.Type == 0 {
		return nil, nil
	}
	return p, state
}

var world = []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}

// payload returns a transaction as the leader sends it.
func payload(zxid jute.Zxid, op []string) []byte {
	types := map[string]int32{"create": 1, "set": 5, "delete": 2, "session": -10, "fail": -1}
	b := jute.AppendInt32(jute.AppendInt64(nil, int64(7)), int32(1))
	b = jute.AppendInt64(jute.AppendInt64(b, int64(zxid)), int64(1000))
	b = jute.AppendInt32(b, types[op[0]])
	switch op[0] {
	case "create":
		b = jute.AppendACLs(jute.AppendBuffer(jute.AppendString(b, op[1]), []byte("new")), world)
		return jute.AppendInt32(jute.AppendBool(b, false), int32(1))
	case "set":
		return jute.AppendInt32(jute.AppendBuffer(jute.AppendString(b, op[1]), []byte(op[2])), int32(1))
	case "delete":
		return jute.AppendString(b, op[1])
	}
	return jute.AppendInt32(b, int32(-101)) // a code, or a timeout
}

// stateOf returns a state with these nodes.
func stateOf(nodes []string) []byte {
	b := jute.AppendInt32(jute.AppendInt32(nil, int32(0)), int32(0)) // sessions, lists of ACLs
	node := func(path, data string, zxid uint64) {
		b = jute.AppendInt64(jute.AppendBuffer(jute.AppendString(b, path), []byte(data)), int64(-1))
		b = jute.AppendInt64(jute.AppendInt64(b, int64(zxid)), int64(zxid))
		b = append(b, make([]byte, 8+8+4+4+4+8)...)
		b = jute.AppendInt64(b, int64(zxid))
	}
	for _, path := range []string{"", "/zookeeper", "/zookeeper/quota"} {
		node(path, "", 0)
	}
	for _, n := range nodes {
		path, rest, _ := strings.Cut(n, "@")
		zxid, data, _ := strings.Cut(rest, "=")
		node(path, data, number(zxid))
	}
	return jute.AppendString(jute.AppendString(b, "/"), "BenWasHere")
}

func render(s Step, err error) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if s.Accept != 0 {
		line("accept epoch %d", s.Accept)
	}
	if s.ReadState {
		line("read the state")
	}
	if s.Install != nil {
		line("install %v", s.Install.Last)
		s.Install.Walk(func(path string, n *apachefiles.Node) error { // fn returns none
			if !strings.HasPrefix(path+"/", "/zookeeper/") {
				line("  %s@%v=%s pzxid %v", path, n.Mzxid, n.Data, n.Pzxid)
			}
			return nil
		})
	}
	for _, x := range s.Txns {
		line("apply %v %d ops", x.Zxid, len(x.Ops))
	}
	for _, p := range s.Send {
		line("send %s", show(p))
	}
	if s.Synced {
		line("synced")
	}
	if err != nil {
		line("error: %v", err)
	}
	return b.String()
}

func show(p Packet) string { return fmt.Sprintf("%v %v %x", p.Type, p.Zxid, p.Data) }

// TestPackets reads packets back that were written, and refuses them cut.
func TestPackets(t *testing.T) {
	for _, p := range []Packet{{Ping, -1, nil}, {Inform, 1 << 40, []byte{}}, {Snap, 0, bytes.Repeat([]byte("x"), 3*readStep+5)}} {
		b := p.Append(nil)
		got, err := NewStream(bytes.NewReader(b)).Next()
		if err != nil || got.Type != p.Type || got.Zxid != p.Zxid || !bytes.Equal(got.Data, p.Data) || (got.Data == nil) != (p.Data == nil) {
			t.Errorf("%v: got %v, %v", p.Type, got, err)
		}
		for _, n := range []int{0, 5, 13, len(b) - 1} {
			if _, err := NewStream(bytes.NewReader(b[:n])).Next(); err == nil {
				t.Errorf("%v, cut to %d bytes, is accepted", p.Type, n)
			}
		}
	}
	long := Packet{Type: Inform}
	b := long.Append(nil)
	copy(b[12:], []byte{0x7f, 0xff, 0xff, 0xff})
	if _, err := NewStream(bytes.NewReader(b)).Next(); err == nil {
		t.Error("2 GiB of data are accepted")
	}
}

// TestCopyDigest compares the digests of a copy with those that Apache's server has computed.
func TestCopyDigest(t *testing.T) {
	c := NewCopy(datatree.New())
	if c.Digest() != 0x51c6d660 {
		t.Errorf("a fresh tree has digest %x", c.Digest())
	}
	digest := func(v uint64) *uint64 { return &v }
	create := datatree.Txn{Zxid: 1, Ops: []datatree.Op{{Kind: datatree.OpCreate, Path: "/a", Cversion: 1}}}
	if err := c.Apply(&apachefiles.Txn{Txn: create, Digest: digest(1)}); err == nil {
		t.Error("a wrong digest is accepted")
	}
	if walked := NewCopy(c.Tree); walked.Digest() != c.Digest() {
		t.Errorf("the digest is %x, and that of the same tree %x", c.Digest(), walked.Digest())
	}
	create.Zxid = 2
	if err := c.Apply(&apachefiles.Txn{Txn: create}); err == nil {
		t.Error("a create of a node that exists is accepted")
	}
	create.Ops[0].Path, create.Ops[0].Cversion = "/b", -1
	if err := c.Apply(&apachefiles.Txn{Txn: create}); err == nil {
		t.Error("a create without the parent's counter is accepted")
	}
}

// FuzzStream reads what a leader may send. Nothing panics, and what is passed on is in order.
func FuzzStream(f *testing.F) {
	for _, script := range []string{
		"leaderinfo 1;snap 0x100000001 /a@0x100000002=x;inform 0x100000002 create /b;newleader 1;uptodate;inform 0x100000003 set /a y;ping 0x100000003",
		"leaderinfo 1;snap 0x100000001 /a@0x100000002=x;newleader 1 null;inform 0x100000002 create /a;uptodate;inform 0x100000003 set /a y",
		"leaderinfo 1;diff;propose 0x100000001 create /a;commit 0x100000001;newleader 1;uptodate;activate 0x100000002 delete /a",
	} {
		var b []byte
		for line := range strings.SplitSeq(script, ";") {
			p, state := packet(strings.Fields(line))
			b = append(p.Append(b), state...)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, in := NewLearner(Options{SID: 9}), NewStream(bytes.NewReader(b))
		last := jute.Zxid(0)
		for {
			p, err := in.Next()
			if err != nil {
				return
			}
			s, err := l.Step(p)
			if err != nil {
				return
			}
			if s.ReadState {
				state, err := in.State(l.Label())
				if err != nil {
					return
				}
				l.State(state)
			}
			if s.Install != nil {
				last = s.Install.Last
			}
			for _, x := range s.Txns {
				if err := follows(last, x.Zxid); err != nil {
					t.Fatal(err)
				}
				last = x.Zxid
			}
		}
	})
}
