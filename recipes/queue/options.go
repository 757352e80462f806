package queue

import (
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
)

// Guarantee says what may happen to an item if the connection breaks, or the session
// ends, while it is on its way.
type Guarantee int

const (
	// ExactlyOnce: neither is an item doubled nor lost. If that can't be told
	// because the session has ended the error says so: ErrUnknown.
	ExactlyOnce Guarantee = iota
	// AtLeastOnce: an offer is repeated blindly, so there may be duplicates; an item
	// that this consumer may have taken is returned, though another one may have it.
	AtLeastOnce
	// AtMostOnce: an offer is never repeated if it may have been done: its error
	// IsAmbiguous then; an item that another consumer may have is not returned.
	AtMostOnce
)

// Layout is what the nodes of items are called.
type Layout int

const (
	// Apache is "qn-" and the number: that of Apache's DistributedQueue and of
	// Curator's SimpleDistributedQueue. It has no priorities.
	Apache Layout = 1 + iota
	// Kazoo is "entry-", a priority of three digits, "-" and the number.
	Kazoo
	// Book is "queue-", a priority of two digits, "-" and the number: that of the
	// recipe in ZooKeeper's documentation.
	Book
)

// DefaultPriority is that of items which are offered without one, as with kazoo.
const DefaultPriority = 100

// Options are what a queue can be told. The zero value is good for most.
type Options struct {
	// Layout is what items are called; 0 is Apache, and Kazoo for a Priority queue.
	// Delay, Bounded and Leased have one each that is not up to choice.
	Layout Layout

	// Ephemeral has items that go with the session of whoever offered them.
	// Otherwise they stay until they are taken.
	Ephemeral bool

	// Offers and Takes say what may happen when connections break.
	Offers, Takes Guarantee

	// Exclusive has one consumer at a time: the first to take has the queue for
	// itself until it is closed, or its session ends; then it is the next one's
	// turn. Only consumers that have set it keep to that.
	Exclusive bool

	// Unordered takes any of the first items of the list instead of the first, so
	// that consumers get in each other's way less. Priorities don't count then.
	Unordered bool

	// MaxAttempts is how often an item of a Leased queue is handed out before it
	// counts as one that nobody can work on: see Leased. 0 is any number.
	MaxAttempts int

	// Clock is what a Delay queue goes by; nil is this machine's.
	Clock Clock

	// ACL is that of new nodes; nil is client.OpenACL.
	ACL []client.ACL
}

// Clock tells the time. time.Now and time.After are one.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type wallClock struct{}

func (wallClock) Now() time.Time                         { return time.Now() }
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (o *Options) validate() error {
	for name, g := range map[string]Guarantee{"Offers": o.Offers, "Takes": o.Takes} {
		if g < ExactlyOnce || g > AtMostOnce {
			return fmt.Errorf("queue: Options.%s is %d: it should be ExactlyOnce, AtLeastOnce or AtMostOnce", name, g)
		}
	}
	if o.Layout < 0 || o.Layout > Book {
		return fmt.Errorf("queue: Options.Layout is %d: it should be Apache, Kazoo or Book", o.Layout)
	}
	if o.MaxAttempts < 0 {
		return fmt.Errorf("queue: Options.MaxAttempts is %d: it should not be negative", o.MaxAttempts)
	}
	return nil
}

// mode is how items are created.
func (o *Options) mode() client.CreateMode {
	if o.Ephemeral {
		return client.EphemeralSequential
	}
	return client.PersistentSequential
}
