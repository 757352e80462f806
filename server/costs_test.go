package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/internal/steps"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/replica"
)

// The world in which requests are measured: everything in it is about as deep, wide or large as it may be.
const (
	costDepth    = 1500 // of the chain /d/d/d...; there is an ephemeral of the client's session on each level
	costChildren = 5000 // of /wide
	costPlaces   = 3000 // contenders for a place, which are the client's, too
	costEntries  = auth.MaxEntries
	costIDs      = 64 // of the connection, besides its address
)

// What a request may cost besides its bytes and those of what it is answered.
const (
	oneList      = 3 * costEntries * (1 + costIDs) // an ACL is compared with the identities: for the request, a watcher and a feed
	onePart      = 2 * 1024                        // children are put in order a part at a time
	ownNodes     = 2*costDepth + costPlaces        // the session's ephemerals, and the nodes above them
	contenders   = 2 * auth.MaxContenders          // of a place, each found by its name
	allHistory   = 30_000                          // the changes that are kept for feeds
	otherNodes   = 1000                            // what the server reads on its own
	longestPaths = 4 << 20                         // of the ephemerals that a closeSession lists
	stepsOfByte  = 4
)

// asked is a request of a kind, and what it may cost.
type asked struct {
	op    jute.OpCode
	part  jute.OpCode // of a multi
	name  string
	body  func(w *costWorld) record
	want  jute.Code
	most  int                            // steps besides those for its bytes
	ends  bool                           // the connection ends: clients can't send it
	admin bool                           // a super user asks
	do    func(w *costWorld) (bytes int) // instead of sending it
}

type costWorld struct {
	*client
	e      *testEnsemble
	leader *testServer
	steps  *steps.Counter
	bottom string
	deeper string // bottom and some more bytes
	admin  *client
	next   int
	view   int64
	begin  int64
}

// TestEveryRequestIsLinear, of which "make costs" shows the table, sends requests of each kind that there is, to nodes that are deep, wide or large, or have a
// long ACL. It compares what the leader does for each, in look-ups, nodes and comparisons, with the bytes of the request
// and of what is sent for it. A row says what it may cost besides. What the leader orders is charged to its turn.
func TestEveryRequestIsLinear(t *testing.T) {
	counters := make(map[*Server]*steps.Counter)
	tune := func(s *Server) {
		counters[s] = new(steps.Counter)
		s.identities.Schemes.CountSteps(counters[s])
		s.state.Watches.CountSteps(counters[s])
	}
	inTunedBubble(t, 3, tune, []string{"reconfigEnabled=true", "zkd.feedHistoryKb=65536", superIs}, func(t *testing.T, e *testEnsemble) {
		s := e.servers[e.leader()]
		w := &costWorld{e: e, leader: s, steps: counters[s.Server]}
		s.state.Lock()
		s.state.Tree.CountSteps(w.steps)
		s.changes.CountSteps(w.steps)
		s.state.Unlock()
		w.build(t)
		rows := costs()
		for _, row := range rows {
			w.measure(t, row)
		}
		for op := jute.OpCode(-100); op < 10_000; op++ {
			if known := !strings.HasPrefix(op.String(), "OpCode("); known && !slices.ContainsFunc(rows, func(r asked) bool { return r.op == op || r.part == op }) {
				t.Errorf("the cost of %v is not measured", op)
			}
		}
	})
}

