package transport

import (
	"encoding/binary"
	"time"
)

const (
	// creditStep is how many bulk bytes a receiver may leave uncredited indefinitely.
	creditStep = 8 << 10
	// creditDelay is how long it may leave more than that uncredited if the sender does not ask.
	creditDelay = 20 * time.Millisecond
)

// debt counts the bulk bytes that were read and not yet credited to the peer. A separate
// credit costs a system call at both ends, so most credits go out with other control
// frames, such as acknowledgements.
type debt struct {
	read     uint64 // bulk bytes
	credited uint64
	asked    bool        // the peer waits, or will soon
	timer    *time.Timer // calls pay; nil until needed
	runs     bool        // the timer is running
}

// owe records that a frame of n bulk bytes has been read, whether it asks for a credit, and
// whether more frames have arrived.
func (l *link) owe(n int, asks, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := &l.mu.debt
	d.read += uint64(n)
	d.asked = d.asked || asks
	switch owed := d.read - d.credited; {
	case owed < creditStep || l.mu.err != nil:
	case d.asked && (!more || owed >= readBuffer):
		l.payLocked()
	case d.runs:
	case d.timer == nil:
		d.runs, d.timer = true, time.AfterFunc(creditDelay, l.pay)
	default:
		d.runs = true
		d.timer.Reset(creditDelay)
	}
}

// pay sends the credit still owed when the timer fires.
func (l *link) pay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.debt.runs = false
	l.payLocked()
}

// payLocked queues a credit if enough is owed.
func (l *link) payLocked() {
	d := &l.mu.debt
	if d.read-d.credited < creditStep {
		return
	}
	if c, b := l.beginLocked(Control, kindCredit, frameHead+8+frameTail); c != nil {
		d.credited, d.asked = d.read, false
		l.queueLocked(Control, c, binary.BigEndian.AppendUint64(b, d.read))
	}
}
