// Package value is a value that several programs share: they read it, follow it, and
// change it without losing each other's changes.
//
//	limits, err := value.New(c, "/app/limits", value.Options[Limits]{Seed: Limits{Rate: 100}})
//	...
//	now, err := limits.Update(ctx, func(l Limits) (Limits, error) {
//		l.Rate *= 2
//		return l, nil
//	})
//	for now, err := range limits.Follow(ctx) { ... }
//
// It stands on typed.Node, and has what that leaves to its user: the node is made
// when it is first changed, and a change whose reply is lost is found out about.
//
// # Layout on the tree
//
//	/app/limits                the value, as the codec writes it
//	/app/limits/_c_GUID-mark   ephemeral, empty; with Options.Exact only
//
// The node is persistent and what is missing above it containers. While there is no
// node the value is the seed. Curator's SharedValue and DistributedAtomicValue have the
// same layout with raw bytes: take a codec of those.
//
// # What it guarantees
//
// Updates are serial: each is made of the value that it replaces, as the node's version
// says. A change is done once or not at all, and one that failed was not done, unless
// client.IsAmbiguous(err) says that it may have been. That is when:
//
//   - The connection breaks before or after a request: it is found out whether the
//     change was made, and if not it is made. Without Exact that can't be found
//     out if another has since made the node's data the same, or has changed it
//     further: then the error is client.ErrBadVersion and ambiguous. With Exact it always
//     can: the change comes with one of a node of its own, a mark, as one multi, and
//     the mark's version tells.
//   - The session ends at that moment, and its mark goes with it: the error is
//     client.ErrSessionExpired and ambiguous. Who can't live with that gives his
//     request a name: package idempotent.
//   - ctx ends, or the connection breaks again and again.
//   - A leader that is lost is a broken connection and no more. A process that is
//     stopped for long finds, when it goes on, that its version is old.
//
// # What the caller must do
//
// Update's function may be called several times: it must do nothing but compute. A node
// that is deleted and made anew while a change is under way may have the same version
// by chance: don't delete it while it is in use. A Value that is Exact has to be closed,
// or its marks stay until the session ends: as many as there ever were changes under way
// at once.
//
// # Goroutines
//
// A Value has none, and may be used from any.
package value
