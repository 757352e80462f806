package transport

import (
	"encoding/binary"
	"time"
)

const (
	// creditStep is how many bulk bytes a receiver may leave uncredited for good.
	creditStep = 8 << 10
	// creditDelay is for how long it may leave more than that uncredited, if nobody asks.
	creditDelay = 20 * time.Millisecond
)

// debt is what the peer has not been told of the bulk bytes that were read. A credit by
// itself costs a system call at both ends, so most go out with other control frames,
// such as acknowledgements.
type debt struct {
	read     uint64 // bulk bytes
	credited uint64
	asked    bool        // the peer waits, or will soon
	timer    *time.Timer // calls pay; nil until it is needed
	runs     bool        // the timer
}

// owe notes that a frame of n bulk bytes has been read, whether it asks for a credit, and
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

// pay credits what is still owed when the timer fires.
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
