package moving

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/server/data"
	"github.com/zkd-project/zkd/server/datatree"
)

// Report is what an import or an export has done.
type Report struct {
	apachefiles.Summary
	Chosen  string   // why the data of this server was taken, of several
	Digest  string   // of zkd's tree
	Written []string // directories
}

// LongLists returns a remark if some lists of children are longer than Java's clients accept by
// default, and "" if there are none.
func LongLists(t *datatree.Tree) string {
	nodes, longest, most := 0, "", 0
	for path, size := range t.LongLists(jute.JavaMaxBuffer) {
		if nodes++; size > most {
			longest, most = path, size
		}
	}
	if nodes == 0 {
		return ""
	}
	return fmt.Sprintf("%d znodes have so many children that a list of them is longer than jute.maxbuffer of Java's clients, 1 MiB by default; the longest, of %q, has %d bytes. "+
		"zkd sends it, as Apache's server does: what these clients have set by -Djute.maxbuffer, they still need. Do not set zkd.maxReply below it", nodes, longest, most)
}

// describe fills in what the state has.
func (r *Report) describe(s *data.Contents) {
	stats := s.Tree.Stats()
	r.Zxid, r.Epoch, r.Digest = s.Tree.LastZxid(), s.Epoch, s.Tree.Digest().String()
	r.Nodes, r.Sessions = stats.Nodes-1, stats.Sessions
	r.Ephemerals, r.Containers, r.TTLs = stats.Ephemerals, stats.Containers, stats.TTLs
}

// Text returns the report for people.
func (r *Report) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, text)
		}
	}
	line("read", "%s", r.DataDir)
	if r.LogDir != r.DataDir {
		line("", "%s", r.LogDir)
	}
	line("chosen", "%s", r.Chosen)
	if r.Version != "" {
		line("snapshot", "%s", r.Snapshot)
		line("written by", "ZooKeeper %s", r.Version)
		line("log", "%d transactions after it, from %d files; %d the snapshot has, %d logged twice", r.Records, len(r.Logs), r.Skipped, r.Repeated)
		line("torn end", "%s", r.TornEnd)
	}
	line("state", "zxid %v, epoch %d", r.Zxid, r.Epoch)
	line("znodes", "%d: %d ephemerals, %d containers, %d with a time to live", r.Nodes, r.Ephemerals, r.Containers, r.TTLs)
	line("sessions", "%d", r.Sessions)
	switch {
	case r.Version == "":
	case r.Digests > 0:
		line("digest", "%d of Apache's compared and equal; the tree is proven up to zxid %v", r.Digests, r.Proven)
	default:
		line("digest", "none to compare: nothing proves the tree but the checksums of the files")
	}
	if r.DigestsIgnored > 0 {
		line("", "%d differ, and are ignored", r.DigestsIgnored)
	}
	for _, text := range r.Dropped {
		line("dropped", "%s", text)
	}
	for _, text := range r.Warnings {
		line("warning", "%s", text)
	}
	for _, dir := range r.Written {
		line("written", "%s", dir)
	}
	return b.String()
}
