package coordination

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// nodes makes children of their names. The part before a blank is the session, P for a persistent node.
func nodes(list ...string) (out []Node) {
	for i, text := range list {
		owner, name, _ := strings.Cut(text, " ")
		n := Node{Name: name, Stat: jute.Stat{Czxid: jute.Zxid(i + 1), Ctime: int64(i)}}
		if owner != "P" {
			var id int64
			fmt.Sscan(owner, &id)
			n.Stat.EphemeralOwner = jute.SessionID(id)
		}
		out = append(out, n)
	}
	return out
}

const (
	id   = "5f1d3c7a-0b1c-4d2e-8f3a-4b5c6d7e8f90"
	flat = "0d6a5c0be0b84b8f9d0e7c1b2a394857"
)

// shown is an object in a line: each member with its role, and for which sessions it waits.
func shown(o *Object) string {
	sessions := make(map[string]string)
	for _, m := range o.Places {
		sessions[m.Name] = strings.TrimPrefix(m.Session, "0x")
	}
	text := o.Kind + " of " + strings.Join(o.By, ",")
	if o.Limit > 0 {
		text += fmt.Sprintf(" limit %d", o.Limit)
	}
	if o.Open {
		text += " open"
	}
	if o.Others > 0 {
		text += fmt.Sprintf(" others %d", o.Others)
	}
	for _, m := range o.Places {
		text += "; " + sessions[m.Name] + " " + m.Role
		if m.Mode != "" {
			text += " " + m.Mode
		}
		for _, name := range m.WaitsFor {
			text += " >" + sessions[name]
		}
	}
	return text
}