// build makes the world.
func (w *costWorld) build(t *testing.T) {
	w.client = w.leader.asking(t, jute.FeatureFeed|jute.FeaturePaging|jute.FeatureOperations|jute.FeaturePast, nil)
	for i := range costIDs {
		w.ok(jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: fmt.Appendf(nil, "user-%d:secret", i)})
	}
	var ops []jute.MultiOp
	flush := func(least int) {
		if len(ops) >= least {
			w.ok(jute.OpMulti, &jute.MultiRequest{Ops: ops})
			ops = nil
		}
	}
	add := func(path string, mode jute.CreateMode, acl []jute.ACL) {
		ops = append(ops, jute.MultiOp{Type: jute.OpCreate, Path: path, ACL: acl, Mode: mode})
		flush(100)
	}
	for range costDepth {
		w.bottom += "/d"
		add(w.bottom, jute.ModePersistent, openACL)
	}
	flush(1)
	for path := w.bottom; path != ""; path = path[2:] {
		add(path+"/own", jute.ModeEphemeral, openACL)
	}
	w.deeper = w.bottom + "/" + strings.Repeat("x", 100)
	add("/wide", 0, openACL)
	for i := range costChildren {
		add(fmt.Sprintf("/wide/child-%06d", i), 0, openACL)
	}
	add("/empty", 0, openACL)
	add("/young", 0, openACL)
	add("/young/z", 0, openACL)
	flush(1)
	var list []jute.ACL
	for i := range costEntries - 1 {
		list = append(list, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("other-%d:hash", i)}})
	}
	list = append(list, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}})[:costEntries]
	list = list[costIDs-1:] // auth stands for all identities
	add("/listed", 0, list)
	add("/listed/child", 0, list)
	add("/short", 0, list[:15])
	add("/places", 0, openACL)
	add("/held", 0, []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "holder", ID: "/places"}}})
	flush(1)
	for i := costPlaces; i > 0; i-- {
		add(fmt.Sprintf("/places/%010d", i), jute.ModeEphemeral, openACL)
	}
	flush(1)
	w.create("/large", strings.Repeat("x", 500_000))
	w.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: w.bottom, Mode: jute.AddPersistentRecursive})
	w.admin = w.leader.asking(t, jute.FeatureOperations, nil)
	w.admin.ok(jute.OpAuth, &jute.AuthRequest{Scheme: "digest", Auth: []byte("super:secret")})
	w.e.settled()
}

// measure sends a request and compares the steps with the bytes.
func (w *costWorld) measure(t *testing.T, row asked) {
	t.Helper()
	var body record
	if row.body != nil {
		body = row.body(w)
	}
	c := w.client
	if row.admin {
		c = w.admin
	}
	if row.ends {
		c = w.leader.asking(t, 0, nil)
	}
	synctest.Wait()
	w.events = nil
	w.leader.metrics.TurnWork.Reset()
	size := 0
	w.begin = w.steps.Total()
	if row.do != nil {
		size = row.do(w)
	} else {
		size = w.exchange(t, c, &row, body)
	}
	synctest.Wait()
	n := int(w.steps.Total() - w.begin)
	charged := int(w.leader.metrics.TurnWork.Max())
	t.Logf("%-22v %-40s %8d bytes %8d steps, %8.2f for each, charged %d", row.op, row.name, size, n, float64(n)/float64(max(size, 1)), charged)
	if most := stepsOfByte*size + row.most + otherNodes; n > most {
		t.Errorf("%v %s: %d steps, want at most %d, for %d bytes", row.op, row.name, n, most, size)
	}
	if replica.Ordered(row.op) && !row.ends && n > otherNodes+1000*charged {
		t.Errorf("%v %s: %d steps are charged as %d", row.op, row.name, n, charged)
	}
}

// exchange sends a request and takes what comes up to the reply. It returns the bytes of all.
func (w *costWorld) exchange(t *testing.T, c *client, row *asked, body record) (size int) {
	t.Helper()
	c.xid++
	frame := requestFrame(c.xid, row.op, body)
	c.sendFrame(frame)
	for size = 4 + len(frame); ; {
		got, err := c.next()
		if err != nil && row.ends {
			return size
		}
		if err != nil {
			t.Fatalf("%v %s: %v", row.op, row.name, err)
		}
		size += 20 + len(got.body)
		if !row.ends && (got.Xid == c.xid || got.Xid == jute.XidPing) {
			if got.Err != row.want {
				t.Fatalf("%v %s: %v, want %v", row.op, row.name, got.Err, row.want)
			}
			w.took(row.op, got)
			return size
		}
	}
}

// took keeps what later requests need of a reply.
func (w *costWorld) took(op jute.OpCode, r reply) {
	if op == jute.OpSubtreePage && r.Err == 0 {
		d := jute.NewDecoder(r.body)
		d.Int64()
		w.view = d.Int64()
	}
}

// at returns a request with a path.
func at(path string) func(*costWorld) record {
	return func(*costWorld) record { return get(path, true) }
}

