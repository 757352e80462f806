package server

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// script generates a random stream of requests and the expected answers, computed by the
// simplest possible model: the client is alone in its subtree.
type script struct {
	rng    *rand.Rand
	root   string
	nodes  map[string]modelNode // by name, children of root
	auths  int
	stream []byte
	want   []expectation
	auth   []expectation // may be answered early
}

type modelNode struct {
	data    string
	version int32
	owned   bool
}

type expectation struct {
	what string
	xid  int32
	err  jute.Code
	body func(b []byte) string // returns the error in the body, "" for none
}

func newScript(rng *rand.Rand, root string) *script {
	return &script{rng: rng, root: root, nodes: map[string]modelNode{}}
}

func (s *script) add(op jute.OpCode, body record, e expectation) {
	e.xid = int32(len(s.want) + len(s.auth) + 2)
	if op == jute.OpPing {
		e.xid = jute.XidPing
	}
	e.what = fmt.Sprintf("%v %+v", op, body)
	s.stream = append(s.stream, frameOf(requestFrame(e.xid, op, body))...)
	if op == jute.OpAuth {
		s.auth = append(s.auth, e)
	} else {
		s.want = append(s.want, e)
	}
}

func (s *script) path(name string) string { return s.root + "/" + name }

// step adds one random request.
func (s *script) step() {
	name := string(rune('a' + s.rng.IntN(5)))
	data := strconv.Itoa(s.rng.IntN(1000)) + strings.Repeat("x", s.rng.IntN(3)*s.rng.IntN(400))
	switch s.rng.IntN(16) {
	case 0, 1:
		s.add(s.create(name, data))
	case 2, 3, 4:
		s.add(s.set(name, data))
	case 5:
		s.add(s.delete(name))
	case 6:
		s.multi(data)
	case 7:
		s.add(jute.OpSync, &jute.PathRequest{Path: s.root}, expectation{})
	case 8:
		s.add(jute.OpPing, nil, expectation{})
	case 9:
		s.auths++
		s.add(jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte("u" + strconv.Itoa(s.auths) + ":p")}, expectation{})
		s.whoAmI()
	case 10:
		s.children()
	case 11:
		s.add(jute.OpGetData, bytesRecord{0, 0, 0, 9, '/'}, expectation{err: jute.ErrMarshalling})
	case 12:
		s.ephemerals()
	default:
		s.get(name)
	}
}

// bytesRecord is the encoded body of a request.
type bytesRecord []byte

func (r bytesRecord) Append(b []byte) []byte { return append(b, r...) }

func (s *script) create(name, data string) (jute.OpCode, record, expectation) {
	mode := jute.CreateMode(s.rng.IntN(2))
	r := create(s.path(name), data, mode)
	if _, ok := s.nodes[name]; ok {
		return jute.OpCreate, r, expectation{err: jute.ErrNodeExists}
	}
	s.nodes[name] = modelNode{data: data, owned: mode == jute.ModeEphemeral}
	return jute.OpCreate, r, expectation{body: func(b []byte) string {
		d := jute.NewDecoder(b)
		return differs(d.String(), s.path(name))
	}}
}

func (s *script) set(name, data string) (jute.OpCode, record, expectation) {
	n, ok := s.nodes[name]
	r := &jute.SetDataRequest{Path: s.path(name), Data: []byte(data), Version: int32(s.rng.IntN(4)) - 1}
	switch {
	case !ok:
		return jute.OpSetData, r, expectation{err: jute.ErrNoNode}
	case r.Version >= 0 && r.Version != n.version:
		return jute.OpSetData, r, expectation{err: jute.ErrBadVersion}
	}
	n.data, n.version = data, n.version+1
	s.nodes[name] = n
	return jute.OpSetData, r, expectation{body: func(b []byte) string {
		var stat jute.Stat
		d := jute.NewDecoder(b)
		stat.Decode(&d)
		return differs(stat.Version, n.version)
	}}
}

func (s *script) delete(name string) (jute.OpCode, record, expectation) {
	if _, ok := s.nodes[name]; !ok {
		return jute.OpDelete, del(s.path(name)), expectation{err: jute.ErrNoNode}
	}
	delete(s.nodes, name)
	return jute.OpDelete, del(s.path(name)), expectation{}
}

// multi sets two nodes, or none if one of them is missing.
func (s *script) multi(data string) {
	var m jute.MultiRequest
	before := maps.Clone(s.nodes)
	var failed jute.Code
	for _, name := range []string{"a", "b"} {
		_, r, e := s.set(name, data)
		set := r.(*jute.SetDataRequest)
		m.Ops = append(m.Ops, jute.MultiOp{Type: jute.OpSetData, Path: set.Path, Data: set.Data, Version: set.Version})
		if failed == 0 {
			failed = e.err
		}
	}
	if failed != 0 {
		s.nodes = before
	}
	s.add(jute.OpMulti, &m, expectation{body: func(b []byte) string {
		var r jute.MultiResponse
		d := jute.NewDecoder(b)
		r.Decode(&d)
		got := jute.Code(0)
		for _, res := range r.Results {
			if res.Err != 0 && res.Err != jute.ErrRuntimeInconsistency {
				got = res.Err
			}
		}
		return differs(got, failed)
	}})
}