// TestLayouts recognises the layout of each recipe of each library.
func TestLayouts(t *testing.T) {
	for _, test := range []struct {
		name  string
		d     Directory
		wants string
	}{
		{"Curator's InterProcessMutex", Directory{Nodes: nodes("2 _c_"+id+"-lock-0000000012", "1 _c_"+id+"-lock-0000000009", "3 _c_"+id+"-lock-0000000013")},
			"lock of zkd,Curator; 1 holds; 2 waits >1; 3 waits >2"},
		{"after the largest number", Directory{Nodes: nodes("2 _c_"+id+"-lock--2147483648", "1 _c_"+id+"-lock-2147483647")},
			"lock of zkd,Curator; 1 holds; 2 waits >1"},
		{"kazoo's Lock", Directory{Nodes: nodes("1 "+flat+"__lock__0000000000", "2 "+flat+"__lock__0000000001")}, "lock of zkd,kazoo; 1 holds; 2 waits >1"},
		{"Apache's WriteLock", Directory{Nodes: nodes("1 x-72057594037927936-0000000000", "2 x--5-0000000001")}, "lock of zkd,Apache; 1 holds; 2 waits >1"},
		{"our WriteLock", Directory{Nodes: nodes("1 x-72057594037927936-" + flat + "-0000000000")}, "lock of zkd,Apache; 1 holds"},
		{"go-zookeeper's Lock", Directory{Nodes: nodes("1 _c_" + flat + "-lock-0000000001")}, "lock of go-zookeeper; 1 holds"},
		{"a lock with another child", Directory{Nodes: nodes("1 _c_"+id+"-lock-0000000000", "P notes")}, "lock of zkd,Curator others 1; 1 holds"},
		{"Curator's InterProcessReadWriteLock", Directory{Nodes: nodes("1 _c_"+id+"-__READ__0000000001", "2 _c_"+id+"-__READ__0000000002", "3 _c_"+id+"-__WRIT__0000000003", "4 _c_"+id+"-__READ__0000000004", "5 _c_"+id+"-__WRIT__0000000005")},
			"read-write-lock of zkd,Curator; 1 holds read; 2 holds read; 3 waits write >1 >2; 4 waits read >3; 5 waits write >4"},
		{"a writer that reads, too", Directory{Nodes: nodes("1 _c_"+id+"-__WRIT__0000000001", "1 _c_"+id+"-__READ__0000000001", "2 _c_"+id+"-__WRIT__0000000003")},
			"read-write-lock of zkd,Curator; 1 holds write; 1 holds read; 2 waits write >1"},
		{"two writers", Directory{Nodes: nodes("1 _c_"+id+"-__WRIT__0000000001", "2 _c_"+id+"-__WRIT__0000000003")},
			"read-write-lock of zkd,Curator; 1 holds write; 2 waits write >1"},
		{"kazoo's ReadLock and WriteLock", Directory{Nodes: nodes("1 "+flat+"__rlock__0000000001", "2 "+flat+"__lock__0000000002")}, "read-write-lock of zkd,kazoo; 1 holds read; 2 waits write >1"},
		{"our lock with priorities", Directory{Nodes: nodes("1 _c_"+id+"-p0-read-0000000004", "1 _c_"+id+"-p0-read-held-0000000004", "2 _c_"+id+"-p0-write-0000000005", "3 _c_"+id+"-p7-write-0000000006")},
			"read-write-lock of zkd; 1 holds read; 3 waits write >1; 2 waits write >3"},
		{"Curator's InterProcessSemaphoreV2", Directory{Nodes: nodes("P leases", "P locks"), Below: map[string][]Node{
			"leases": nodes("1 _c_"+id+"-lease-0000000001", "2 _c_"+id+"-lease-0000000002"), "locks": nodes("3 _c_"+id+"-lock-0000000003", "4 _c_"+id+"-lock-0000000004")}},
			"semaphore of zkd,Curator; 1 holds; 2 holds; 3 waits >1 >2; 4 waits >3"},
		{"a lease before there is room", Directory{Nodes: nodes("P leases", "P locks"), Below: map[string][]Node{
			"leases": nodes("1 _c_"+id+"-lease-0000000000", "3 _c_"+id+"-lease-0000000001"), "locks": nodes("3 _c_"+id+"-lock-0000000001", "4 _c_"+id+"-lock-0000000002")}},
			"semaphore of zkd,Curator; 1 holds; 3 waits; 3 waits >1; 4 waits >3"},
		{"our Semaphore", Directory{Data: []byte("1"), Nodes: nodes("P leases", "P locks"), Below: map[string][]Node{
			"leases": nodes("1 _c_"+id+"-lease-0000000001", "3 _c_"+id+"-lease-0000000002"), "locks": nodes("3 _c_" + id + "-lock-0000000003")}},
			"semaphore of zkd,Curator limit 1; 1 holds; 3 waits; 3 waits >1"},
		{"kazoo's Semaphore", Directory{Data: []byte("2"), Nodes: nodes("1 "+flat, "2 "+strings.Replace(flat, "0", "1", 1))}, "semaphore of kazoo limit 2; 1 holds; 2 holds"},
		{"Curator's LeaderLatch", Directory{Nodes: nodes("1 _c_"+id+"-latch-0000000000", "2 _c_"+id+"-latch-0000000001")}, "election of zkd,Curator; 1 holds; 2 waits >1"},
		{"Apache's LeaderElectionSupport", Directory{Nodes: nodes("1 n_0000000000", "2 n_0000000001")}, "election of zkd,Apache; 1 holds; 2 waits >1"},
		{"the page of recipes", Directory{Nodes: nodes("1 " + id + "-n_0000000000")}, "election of zkd,Apache; 1 holds"},
		{"Apache's DistributedQueue", Directory{Nodes: nodes("P qn-0000000001", "P qn-0000000000")}, "queue of zkd,Curator,Apache;  item;  item"},
		{"kazoo's Queue", Directory{Nodes: nodes("P entry-100-0000000000")}, "queue of zkd,kazoo;  item"},
		{"kazoo's LockingQueue", Directory{Nodes: nodes("P entries", "P taken"), Below: map[string][]Node{"entries": nodes("P entry-100-0000000000", "P entry-100-0000000001"), "taken": nodes("7 entry-100-0000000001")}},
			"queue of zkd,kazoo;  item; 7 taken"},
		{"Curator's DistributedQueue", Directory{Nodes: nodes("P queue-1234567890")}, "queue of zkd,Curator;  item"},
		{"Curator's DistributedPriorityQueue", Directory{Nodes: nodes("P queue-1000000050000000001")}, "queue of zkd,Curator;  item"},
		{"Curator's DistributedDelayQueue", Directory{Nodes: nodes("P queue-|18BCFE56800|0000000007")}, "queue of zkd,Curator;  item"},
		{"our Bounded queue", Directory{Nodes: nodes("P items", "P slots"), Below: map[string][]Node{"items": nodes("P qn-000003-0000000007"), "slots": nodes("P 000003")}}, "queue of zkd;  item"},
		{"our TwoPhase queue", Directory{Nodes: nodes("P _c_order-item-0000000007")}, "queue of zkd;  item"},
		{"Curator's DistributedDoubleBarrier", Directory{Nodes: nodes("1 "+id, "2 "+strings.Replace(id, "5", "6", 1))}, "barrier of zkd,Curator; 1 waits; 2 waits"},
		{"it is open", Directory{Nodes: nodes("1 "+id, "P ready")}, "barrier of zkd,Curator open; 1 member"},
		{"kazoo's DoubleBarrier", Directory{Nodes: nodes("1 "+flat, "P ready")}, "barrier of kazoo open; 1 member"},
		{"our Rendezvous", Directory{Nodes: nodes("1 _c_" + id + "-party-of-2-0000000000")}, "barrier of zkd; 1 waits"},
		{"our Event", Directory{Nodes: nodes("1 _c_" + id + "-waiter-0000000000")}, "barrier of zkd; 1 waits"},
		{"kazoo's Party", Directory{Nodes: nodes("1 " + flat + "__party__")}, "group of zkd,kazoo; 1 member"},
		{"kazoo's ShallowParty", Directory{Nodes: nodes("1 " + flat + "-worker-7")}, "group of zkd,kazoo; 1 member"},
		{"Curator's GroupMember", Directory{Nodes: nodes("1 worker-7", "2 worker-8", "P notes")}, "group of zkd,Curator others 1; 1 member; 2 member"},
		{"a directory", Directory{Nodes: nodes("P a", "P b")}, "unknown of  others 2"},
		{"an empty directory", Directory{}, "unknown of "},
		{"names without an end", Directory{Nodes: nodes("P lock-", "P -", "P 0000000000", "P _c_-lock-99999999999")}, "unknown of  others 4"},
	} {
		o := Recognise(&test.d)
		if got := shown(&o); got != test.wants {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.wants)
		}
	}
}

