package clients

import (
	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/server/replica"
)

// batch has the writes of the frames that a reader is handling, which it hands over in one piece. The reader owns it.
type batch struct {
	backend Backend
	writes  []replica.Submission
	bodies  []byte // where request bodies are copied to
}

func (b *batch) add(sub replica.Submission) { b.writes = append(b.writes, sub) }

// submit hands the writes to the leader.
func (b *batch) submit() {
	b.backend.Submit(b.writes...)
	clear(b.writes)
	b.writes = b.writes[:0]
	b.bodies = nil
}

// copy returns a copy of body that lives as long as the request. Bodies of one batch
// share an allocation. more is how many bytes have been read of later frames.
func (b *batch) copy(body []byte, more int) []byte {
	if cap(b.bodies)-len(b.bodies) < len(body) {
		// The other bytes read are likely to be kept too.
		b.bodies = make([]byte, 0, max(len(body), min(more+len(body), frames.BusyBuffer)))
	}
	n := len(b.bodies)
	b.bodies = append(b.bodies, body...)
	return b.bodies[n:len(b.bodies):len(b.bodies)]
}

// rest frees memory of a connection that is idle.
func (b *batch) rest() { b.writes = nil }