// many returns a multi of n operations, which a function makes.
func many(n int, of func(w *costWorld, i int) jute.MultiOp) func(*costWorld) record {
	return func(w *costWorld) record {
		m := &jute.MultiRequest{}
		for i := range n {
			m.Ops = append(m.Ops, of(w, i))
		}
		return m
	}
}

// below returns the path of a node that there has not been, below another.
func (w *costWorld) below(path string) string {
	w.next++
	return fmt.Sprintf("%s/new-%d-", path, w.next)
}

// costs are the requests. Those of a kind come in their order.
func costs() (rows []asked) {
	add := func(op jute.OpCode, name string, most int, body func(w *costWorld) record) *asked {
		rows = append(rows, asked{op: op, name: name, most: most, body: body})
		return &rows[len(rows)-1]
	}
	bottom := func(w *costWorld) record { return get(w.bottom, true) }
	for _, op := range []jute.OpCode{jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2} {
		add(op, "deep", 0, bottom)
		add(op, "wide", 0, at("/wide"))
		add(op, "large", 0, at("/large"))
		add(op, "a long ACL", oneList, at("/listed"))
		add(op, "a place is held", contenders, at("/held"))
		add(op, "not there", 0, func(w *costWorld) record { return get(w.deeper, true) }).want = jute.ErrNoNode
	}
	for _, op := range []jute.OpCode{jute.OpGetACL, jute.OpGetAllChildrenNumber} {
		path := func(path string) func(*costWorld) record {
			return func(*costWorld) record { return &jute.PathRequest{Path: path} }
		}
		add(op, "deep", 0, func(w *costWorld) record { return &jute.PathRequest{Path: w.bottom} })
		add(op, "wide", 0, path("/wide"))
		add(op, "a long ACL", oneList, path("/listed"))
		add(op, "a place is held", 2*contenders, path("/held"))
	}
	add(jute.OpMultiRead, "deep", 0, many(100, func(w *costWorld, _ int) jute.MultiOp { return jute.MultiOp{Type: jute.OpGetData, Path: w.bottom} }))
	add(jute.OpMultiRead, "children", 0, many(20, func(*costWorld, int) jute.MultiOp { return jute.MultiOp{Type: jute.OpGetChildren, Path: "/wide"} }))
	add(jute.OpMultiRead, "no children", 0, many(5000, func(*costWorld, int) jute.MultiOp { return jute.MultiOp{Type: jute.OpGetChildren, Path: "/empty"} }))
	add(jute.OpMultiRead, "a long ACL", oneList, many(5000, func(*costWorld, int) jute.MultiOp { return jute.MultiOp{Type: jute.OpGetData, Path: "/listed"} }))
	add(jute.OpMultiRead, "a short ACL", 0, many(5000, func(*costWorld, int) jute.MultiOp { return jute.MultiOp{Type: jute.OpGetData, Path: "/short"} }))
	add(jute.OpMultiRead, "a place is held", contenders, many(5000, func(*costWorld, int) jute.MultiOp { return jute.MultiOp{Type: jute.OpGetData, Path: "/held"} }))

	ephemerals := func(prefix string) func(*costWorld) record {
		return func(*costWorld) record { return &jute.GetEphemeralsRequest{Prefix: prefix} }
	}
	add(jute.OpGetEphemerals, "all", ownNodes, ephemerals(""))
	add(jute.OpGetEphemerals, "none", ownNodes, ephemerals("/none"))
	add(jute.OpGetEphemerals, "none there", ownNodes, ephemerals("/none/x"))
	add(jute.OpGetEphemerals, "deep", ownNodes, func(w *costWorld) record { return &jute.GetEphemeralsRequest{Prefix: w.bottom} })

	for _, show := range []int32{jute.ShowNames, jute.ShowData} {
		for _, after := range []string{"", "child-002000", "z"} {
			for _, limit := range []int32{0, 1} {
				add(jute.OpChildrenPage, fmt.Sprintf("show %d after %q, limit %d", show, after, limit), onePart, func(*costWorld) record {
					return &jute.ChildrenPageRequest{Path: "/wide", After: after, Limit: limit, Show: show}
				})
			}
		}
		add(jute.OpChildrenPage, "deep", onePart, func(w *costWorld) record { return &jute.ChildrenPageRequest{Path: w.bottom, Show: show} })
		add(jute.OpChildrenPage, "a long ACL", oneList, func(w *costWorld) record { return &jute.ChildrenPageRequest{Path: "/listed", Show: show} })
	}
	for _, path := range []string{"/wide", "/listed", "/held", "/places", "/large"} {
		add(jute.OpSubtreePage, "the first of "+path, max(onePart, oneList, contenders), func(*costWorld) record {
			return &jute.SubtreePageRequest{Path: path, Show: jute.ShowACLs}
		})
	}
	for _, path := range []string{"/wide", "/listed", "/large"} { // its state is another tree: what counts is who may read it by now
		add(jute.OpPast, path, max(onePart, oneList), func(w *costWorld) record {
			return &jute.PastRequest{Path: path, Show: jute.ShowACLs, Below: true, Zxid: w.leader.state.Applied()}
		})
	}
	for _, show := range []int32{jute.ShowStats, jute.ShowNames} {
		add(jute.OpSubtreePage, "the first", onePart, func(*costWorld) record { return &jute.SubtreePageRequest{Path: "/wide", Show: jute.ShowStats} })
		add(jute.OpSubtreePage, fmt.Sprint("the next, show ", show), onePart, func(w *costWorld) record {
			return &jute.SubtreePageRequest{Path: "/wide", View: w.view, Show: show}
		})
	}
	return append(rows, slices.Concat(watchCosts(), feedCosts(), writeCosts(), otherCosts())...)
}

