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
// A name is one or several parts with "/" between them; a part is any text but "". What
// stands before the last "/" is a context. A name can be bound and be a context as well.
//
// # Layout on the tree
//
//	/names                     container
//	/names/root%20server       a binding: its value
//	/names/printers:           a context, a container, of printers/laser
//	/names/printers:/laser
//
// Parts are percent-encoded as in URLs, all but letters and digits of ASCII and "-",
// "_", ".", "~" ("." and ".." as a whole, too), and contexts end in ":". So names without
// a "/" and of plain letters are nodes of the same name, which any program can read and
// write; Curator and kazoo have no such recipe.
//
// # What it guarantees
//
// Of all that bind one name, one succeeds until it is unbound. Rebind with a version
// replaces what its caller has seen, and nothing else, unless the name was unbound and bound
// anew meanwhile: versions begin anew then. Where that matters, rebind a name to an empty
// value instead of unbinding it.
//
//   - The connection breaks before or after a request, or the servers lose their leader:
//     it is found out whether the change was made, and if not it is made. If it can't be
//     found out the error is client.IsAmbiguous. Two that bind a name persistently to the
//     same value at the same moment may both be told that they have: put something in the
//     value that tells them apart if that matters.
//   - The session ends: ephemeral bindings are gone. Who wants them back binds again;
//     a presence.Node does that by itself. Follow goes on with Options.RenewSession of
//     the client, and ends with the error without.
//   - The process is stopped for long: its ephemeral bindings go as with the session.
//
// Resolve asks a server, which may lag behind; a client.Client.Sync before makes it
// that of now.
//
// # What the caller must do
//
// Not keep what Resolve returns for long: follow the name instead.
//
// # Goroutines
//
// Names have none, and may be used from any.
package naming
