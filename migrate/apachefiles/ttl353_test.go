package apachefiles

import (
	"bytes"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestTTL353 reads owners in the form of 3.5.3. They are times to live only if that is asked for, and
// if they are no sessions.
func TestTTL353(t *testing.T) {
	const old = jute.OwnerContainer // and a time
	node := func(owner jute.Owner) *Node {
		return &Node{Data: []byte{}, ACL: openACL, Stat: Stat{Owner: owner}}
	}
	var b bytes.Buffer
	d := newDir(t)
	d.check(WriteSnapshot(&b, &State{
		Zxid: 5, Sessions: map[jute.SessionID]int32{jute.SessionID(old | 7): 30000},
		Nodes: func(yield func(string, *Node) bool) {
			_ = yield("", node(0)) && yield("/c", node(jute.OwnerContainer)) && yield("/dead", node(0x100002d57e4000d)) && yield("/large", node(old|jute.Owner(jute.MaxTTL+1))) &&
				yield("/session", node(old|7)) && yield("/t", node(old|5000)) && yield("/zookeeper", node(0)) && yield("/zookeeper/quota", node(0))
		},
	}))
	d.write("snapshot.5", b.Bytes())

	tree, sum := d.mustLoad(Options{})
	if tree.find("/t") != nil || len(sum.Dropped) != 3 || !strings.Contains(strings.Join(sum.Dropped, " "), "/t: an ephemeral of session 0x8000000000001388, which does not exist; if a server of 3.5.3") {
		t.Errorf("dropped %q", sum.Dropped)
	}
	tree, sum = d.mustLoad(Options{TTL353: true})
	if ms, ok := tree.find("/t").Owner.TTL(); !ok || ms != 5000 || sum.TTLs != 1 || sum.Containers != 1 || sum.Ephemerals != 1 || tree.find("/session").Owner != old|7 {
		t.Errorf("a time to live of %d; %+v", ms, sum)
	}
	if len(sum.Dropped) != 2 || tree.find("/dead") != nil || tree.find("/large") != nil {
		t.Errorf("dropped %q", sum.Dropped)
	}
	digest := uint64(0)
	d.check(tree.Walk(func(path string, n *Node) error { digest += n.hash(path); return nil }))
	if tree.Digest() != digest {
		t.Errorf("digest %x, want %x", tree.Digest(), digest)
	}
}
