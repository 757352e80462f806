// Package value is a value, or a number, that several programs share: they read it, follow
// it, and change it without losing each other's changes.
//
//	limits, err := value.New(c, "/app/limits", value.Options[Limits]{Seed: Limits{Rate: 100}})
//	...
//	now, err := limits.Update(ctx, func(l Limits) (Limits, error) {
//		l.Rate *= 2
//		return l, nil
//	})
//	for now, err := range limits.Follow(ctx) { ... }
//
// A Counter gives each program its own numbers:
//
//	orders, err := value.NewCounter(c, "/app/orders", value.CounterOptions{Exact: true})
//	...
//	defer orders.Close(context.Background())
//	n, err := orders.Increment(ctx) // nobody else gets n.After
//
// # Layout on the tree
//
//	/app/limits                the value, as the codec writes it
//	/app/limits/_c_GUID-mark   ephemeral, empty; with Options.Exact only
//
// The node is persistent, and nodes above it are containers. While there is no node the
// value is the seed. With a codec of raw bytes it is the layout of Curator's SharedValue
// and DistributedAtomicValue. The data of a Counter is that of
//
//	Long     8 bytes, big endian: Curator's DistributedAtomicLong
//	Int      4 bytes, big endian: Curator's SharedCount and DistributedAtomicInteger,
//	         kazoo's Counter with support_curator
//	Decimal  text such as -12: kazoo's Counter with whole numbers
//
// These programs can count at the same node. Curator and kazoo repeat an increment whose
// reply was lost. CounterOptions.Lock is a lock of recipes/lock with Curator's layout: the
// path of PromotedToLock.
//
// # What it guarantees
//
// Changes are serial: each replaces the version of the node that it was computed from. A
// change is done once, and one that failed was not done, unless client.IsAmbiguous(err)
// reports that it may have been:
//
//   - The connection breaks: the call finds out whether the change was made, and makes it
//     if not. Without Exact this is impossible if others have set the same data, or have
//     changed the node further: then the error is client.ErrBadVersion and ambiguous. With
//     Exact it is always possible: each change is a multi that also sets an ephemeral node
//     of the session, the mark, whose version tells.
//   - The session ends during a change, and its mark with it: the error is
//     client.ErrSessionExpired and ambiguous. Package idempotent avoids that by naming
//     requests.
//   - The context ends during a change, or the connection breaks again and again: the
//     error is ambiguous.
//   - The process is stopped: its version is old when it continues, and the change is
//     refused. This holds under the lock of a Counter, too; the lock only keeps contenders
//     from spoiling each other's attempts.
//
// # What the caller must do
//
// Close what is Exact: otherwise its marks stay until the session ends, as many as there
// were changes at the same time. Do not delete the node while it is in use: a new one may
// have the same version by chance. Do not repeat an ambiguous count if gaps do no harm but
// duplicates do.
//
// # Goroutines
//
// There are none, except one that watches a Counter's lock while it is held.
package value
