// Package config is configuration that programs follow while they run: an administrator
// sets it, and all who use it have it in memory.
//
//	cfg, err := config.Open(ctx, c, "/app/config", config.Options[Limits]{Validate: Limits.Check})
//	if err != nil {
//		return err
//	}
//	defer cfg.Close(context.Background())
//	... cfg.Get().Rate ... // costs nothing
//	for limits, err := range cfg.Follow(ctx) { ... }
//
// Config is one node with all in it: prefer that. Tree is a directory with a node for
// each key, of which several can be changed as one.
//
// # Layout on the tree
//
//	/app/config          a Config: the value, as the codec writes it
//
//	/app/keys            a Tree
//	/app/keys/rate       a key: its text
//	/app/keys/ready      what is there is whole: changed by each change
//
// Nodes are persistent, and what is missing above them containers. Any tool can set a
// Config's node. Who changes a Tree's keys without this package deletes "ready" before
// and creates it again behind, as the ZooKeeper paper has it (section 2.3): readers keep
// what they have until it is back. A change of one key may set "ready" behind it instead.
//
// # What it guarantees
//
// Get returns a value that was the node's, that its codec could read, and that Validate
// found to be good; never an older one after a newer one. What is not good is
// reported by Problem and Follow, and the last good value stays. Readers of a Tree see
// all of a change or nothing: they read the keys at one moment, and the change is one
// multi that also changes "ready".
//
//   - The connection is lost: what is in memory stays, and Stale says since when. When
//     it is back, all is read that was missed.
//   - The session ends: with Options.RenewSession of the client it goes on the same way.
//     Without, Follow ends with the error, and Get returns what it had.
//   - The servers' leader is lost: as with the connection.
//   - The process is stopped: when it goes on, it has what it had, and does not know for a
//     moment that this is old. Sync before what must not go by an old value.
//   - A set whose reply is lost: it is found out what has become of it; what can't be
//     known is an error that is client.IsAmbiguous: somebody has changed it further.
//
// # What the caller must do
//
// Not change what Get returns. Keep Validate quick and without effects: it is called
// when values come in, and before they are set.
//
// # Goroutines
//
// A Config or Tree has those of one client/cache, and one of its own, which read the
// node; they end with Close. All methods may be called from any goroutine.
package config