// watchCosts are requests about watches.
func watchCosts() (rows []asked) {
	add := func(op jute.OpCode, name string, most int, body func(w *costWorld) record) {
		rows = append(rows, asked{op: op, name: name, most: most, body: body})
	}
	for _, mode := range []jute.AddWatchMode{jute.AddPersistent, jute.AddPersistentRecursive} {
		for _, path := range []string{"/wide", "/listed"} {
			add(jute.OpAddWatch, fmt.Sprint(path, " ", mode), 0, func(*costWorld) record { return &jute.AddWatchRequest{Path: path, Mode: mode} })
		}
		add(jute.OpAddWatch, fmt.Sprint("deep ", mode), 0, func(w *costWorld) record { return &jute.AddWatchRequest{Path: w.deeper, Mode: mode} })
	}
	deep := func(n int) func(*costWorld) []string {
		return func(w *costWorld) (paths []string) {
			for i := range n {
				paths = append(paths, fmt.Sprint(w.deeper, i))
			}
			return append(paths, slices.Repeat([]string{w.bottom}, n)...)
		}
	}
	same := func(path string) func(*costWorld) []string {
		return func(*costWorld) []string { return slices.Repeat([]string{path}, 20_000) }
	}
	for _, op := range []jute.OpCode{jute.OpSetWatches, jute.OpSetWatches2} {
		for _, list := range []struct {
			name  string
			most  int
			paths func(*costWorld) []string
		}{{"deep", 0, deep(50)}, {"wide", 0, same("/wide")}, {"none", 0, same("/none")}, {"a long ACL", oneList, same("/listed")}, {"a short ACL", 0, same("/short")}, {"a place is held", contenders, same("/held")}} {
			add(op, list.name, list.most, func(w *costWorld) record {
				p := list.paths(w)
				if op == jute.OpSetWatches {
					return &jute.SetWatchesRequest{RelativeZxid: 1, Data: p, Exist: p, Child: p}
				}
				return restored{&jute.SetWatchesRequest{RelativeZxid: 1, Data: p[:1], Persistent: p, PersistentRecursive: p}}
			})
		}
	}
	for _, op := range []jute.OpCode{jute.OpCheckWatches, jute.OpRemoveWatches} {
		add(op, "deep", 0, func(w *costWorld) record { return &jute.RemoveWatchesRequest{Path: w.deeper, Type: jute.WatchAny} })
		add(op, "wide", 0, func(w *costWorld) record { return &jute.RemoveWatchesRequest{Path: "/wide", Type: jute.WatchAny} })
	}
	return rows
}

// restored is the record of setWatches2.
type restored struct{ *jute.SetWatchesRequest }