func (s *script) get(name string) {
	n, ok := s.nodes[name]
	if !ok {
		s.add(jute.OpGetData, get(s.path(name), false), expectation{err: jute.ErrNoNode})
		return
	}
	s.add(jute.OpGetData, get(s.path(name), false), expectation{body: func(b []byte) string {
		var r jute.GetDataResponse
		d := jute.NewDecoder(b)
		r.Decode(&d)
		return differs(fmt.Sprint(string(r.Data), r.Stat.Version), fmt.Sprint(n.data, n.version))
	}})
}

func (s *script) children() {
	want := slices.Sorted(maps.Keys(s.nodes))
	s.add(jute.OpGetChildren, get(s.root, false), expectation{body: func(b []byte) string {
		d := jute.NewDecoder(b)
		return differs(fmt.Sprint(slices.Sorted(slices.Values(d.Strings()))), fmt.Sprint(want))
	}})
}

func (s *script) ephemerals() {
	var want []string
	for name, n := range s.nodes {
		if n.owned {
			want = append(want, s.path(name))
		}
	}
	slices.Sort(want)
	s.add(jute.OpGetEphemerals, &jute.GetEphemeralsRequest{Prefix: s.root}, expectation{body: func(b []byte) string {
		d := jute.NewDecoder(b)
		return differs(fmt.Sprint(slices.Sorted(slices.Values(d.Strings()))), fmt.Sprint(want))
	}})
}

// whoAmI must show the auth packets sent before it, and no later ones.
func (s *script) whoAmI() {
	want := 1 + s.auths
	s.add(jute.OpWhoAmI, nil, expectation{body: func(b []byte) string {
		var r jute.WhoAmIResponse
		d := jute.NewDecoder(b)
		r.Decode(&d)
		return differs(len(r.Clients), want)
	}})
}

func differs[T comparable](got, want T) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("got %v, want %v", got, want)
}

// check takes the replies to the whole script.
func (s *script) check(c *client) error {
	var zxid jute.Zxid
	want, auth := s.want, s.auth
	for len(want)+len(auth) > 0 {
		r, err := c.next()
		if err != nil {
			return fmt.Errorf("%d replies missing, the next to %s: %w", len(want)+len(auth), slices.Concat(want, auth)[0].what, err)
		}
		var e expectation
		switch {
		case len(auth) > 0 && r.Xid == auth[0].xid:
			e, auth = auth[0], auth[1:]
		case len(want) == 0:
			return fmt.Errorf("%v, but nothing more was asked", r)
		default:
			e, want = want[0], want[1:]
			if r.Zxid < zxid && r.Err != jute.ErrUnimplemented {
				return fmt.Errorf("%s: zxid %v after %v", e.what, r.Zxid, zxid)
			}
			zxid = max(zxid, r.Zxid)
		}
		if r.Xid != e.xid || r.Err != e.err {
			return fmt.Errorf("%s: got %v, want xid %d err %d", e.what, r, e.xid, e.err)
		}
		if r.Err == 0 && e.body != nil {
			if wrong := e.body(r.body); wrong != "" {
				return fmt.Errorf("%s: %s", e.what, wrong)
			}
		}
	}
	return nil
}

// TestPipelinesAreAnsweredInOrder checks that random mixes of all kinds of requests, cut
// anywhere, are answered in order, each read seeing exactly the writes before it, under
// every kind of throttling and with clients that read slowly.
func TestPipelinesAreAnsweredInOrder(t *testing.T) {
	for _, test := range []struct {
		line   string
		window int
	}{
		{"globalOutstandingLimit=1000", 1 << 20},
		{"globalOutstandingLimit=1", 1 << 20},
		{"globalOutstandingLimit=7", 500},
		{"globalOutstandingLimit=100000", 200},
		{"request_throttle_max_requests=3", 64 << 10},
	} {
		t.Run(test.line, func(t *testing.T) {
			s := startServer(t, test.line)
			seed := seeds.First(t)
			var wg sync.WaitGroup
			for n := range 5 {
				c := s.dial(t, dialOptions{window: test.window})
				c.establish(&jute.ConnectRequest{TimeoutMs: 20_000})
				root := "/s" + strconv.Itoa(n)
				c.create(root, "")
				rng := rand.New(rand.NewPCG(seed, uint64(n)))
				sc := newScript(rng, root)
				for range 800 {
					sc.step()
				}
				sc.add(4711, nil, expectation{err: jute.ErrUnimplemented})
				sc.stream = append(sc.stream, bytes.Repeat(frameOf(requestFrame(9, jute.OpSetData, set(root, "after"))), 3)...)
				c.nc.SetDeadline(time.Now().Add(patience))
				wg.Go(func() {
					for rest := sc.stream; len(rest) > 0; {
						k := min(len(rest), 1+rng.IntN(1+rng.IntN(2000)))
						if _, err := c.nc.Write(rest[:k]); err != nil {
							return // after the unknown operation
						}
						rest = rest[k:]
					}
				})
				wg.Go(func() {
					if err := sc.check(c); err != nil {
						t.Errorf("client %d: %v", n, err)
						return
					}
					c.eof("unknown operation")
				})
			}
			wg.Wait()
			s.noErrors(t)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if n, b := s.overview.read().WaitingRequests, s.overview.read().WaitingBytes; n != 0 || b != 0 {
				t.Errorf("%d requests of %d bytes count as waiting in the end", n, b)
			}
		})
	}
}
