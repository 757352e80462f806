package server

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/jute"
)

// The answers to requests that no client library makes. Each is the answer of Apache
// ZooKeeper 3.9: test/compat compares them.

const nullString = "\xff\xff\xff\xff"

// TestPrefixOfEphemeralsIsTrimmed: "", "/" and null list everything, with any white
// space and control characters around them. In other prefixes these count.
func TestPrefixOfEphemeralsIsTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t).connect(t)
		c.ephemeral("/a")
		c.ephemeral("/b c")
		all := []string{"/a", "/b c"}
		for _, tc := range []struct {
			prefix string
			want   []string
		}{
			{"", all}, {" ", all}, {"/", all}, {" / ", all}, {"\t\n\x00 ", all}, {"\x1f/\x01", all},
			{"/a", all[:1]}, {"/b ", all[1:]}, {" /a", nil}, {"/a ", nil}, {"\u00a0", nil}, {"//", nil},
		} {
			r := c.ok(jute.OpGetEphemerals, &jute.PathRequest{Path: tc.prefix})
			d := jute.NewDecoder(r.body)
			got := d.Strings()
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("prefix %q: %q, want %q", tc.prefix, got, tc.want)
			}
		}
	})
}

// TestUndecodableCredentialsEndTheConnection without a reply: an auth packet or a
// SASL request that is cut off, and a SASL request with a null token.
func TestUndecodableCredentialsEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		whole := (&jute.AuthRequest{Scheme: "digest", Auth: []byte("u:p")}).Append(nil)
		for n := range whole {
			c := s.connect(t)
			c.sendFrame(requestFrame(jute.XidAuth, jute.OpAuth, bytesRecord(whole[:n])))
			c.eof("an auth packet that is cut off")
		}
		for _, body := range []string{"", "\x00\x00\x00", "\x00\x00\x00\x02a", nullString} {
			c := s.connect(t)
			c.send(jute.OpSASL, bytesRecord(body))
			c.eof("a SASL request without a token")
		}
		c := s.connect(t)
		if r := c.ok(jute.OpSASL, bytesRecord("\x00\x00\x00\x01a")); string(r.body) != nullString {
			t.Errorf("SASL token: got %x, want the null token", r.body)
		}
	})
}

// TestSyncEchoesItsRecord, so that a null path stays null and "" stays "".
func TestSyncEchoesItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t).connect(t)
		for _, record := range []string{nullString, "\x00\x00\x00\x00", "\x00\x00\x00\x02/a", "\x00\x00\x00\x01\xff"} {
			if r := c.ok(jute.OpSync, bytesRecord(record)); string(r.body) != record {
				t.Errorf("sync %x: got %x", record, r.body)
			}
		}
		if r := c.ok(jute.OpSync, bytesRecord("\x00\x00\x00\x01/and more")); string(r.body) != "\x00\x00\x00\x01/" {
			t.Errorf("sync with more behind the record: got %x", r.body)
		}
	})
}

// TestMultiReadStopsAtWhatIsNoRead checks that the results so far follow the error, and
// that none do if the request can't be decoded.
func TestMultiReadStopsAtWhatIsNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t).connect(t)
		read := jute.MultiOp{Type: jute.OpGetChildren, Path: "/zookeeper/quota"}
		none := jute.MultiOp{Type: jute.OpGetData, Path: "/none"}
		null := jute.MultiOp{Type: jute.OpGetData, NullPath: true}
		check := jute.MultiOp{Type: jute.OpCheck, Path: "/"}
		multi := func(ops ...jute.MultiOp) *jute.MultiRequest { return &jute.MultiRequest{Ops: ops} }
		results := func(list ...jute.MultiResult) string {
			r := jute.MultiResponse{Results: list}
			return string(r.Append(nil))
		}
		children := jute.MultiResult{Type: jute.OpGetChildren}
		noNode := jute.MultiResult{Type: jute.OpError, Err: jute.ErrNoNode}
		for _, tc := range []struct {
			name string
			req  record
			want string
		}{
			{"null path", multi(null), results()},
			{"null path after two reads", multi(read, none, null, read), results(children, noNode)},
			{"write", multi(check), results()},
			{"two writes", multi(check, check), results()},
			{"write after a read", multi(read, check), ""},
			{"cut off", bytesRecord("\x00\x00\x00\x04"), ""},
		} {
			r := c.call(jute.OpMultiRead, tc.req)
			if r.Err != jute.ErrMarshalling || string(r.body) != tc.want {
				t.Errorf("%s: error %v with body %x, want ErrMarshalling with %x", tc.name, r.Err, r.body, tc.want)
			}
		}
	})
}

