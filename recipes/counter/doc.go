// Package counter is a number that several programs count with: it gives each of them
// its own numbers, and loses none.
//
//	orders, err := counter.New(c, "/app/orders", counter.Options{Exact: true})
//	if err != nil {
//		return err
//	}
//	defer orders.Close(context.Background())
//	n, err := orders.Increment(ctx)
//	... // the order n.After is ours alone
//
// It is a recipes/value of numbers that tries again when another was faster, and
// knows where numbers end.
//
// # Layout on the tree
//
//	/app/orders                the number, as Options.Layout says
//	/app/orders/_c_GUID-mark   with Options.Exact only: see package value
//
//	Long     8 bytes, big endian: Curator's DistributedAtomicLong
//	Int      4 bytes, big endian: Curator's SharedCount and DistributedAtomicInteger,
//	         kazoo's Counter with support_curator
//	Decimal  text such as -12: kazoo's Counter with whole numbers
//
// Programs with these count at the same node at the same time. Their own counts are as
// exact as their libraries make them: Curator repeats an increment whose reply was
// lost, and kazoo does. With Options.Lock the lock is one of recipes/lock, with
// Curator's layout: the path of PromotedToLock.
//
// # What it guarantees
//
// Counts are serial, and each is done once or not at all, with the exceptions of
// package value, where the error is ambiguous (client.IsAmbiguous):
//
//   - The connection breaks before or after a request: with Exact nothing is in doubt
//     as long as the session lives. Without, a count is in doubt if another has
//     counted meanwhile: two that count from 6 to 7 look the same.
//   - The session ends, or ctx does, while a request is under way: in doubt.
//   - A leader is lost: as a broken connection.
//   - The process is stopped: when it goes on, its change is refused if the number has
//     changed. That is so under the lock, too, which is there to keep contenders from
//     spoiling each other's tries: nothing depends on its being held.
//
// A count that would not fit is ErrOverflow, and data that is no number typed.ErrData;
// nothing is done then.
//
// # What the caller must do
//
// Close a Counter that is Exact. Treat an ambiguous error as a number that may have been
// used: don't count again, unless gaps do no harm.
//
// # Goroutines
//
// A Counter has none, and may be used from any; with Options.Lock one watches over the
// lock while it is held.
package counter
