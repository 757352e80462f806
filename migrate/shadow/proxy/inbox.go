package proxy

import (
	"sync"

	"github.com/zkd-project/zkd/migrate/shadow"
)

// message is an input of the Engine.
type message struct {
	kind    kind
	conn    shadow.ConnID
	bytes   []byte
	serving bool
	reason  string
}

type kind int

const (
	opened kind = iota
	fromClient
	fromApache
	fromZkd
	closed
	lost    // bytes of the connection, for which there was no room
	zkdLost // the connection to zkd
)

// inbox has the messages that the Engine has not taken. Its lock is held for a moment only.
type inbox struct {
	most int
	wake chan struct{}
	mu   struct {
		sync.Mutex
		list []message
		held int
		room sync.Cond
		done bool // nobody takes any more
	}
}

func newInbox(most int) *inbox {
	b := &inbox{most: most, wake: make(chan struct{}, 1)}
	b.mu.room.L = &b.mu.Mutex
	return b
}

// offer adds a message, or returns false if there is no room for its bytes.
func (b *inbox) offer(m message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(m.bytes) > 0 && b.mu.held+len(m.bytes) > b.most {
		return false
	}
	b.addLocked(m)
	return true
}

// put adds a message when there is room.
func (b *inbox) put(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(m.bytes) > 0 && b.mu.held > b.most && !b.mu.done {
		b.mu.room.Wait()
	}
	b.addLocked(m)
}

func (b *inbox) addLocked(m message) {
	b.mu.list = append(b.mu.list, m)
	b.mu.held += len(m.bytes)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns all messages. spare is the list that the last call returned.
func (b *inbox) take(spare []message) []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.mu.list
	clear(spare)
	b.mu.list, b.mu.held = spare[:0], 0
	b.mu.room.Broadcast()
	return list
}

// close makes put return at once.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.done = true
	b.mu.room.Broadcast()
}
