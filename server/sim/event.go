package sim

// eventKind is the kind of an event.
type eventKind uint8

const (
	evTick     eventKind = iota + 1 // of a node's clock
	evDeliver                       // packet: arrives at a node
	evSynced                        // of a node's disk: the fsync under way has finished
	evDrain                         // of a node: take the outputs that it put off
	evApply                         // of a node: apply committed entries to the tree
	evLogRead                       // packet: the entries that the core asked for have been read
	evSnapStep                      // of a node: its snapshot has been written
	evDrained                       // of a node: a link has room again
	evXfer                          // packet: the next step of sending a snapshot to another node
	evSnapGot                       // packet: a received snapshot is durable in its file
	evLinkUp                        // packet: one end learns of a new link
	evLinkDown                      // packet: one end learns that a link is gone
	evDial                          // arg: pair of nodes without a link
	evRestart                       // of a node: its process starts
	evResume                        // of a node: it was paused
	evFault                         // arg: a fault of the nemesis
	evUndo                          // packet: a fault ends
	evClient                        // arg: client whose turn it is
	evToClient                      // packet: a reply reaches a client
	evToServer                      // packet: a request reaches a node
	evFeed                          // of a node: its feeds are looked at
	evStream                        // arg: client over HTTP whose turn it is
	evStandby                       // arg: standby whose turn it is
)

// event is a future event.
type event struct {
	at   uint64 // µs
	seq  int64  // breaks ties: order of creation, or below all those
	pkt  *packet
	life uint32 // of the process that it belongs to; 0 for none
	arg  int32
	node int8 // -1 for none
	kind eventKind
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// agenda holds the future events: a heap with four children per element, which is flatter
// and so touches less memory than a binary heap.
type agenda struct {
	heap  []event
	seq   int64
	first int64
}

// push adds an event after all others of its time.
func (a *agenda) push(e event) {
	a.seq++
	e.seq = a.seq
	a.add(e)
}

// pushFirst adds events before all others of their times, in the given order.
func (a *agenda) pushFirst(events []event) {
	a.first -= int64(len(events))
	for i, e := range events {
		e.seq = a.first + int64(i)
		a.add(e)
	}
}

func (a *agenda) add(e event) {
	a.heap = append(a.heap, e)
	i := len(a.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&a.heap[parent]) {
			break
		}
		a.heap[i] = a.heap[parent]
		i = parent
	}
	a.heap[i] = e
}

// filter keeps the events for which keeps returns true.
func (a *agenda) filter(keeps func(*event) bool) {
	all := a.heap
	a.heap = nil
	for i := range all {
		if keeps(&all[i]) {
			a.add(all[i])
		}
	}
}

// pop removes and returns the next event. There must be one.
func (a *agenda) pop() event {
	top := a.heap[0]
	n := len(a.heap) - 1
	e := a.heap[n]
	a.heap[n] = event{}
	a.heap = a.heap[:n]
	if n == 0 {
		return top
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if a.heap[c].before(&a.heap[least]) {
				least = c
			}
		}
		if !a.heap[least].before(&e) {
			break
		}
		a.heap[i] = a.heap[least]
		i = least
	}
	a.heap[i] = e
	return top
}
