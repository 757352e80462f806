package queue

import (
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
)

// Guarantee says what may happen to an item if the connection breaks, or the session ends,
// while it is being offered or taken.
type Guarantee int

const (
	// ExactlyOnce means that no item is doubled or lost. If that can't be known because the
	// session has ended, the error is ErrUnknown.
	ExactlyOnce Guarantee = iota
	// AtLeastOnce means that an offer is repeated without a look, so that there may be
	// duplicates, and that an item is returned if this consumer or another one has taken it.
	AtLeastOnce
	// AtMostOnce means that an offer is not repeated if it may have been done (its error
	// IsAmbiguous), and that an item is not returned if another consumer may have it.
	AtMostOnce
)

// Layout is how the nodes of items are called.
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

// DefaultPriority is the priority of items that are offered without one, as with kazoo.
const DefaultPriority = 100

// Options configure a queue. The zero value is good for most.
type Options struct {
	// Layout is how items are called; 0 means Apache, and Kazoo for a Priority queue. It
	// must be 0 for the other kinds of queue, which have their own.
	Layout Layout

	// Ephemeral items are deleted when the session that offered them ends. Others stay
	// until they are taken.
	Ephemeral bool

	// Offers and Takes say what may happen when the connection breaks.
	Offers, Takes Guarantee

	// Exclusive allows one consumer at a time: the first one until it is closed or its
	// session ends, and then the next. Only consumers that have set it observe it.
	Exclusive bool

	// Unordered takes any of the first items of the list, so that consumers collide less.
	// Priorities do not count then.
	Unordered bool

	// MaxAttempts is how often an item of a Leased queue is handed out before it is moved
	// to the dead ones. 0 means any number.
	MaxAttempts int

	// Clock is the clock of a Delay queue; nil means that of the machine.
	Clock Clock

	// ACL is the access list of new nodes; nil means client.OpenACL.
	ACL []client.ACL
}

// Clock tells the time, as time.Now and time.After do.
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

// mode returns the mode of new items.
func (o *Options) mode() client.CreateMode {
	if o.Ephemeral {
		return client.EphemeralSequential
	}
	return client.PersistentSequential
}
