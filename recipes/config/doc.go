// Package config is configuration that programs follow while they run: an administrator
// sets it, and every program that uses it has it in memory.
//
//	cfg, err := config.Open(ctx, c, "/app/config", config.Options[Limits]{Validate: Limits.Check})
//	if err != nil {
//		return err
//	}
//	defer cfg.Close(context.Background())
//	... cfg.Get().Rate ... // sends no request
//	for limits, err := range cfg.Follow(ctx) {
//		switch {
//		case ctx.Err() != nil:
//			return nil // the program ends
//		case err != nil:
//			log.Print(err) // the last good value stays
//		default:
//			apply(limits.Value)
//		}
//	}
//	return cfg.Problem() // the session has ended
//
// A Config is one node with the whole configuration: prefer that. A Tree is a directory
// with a node for each key; several keys can be changed together.
//
// # Layout on the tree
//
//	/app/config          a Config: the value, as the codec writes it
//
//	/app/keys            a Tree
//	/app/keys/rate       a key: its text
//	/app/keys/ready      the keys are complete: each change of keys also changes this node
//
// The nodes are persistent; missing nodes above them are created as containers. Any tool
// can set a Config's node. A program that changes a Tree's keys without this package
// deletes "ready" before the change and creates it again afterwards, as the ZooKeeper paper
// describes (section 2.3): readers keep what they have until it is back. After a change of
// one key it is enough to set "ready".
//
// # What it guarantees
//
// Get returns a value that the node had, that the codec could read, and that Validate
// accepted; it never returns an older one after a newer one. Problem and Follow report a
// value that is not good, and the last good value stays. Readers of a Tree see all of a
// change or nothing: one request reads all keys, and one multi makes the change and sets
// "ready".
//
//   - The connection breaks, or the leader is lost: the value in memory stays, and Stale
//     returns since when. When the connection is back, everything missed is read.
//   - The session ends: if the client has Options.RenewSession, nothing else changes.
//     Otherwise Follow ends with the error, and Get returns the last value.
//   - The process is stopped: when it continues, its value may be old, and it does not know
//     that at once. Call Sync before a step that must not use an old value.
//   - The reply to a Set or Update is lost: the call finds out whether the change was made.
//     If it cannot, because somebody has changed the node further, the error is ambiguous:
//     see client.IsAmbiguous.
//
// # What the caller must do
//
// Do not change what Config.Get returns. Keep Validate quick and free of side effects: it
// is called for each value read, and before each write.
//
// # Goroutines
//
// A Config or Tree has those of one client/cache, and one more that reads the node or the
// keys; they end with Close. All methods may be called from any goroutine.
package config