func (r restored) Append(b []byte) []byte { return r.Append2(b) }

// feedCosts are requests about feeds.
func feedCosts() (rows []asked) {
	add := func(op jute.OpCode, name string, most int, body func(w *costWorld) record) *asked {
		rows = append(rows, asked{op: op, name: name, most: most, body: body})
		return &rows[len(rows)-1]
	}
	subscribe := func(feed int32, path string, after jute.Zxid) func(*costWorld) record {
		return func(*costWorld) record {
			return &jute.SubscribeRequest{Path: path, Feed: feed, Recursive: true, After: after, Credit: 1 << 20}
		}
	}
	add(jute.OpSubscribe, "what comes", 0, subscribe(1, "/none", jute.FromNow))
	add(jute.OpCredit, "", 0, func(*costWorld) record { return &jute.CreditRequest{Feed: 1, Credit: 100} })
	add(jute.OpUnsubscribe, "", 0, func(*costWorld) record { return &jute.UnsubscribeRequest{Feed: 1} })
	add(jute.OpSubscribe, "nothing of all", allHistory, func(w *costWorld) record {
		oldest, _ := w.leader.changes.Span()
		return subscribe(2, "/none", oldest)(w)
	})
	add(jute.OpUnsubscribe, "", 0, func(*costWorld) record { return &jute.UnsubscribeRequest{Feed: 2} })
	add(jute.OpUnsubscribe, "not there", 0, func(*costWorld) record { return &jute.UnsubscribeRequest{Feed: 2} }).want = jute.ErrNoWatcher
	add(jute.OpSubscribe, "while there are changes", 0, subscribe(3, "/listed", jute.FromNow))
	return rows
}

// writeCosts are what the leader orders.
func writeCosts() (rows []asked) {
	add := func(op jute.OpCode, name string, most int, body func(w *costWorld) record) *asked {
		rows = append(rows, asked{op: op, name: name, most: most, body: body})
		return &rows[len(rows)-1]
	}
	places := []struct {
		name string
		most int
		path func(*costWorld) string
	}{
		{"deep", 0, func(w *costWorld) string { return w.bottom }},
		{"wide", 0, func(*costWorld) string { return "/wide" }},
		{"a long ACL", oneList, func(*costWorld) string { return "/listed" }},
		{"a place is held", contenders, func(*costWorld) string { return "/held" }},
	}
	for _, place := range places {
		for _, op := range []jute.OpCode{jute.OpCreate, jute.OpCreate2} {
			add(op, place.name, place.most, func(w *costWorld) record { return create(w.below(place.path(w)), "", 0) })
		}
		add(jute.OpCreateContainer, place.name, place.most, func(w *costWorld) record { return create(w.below(place.path(w)), "", jute.ModeContainer) })
		add(jute.OpCreateTTL, place.name, place.most, func(w *costWorld) record {
			return &jute.CreateTTLRequest{CreateRequest: *create(w.below(place.path(w)), "", jute.ModePersistentTTL), TTL: 1 << 30}
		})
		add(jute.OpSetData, place.name, place.most, func(w *costWorld) record { return set(place.path(w), "x") })
		add(jute.OpSync, place.name, 0, func(w *costWorld) record { return &jute.SyncRequest{Path: place.path(w)} })
		one := func(op jute.OpCode, fresh bool) func(w *costWorld, _ int) jute.MultiOp {
			return func(w *costWorld, _ int) jute.MultiOp {
				m := jute.MultiOp{Type: op, Path: place.path(w), Version: -1, ACL: openACL}
				if fresh {
					m.Path = w.below(m.Path)
				}
				return m
			}
		}
		for _, part := range []struct {
			op    jute.OpCode
			fresh bool
		}{{jute.OpCreate, true}, {jute.OpSetData, false}, {jute.OpCheck, false}, {jute.OpCheckAbsent, true}, {jute.OpCreateOrSet, true}, {jute.OpCreateOrSet, false}} {
			for _, n := range []int{1, 200} {
				add(jute.OpMulti, fmt.Sprintf("%d %v, %s", n, part.op, place.name), place.most, many(n, one(part.op, part.fresh))).part = part.op
			}
		}
		add(jute.OpDelete, place.name, place.most, func(w *costWorld) record {
			path := w.below(place.path(w))
			w.create(path, "")
			return del(path)
		})
	}
	add(jute.OpSetACL, "as many as may be", 0, func(w *costWorld) record {
		r := &jute.SetACLRequest{Path: "/empty", Version: -1}
		for i := range costEntries {
			r.ACL = append(r.ACL, jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("a-%d:hash", i)}})
		}
		return r
	})
	add(jute.OpSetACL, "deep", 0, func(w *costWorld) record { return &jute.SetACLRequest{Path: w.bottom, Version: -1, ACL: openACL} })
	add(jute.OpMulti, "deleteTree of the wide one", 8*costChildren, many(1, func(*costWorld, int) jute.MultiOp {
		return jute.MultiOp{Type: jute.OpDeleteTree, Path: "/wide", Version: -1}
	})).part = jute.OpDeleteTree
	return rows
}

