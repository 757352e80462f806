package show

import (
	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/internal/console"
)

func (p printer) dump(v *View) {
	p.printf("SessionTracker dump:\n")
	p.sessions(v.AllSessions())
	p.printf("ephemeral nodes dump:\n")
	owners := v.Ephemerals()
	p.printf("Sessions with Ephemerals (%d):\n", len(owners))
	for _, o := range owners {
		p.printf("%s:\n", fourletter.ID(o.Session))
		p.lines(o.Paths)
	}
	p.printf("Connections dump:\n")
	p.connectionBuckets(v.ConnectionDeadlines())
}

func (p printer) sessions(s Sessions) {
	if s.LocalEnabled {
		p.printf("Local ")
		p.sessionBuckets(s.Local)
	}
	if s.Learner {
		p.printf("Global Sessions(%d):\n", len(s.Timeouts))
		for _, t := range s.Timeouts {
			p.printf("%s\t%dms\n", fourletter.ID(t.Session), t.TimeoutMs)
		}
		return
	}
	if s.LocalEnabled {
		p.printf("Global ")
	}
	p.sessionBuckets(s.Buckets)
}

func (p printer) sessionBuckets(buckets []SessionBucket) {
	n := 0
	for _, b := range buckets {
		n += len(b.Sessions)
	}
	p.printf("Session Sets (%d)/(%d):\n", len(buckets), n)
	for _, b := range buckets {
		p.printf("%d expire at %s:\n", len(b.Sessions), fourletter.Date(b.Expires))
		p.ids(b.Sessions)
	}
}

func (p printer) connectionBuckets(buckets []ConnectionBucket) {
	n := 0
	for _, b := range buckets {
		n += len(b.Connections)
	}
	p.printf("Connections Sets (%d)/(%d):\n", len(buckets), n)
	for _, b := range buckets {
		p.printf("%d expire at %s:\n", len(b.Connections), fourletter.Date(b.Expires))
		for _, c := range b.Connections {
			p.printf("\tip: %s sessionId: %s\n", fourletter.Address(c.Remote), fourletter.ID(c.Session))
		}
	}
}

// watches answers wchs, wchc and wchp.
func (p printer) watches(c fourletter.Command, v *View) {
	switch c {
	case fourletter.Wchs:
		n := v.WatchCount()
		p.printf("%d connections watching %d paths\nTotal watches:%d\n", n.Connections, n.Paths, n.Watches)
		return
	case fourletter.Wchc:
		for _, w := range v.WatchesBySession() {
			p.printf("%s\n", fourletter.ID(w.Session))
			p.lines(w.Paths)
		}
	case fourletter.Wchp:
		for _, w := range v.WatchesByPath() {
			p.printf("%s\n", console.Line(w.Path))
			p.ids(w.Sessions)
		}
	}
	p.printf("\n")
}

func (p printer) lines(paths []string) {
	for _, path := range paths {
		p.printf("\t%s\n", console.Line(path))
	}
}

func (p printer) ids(ids []int64) {
	for _, id := range ids {
		p.printf("\t%s\n", fourletter.ID(id))
	}
}
