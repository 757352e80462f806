// Package naming is a name service: programs bind values, such as addresses, to names,
// and others resolve them.
//
//	names, err := naming.New(c, "/names", naming.Options{})
//	if err != nil {
//		return err
//	}
//	err = names.BindEphemeral(ctx, "printers/laser", []byte("10.0.0.7:631"))
//	...
//	b, err := names.Resolve(ctx, "printers/laser")
//	for b, err := range names.Follow(ctx, "printers/laser") { ... }
//
// # Names
//
// A name consists of one or more parts, separated by "/". A part is any text except "".
// The parts before the last "/" are a context. A name can be bound and be a context at
// the same time.
//
// # Layout on the tree
//
//	/names                     container
//	/names/root%20server       a binding: its value
//	/names/printers:           a context, a container, of printers/laser
//	/names/printers:/laser
//
// Parts are percent-encoded as in URLs: all characters except ASCII letters, digits, "-",
// "_", "." and "~", and also the parts "." and "..". The nodes of contexts end in ":". A
// name of plain letters without "/" is therefore a node of the same name, which any program
// can read and write. Curator and kazoo have no such recipe.
//
// # What it guarantees
//
// Of several programs that bind one name, one succeeds, until the name is unbound. Rebind
// with a version replaces only the binding that its caller has seen, unless the name was
// unbound and bound again meanwhile: versions then start at 0 again. Where that matters,
// rebind a name to an empty value instead of unbinding it.
//
//   - The connection breaks, or the leader is lost: the call finds out whether the change
//     was made, and makes it if not. If that cannot be found out, the error is ambiguous:
//     see client.IsAmbiguous. Two programs that bind a name persistently to the same value
//     at the same moment may both succeed: where that matters, put something into the
//     value that tells them apart.
//   - The session ends: its ephemeral bindings are gone. Bind them again, or use a
//     presence.Node, which does that. Follow continues if the client has
//     Options.RenewSession, and otherwise ends with the error.
//   - The process is stopped for a long time: its session ends, as above.
//
// Resolve asks the client's server, which may lag behind the others: call
// client.Client.Sync before it to get the newest binding.
//
// # What the caller must do
//
// Do not keep what Resolve returns for long: follow the name instead.
//
// # Goroutines
//
// There are none. Names may be used from any goroutine.
package naming