// TestInner names the directories of an object that are to be read.
func TestInner(t *testing.T) {
	for _, test := range []struct{ nodes, wants []string }{
		{[]string{"P leases", "P locks"}, []string{"leases", "locks"}},
		{[]string{"P leases"}, []string{"leases"}},
		{[]string{"P entries", "P taken", "P dead"}, []string{"entries", "taken"}},
		{[]string{"P locks", "P party"}, nil},
		{[]string{"P items", "P other"}, nil},
	} {
		if got := Inner(nodes(test.nodes...)); !reflect.DeepEqual(got, test.wants) && len(got)+len(test.wants) > 0 {
			t.Errorf("%q: %q, want %q", test.nodes, got, test.wants)
		}
	}
}

// TestMixedLibraries remarks that contenders do not know each other.
func TestMixedLibraries(t *testing.T) {
	o := Recognise(&Directory{Nodes: nodes("1 _c_"+id+"-lock-0000000000", "2 "+flat+"__lock__0000000001")})
	if o.Remark == "" || len(o.By) != 3 {
		t.Errorf("%+v", o)
	}
}

// TestCycles finds sessions that wait for each other.
func TestCycles(t *testing.T) {
	lock := func(path string, sessions ...int) Object {
		d := Directory{Path: path}
		for i, s := range sessions {
			d.Nodes = append(d.Nodes, nodes(fmt.Sprintf("%d _c_%s-lock-%010d", s, id, i))...)
		}
		return Recognise(&d)
	}
	for _, test := range []struct {
		objects []Object
		wants   string
	}{
		{[]Object{lock("/a", 1, 2), lock("/b", 2, 3)}, "[]"},
		{[]Object{lock("/a", 1, 2), lock("/b", 2, 1)}, "[[{0x2 0x1 /a} {0x1 0x2 /b}]]"},
		{[]Object{lock("/a", 1, 2), lock("/b", 2, 3), lock("/c", 3, 1)}, "[[{0x2 0x1 /a} {0x1 0x3 /c} {0x3 0x2 /b}]]"},
		{[]Object{lock("/a", 1, 1)}, "[]"}, // its own matter: a lock without re-entrance
		{[]Object{lock("/a", 1, 2), lock("/b", 2, 1), lock("/c", 3, 4), lock("/d", 4, 3)}, "[[{0x2 0x1 /a} {0x1 0x2 /b}] [{0x4 0x3 /c} {0x3 0x4 /d}]]"},
	} {
		if got := fmt.Sprint(Cycles(test.objects)); got != test.wants {
			t.Errorf("%s, want %s", got, test.wants)
		}
	}
}