// TestUndecodableWriteTakesNoZxid, at one server and through a follower: it leaves no
// transaction, and its answer keeps its place among the other requests. A multi that
// can't be decoded takes a zxid.
func TestUndecodableWriteTakesNoZxid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sendUndecodableWrites(t, startServer(t).connect(t))
	})
	synctest.Test(t, func(t *testing.T) {
		e := startEnsemble(t, 3)
		sendUndecodableWrites(t, e.servers[e.follower()].connect(t))
		e.settled()
	})
}

func sendUndecodableWrites(t *testing.T, c *client) {
	before := c.ok(jute.OpCreate, create("/a", "", 0)).Zxid
	ops := []jute.OpCode{jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete,
		jute.OpSetData, jute.OpSetACL, jute.OpReconfig}
	var xids []int32
	for _, op := range ops {
		xids = append(xids, c.send(op, bytesRecord("\x00\x00\x00\x02/")), c.send(jute.OpSetData, set("/a", op.String())))
	}
	for i, op := range ops {
		bad, good := c.await(xids[2*i]), c.await(xids[2*i+1])
		if bad.Err != jute.ErrMarshalling || bad.Zxid != before+jute.Zxid(i) {
			t.Errorf("%v that is cut off: %v, want ErrMarshalling at %v", op, bad, before+jute.Zxid(i))
		}
		if good.Err != 0 || good.Zxid != before+jute.Zxid(i)+1 {
			t.Errorf("setData after it: %v, want success at %v", good, before+jute.Zxid(i)+1)
		}
	}
	last := before + jute.Zxid(len(ops))
	if r := c.call(jute.OpMulti, bytesRecord("\x00")); r.Err != jute.ErrMarshalling || r.Zxid != last+1 {
		t.Errorf("multi that is cut off: %v, want ErrMarshalling at %v", r, last+1)
	}
}

// TestNullPathsOfWrites checks that the server notices a null path when it uses the path,
// after other checks.
func TestNullPathsOfWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t).connect(t)
		for _, tc := range []struct {
			name string
			op   jute.MultiOp
			want jute.Code
		}{
			{"create", jute.MultiOp{Type: jute.OpCreate, NullPath: true, ACL: openACL}, jute.ErrMarshalling},
			{"create with an unknown mode", jute.MultiOp{Type: jute.OpCreate, NullPath: true, ACL: openACL, Mode: 7}, jute.ErrBadArguments},
			{"delete", jute.MultiOp{Type: jute.OpDelete, NullPath: true}, jute.ErrMarshalling},
			{"setData", jute.MultiOp{Type: jute.OpSetData, NullPath: true}, jute.ErrBadArguments},
		} {
			if r := c.call(tc.op.Type, &tc.op); r.Err != tc.want {
				t.Errorf("%s with a null path: %v, want %v", tc.name, r.Err, tc.want)
			}
		}
	})
}

// TestEmptyPathIsNotWatched: "" reads the root, but no event is on it, and it is below
// the root for a count of descendants.
func TestEmptyPathIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startServer(t).connect(t)
		c.ok(jute.OpGetChildren, get("", true))
		c.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "", Mode: jute.AddPersistentRecursive})
		c.ok(jute.OpAddWatch, bytesRecord(nullString+"\x00\x00\x00\x01"))
		c.create("/a", "")
		if len(c.events) > 0 {
			t.Errorf("events of watches on \"\": %v", c.events)
		}
		c.ok(jute.OpRemoveWatches, &jute.RemoveWatchesRequest{Path: "", Type: jute.WatchPersistentRecursive})
		for path, want := range map[string]int32{"": 5, "/": 4} { // "/zookeeper", its two children and "/a"
			r := c.ok(jute.OpGetAllChildrenNumber, &jute.PathRequest{Path: path})
			d := jute.NewDecoder(r.body)
			if got := d.Int32(); got != want {
				t.Errorf("count of %q: %d, want %d", path, got, want)
			}
		}
		c.ok(jute.OpSetWatches, &jute.SetWatchesRequest{RelativeZxid: 0, Child: []string{""}})
		if len(c.events) != 1 || c.events[0].event().Path != "" {
			t.Errorf("events of a setWatches on \"\": %v, want one on \"\"", c.events)
		}
	})
}