// otherCosts are the requests about the session, the ensemble and the server itself.
func otherCosts() (rows []asked) {
	for _, op := range []jute.OpCode{jute.OpPing, jute.OpWhoAmI} {
		rows = append(rows, asked{op: op})
	}
	rows = append(rows,
		asked{op: jute.OpAuth, name: "one more identity", want: jute.ErrAuthFailed, ends: true, body: func(*costWorld) record {
			return &jute.AuthRequest{Scheme: "digest", Auth: []byte(strings.Repeat("x", 100_000) + ":secret")}
		}},
		asked{op: jute.OpSASL, name: "without SASL", body: func(*costWorld) record {
			return &jute.SASLToken{Token: make([]byte, 100_000)}
		}},
		asked{op: jute.OpReconfig, name: "not permitted", want: jute.ErrNoAuth, body: func(*costWorld) record {
			return &jute.ReconfigRequest{Joining: joiners(200), ConfigID: -1}
		}},
		asked{op: jute.OpReconfig, name: "many, and a bad one", admin: true, want: jute.ErrBadArguments, body: func(*costWorld) record {
			return &jute.ReconfigRequest{Joining: joiners(200) + ",server.1000=bad", ConfigID: -1}
		}},
		asked{op: jute.OpConfigure, name: "show", admin: true, body: func(*costWorld) record { return &jute.ConfigureRequest{} }},
		asked{op: jute.OpDrain, name: "not permitted", want: jute.ErrNoAuth, body: func(*costWorld) record { return &jute.DrainRequest{Percent: 100} }},
		asked{op: jute.OpTransferLeader, admin: true, want: jute.ErrBadArguments, body: func(*costWorld) record { return &jute.TransferLeaderRequest{Server: 9} }},
		asked{op: jute.OpCreateSession, name: "connect", do: func(w *costWorld) int {
			w.leader.connect(w.t)
			return 100
		}},
		asked{op: jute.OpCreateSession, name: "resume with replies", do: resumeExact},
	)
	for _, op := range []jute.OpCode{jute.OpError, jute.OpNotification, jute.OpCreateSession, jute.OpDeleteContainer} {
		rows = append(rows, asked{op: op, name: "of a client", ends: true, body: func(w *costWorld) record { return get(w.bottom, true) }})
	}
	return append(rows, asked{op: jute.OpCloseSession, most: longestPaths, name: "with ephemerals"})
}

// joiners are n lines of servers.
func joiners(n int) string {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf("server.%d=10.1.%d.%d:2888:3888:observer;2181", i+10, i/250, i%250+1))
	}
	return strings.Join(lines, ",")
}

// resumeExact resumes an exactly-once session that has replies to come, and returns the bytes of the exchange.
func resumeExact(w *costWorld) (size int) {
	const writes = 200
	c := w.leader.connectExact(w.t, nil)
	for i := range int64(writes) {
		c.put(i+1, "/young")
		c.done(i + 1)
	}
	synctest.Wait()
	w.begin = w.steps.Total()
	c = w.leader.connectExact(w.t, c)
	if len(c.replies) != writes {
		w.t.Errorf("%d replies to %d writes", len(c.replies), writes)
	}
	for _, r := range c.replies {
		size += 20 + len(r.body)
	}
	return size
}
