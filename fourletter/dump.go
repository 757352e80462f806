package fourletter

import "github.com/zkd-project/zkd/internal/console"

func (p printer) dump(src Source) {
	p.printf("SessionTracker dump:\n")
	p.sessions(src.Sessions())
	p.printf("ephemeral nodes dump:\n")
	owners := src.Ephemerals()
	p.printf("Sessions with Ephemerals (%d):\n", len(owners))
	for _, o := range owners {
		p.printf("%s:\n", id(o.Session))
		p.lines(o.Paths)
	}
	p.printf("Connections dump:\n")
	p.connectionBuckets(src.ConnectionDeadlines())
}

func (p printer) sessions(s Sessions) {
	if s.LocalEnabled {
		p.printf("Local ")
		p.sessionBuckets(s.Local)
	}
	if s.Learner {
		p.printf("Global Sessions(%d):\n", len(s.Timeouts))
		for _, t := range s.Timeouts {
			p.printf("%s\t%dms\n", id(t.Session), t.TimeoutMs)
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
		p.printf("%d expire at %s:\n", len(b.Sessions), date(b.Expires))
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
		p.printf("%d expire at %s:\n", len(b.Connections), date(b.Expires))
		for _, c := range b.Connections {
			p.printf("\tip: %s sessionId: %s\n", address(c.Remote), id(c.Session))
		}
	}
}

// watches answers wchs, wchc and wchp.
func (p printer) watches(c Command, src Source) {
	switch c {
	case Wchs:
		n := src.WatchCount()
		p.printf("%d connections watching %d paths\nTotal watches:%d\n", n.Connections, n.Paths, n.Watches)
		return
	case Wchc:
		for _, w := range src.WatchesBySession() {
			p.printf("%s\n", id(w.Session))
			p.lines(w.Paths)
		}
	case Wchp:
		for _, w := range src.WatchesByPath() {
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
	for _, v := range ids {
		p.printf("\t%s\n", id(v))
	}
}
