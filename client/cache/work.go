package cache

import (
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// want is a set of things to read about a node.
type want uint8

const (
	wantNode want = 1 << iota // data and Stat
	wantList                  // names of the children, and Stat
	wantStat                  // Stat, and also the data if the Stat shows that it changed
)

// task is what is to be read of one path. It is queued, or a read of it is under way after
// which others may be necessary.
type task struct {
	path   string
	want   want     // to be read, besides what is under way
	seg    *segment // the segment that counts want; nil if want is empty
	flying bool
}

// segment counts reads that were requested in a period. When they are done, and those of all
// earlier segments, the functions that wait for the segment are called.
type segment struct {
	n    uint64 // its position among the segments
	left int
	then []func()
}

// scan is a list of children that are yet to be read.
type scan struct {
	parent string
	names  []string
	what   want
	seg    *segment // counts the scan as one
}

// flight is a read under way. One of its futures is set.
type flight struct {
	t    *task
	what want
	seg  *segment // that counts it
	gen  uint32   // generation in which it was issued
	node *client.Future[client.Node]
	stat *client.Future[client.Presence]
	list *client.Future[client.Listing]
	page *client.Future[client.Page] // of a list that is too long for one reply
	// names are those of the pages before.
	names []string
}

// work is what is to be read: paths with events, in the order of the events, and lists of
// children, the last one first, so that the lists do not accumulate.
type work struct {
	tasks   map[string]*task
	queue   []*task
	scans   []*scan
	flights []*flight // in the order of their requests, and so of the replies
	segs    []*segment
}

func newWork() work {
	return work{tasks: map[string]*task{}, segs: []*segment{{}}}
}

// now returns the segment that counts new requests.
func (w *work) now() *segment { return w.segs[len(w.segs)-1] }

// idle reports whether there is nothing to read.
func (w *work) idle() bool { return len(w.tasks) == 0 && len(w.scans) == 0 }

// mark requests reads of a path, and queues it unless it is queued already.
func (w *work) mark(path string, what want, seg *segment) {
	t := w.tasks[path]
	if t == nil {
		t = &task{path: path}
		w.tasks[path] = t
	}
	if t.want == 0 && !t.flying {
		w.queue = append(w.queue, t)
	}
	t.add(what, seg)
}

// add adds to a task. The earliest segment that requested it counts it.
func (t *task) add(what want, seg *segment) {
	switch {
	case t.want == 0:
		t.seg = seg
		seg.left++
	case seg.n < t.seg.n:
		t.seg.left--
		t.seg = seg
		seg.left++
	}
	t.want |= what
}

// push requests reads of children.
func (w *work) push(parent string, names []string, what want, seg *segment) {
	if len(names) == 0 {
		return
	}
	w.scans = append(w.scans, &scan{parent: parent, names: names, what: what, seg: seg})
	seg.left++
}

// next removes and returns what is to be read next, or nil.
func (w *work) next() *task {
	for len(w.queue) == 0 && len(w.scans) > 0 {
		s := w.scans[len(w.scans)-1]
		w.mark(jute.Join(s.parent, s.names[0]), s.what, s.seg)
		if s.names = s.names[1:]; len(s.names) == 0 {
			s.seg.left--
			w.scans = w.scans[:len(w.scans)-1]
		}
	}
	if len(w.queue) == 0 {
		return nil
	}
	t := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	return t
}

// take returns what the next read of the task should get.
func (t *task) take() (what want, seg *segment) {
	seg = t.seg
	switch {
	case t.want&wantNode != 0:
		what = wantNode
		t.want &^= wantNode | wantStat
	case t.want&wantStat != 0:
		what = wantStat
	default:
		what = wantList
	}
	t.want &^= what
	if t.want != 0 {
		seg.left++ // the rest counts as another read
	} else {
		t.seg = nil
	}
	t.flying = true
	return what, seg
}

// landed handles the end of a read, and queues what else is wanted.
func (w *work) landed(f *flight) {
	f.seg.left--
	f.t.flying = false
	if f.t.want != 0 {
		w.queue = append(w.queue, f.t)
		return
	}
	delete(w.tasks, f.t.path)
}

// barrier calls then when everything requested so far is read.
func (w *work) barrier(then ...func()) {
	w.now().then = append(w.now().then, then...)
	w.segs = append(w.segs, &segment{n: w.now().n + 1})
}

// release calls the functions whose segments are done.
func (w *work) release() {
	for len(w.segs) > 1 && w.segs[0].left == 0 {
		s := w.segs[0]
		w.segs = slices.Delete(w.segs, 0, 1)
		for _, then := range s.then {
			then()
		}
	}
}

// postpone is landed for a read that failed and must be repeated. The caller keeps the task,
// and queues it by resume.
func (w *work) postpone(f *flight) *task {
	f.t.add(f.what, f.seg)
	f.seg.left--
	f.t.flying = false
	return f.t
}

func (w *work) resume(tasks []*task) { w.queue = append(w.queue, tasks...) }

// restart forgets everything requested, because everything will be read again. Reads under
// way count in a segment that nothing waits for. It returns the functions that were waiting.
func (w *work) restart() (waiting []func()) {
	for _, s := range w.segs {
		waiting = append(waiting, s.then...)
	}
	lost := &segment{}
	for _, f := range w.flights {
		f.seg = lost
		f.t.want, f.t.seg = 0, nil
		lost.left++
	}
	for path, t := range w.tasks {
		if !t.flying {
			delete(w.tasks, path)
		}
	}
	w.queue, w.scans = nil, nil
	w.segs = []*segment{{n: w.now().n + 1}}
	return waiting
}
