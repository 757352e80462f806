// Package rendezvous has parties meet, two or n at a time, and exchange a value each.
//
//	r, err := rendezvous.New(c, "/pairs", 2, rendezvous.Options{})
//	m, err := r.Meet(ctx, []byte("my address")) // waits for the other one
//	other := m.Values[1-m.Own]
//
// Whoever comes when others have met meets those who come later (seeds.md D31).
//
// # Layout on the tree
//
//	/pairs                                    made as a container if it is missing
//	/pairs/_c_<GUID>-party-of-2-<sequence>    ephemeral: a party; its data is its value, and
//	                                          from version 1 on JSON: the meeting
//
// No other library has this recipe.
//
// # What it guarantees
//
//   - A meeting is one change: the servers tell all n of it or none, and it happens only
//     if all are there at that time and have not met or given up. All are told the same
//     values and the same Meeting.ID.
//   - Each Meet is in one meeting at most, and each value is exchanged once.
//   - Those meet who came first. If n are there, they meet: of those who wait none needs
//     one that has died.
//   - One who gives up takes its node away in one change that fails if it has met. Then
//     Meet returns the meeting, though ctx has ended.
//   - What can't be promised, here or anywhere: that all who have met live to know it. A
//     party that dies when it has met, before it hears of it, is met by the others all
//     the same, as one that dies right behind Meet.
//   - No polling, no herd: each party watches its own node, which fires once.
//
// # When something breaks
//
//   - The connection: Meet goes on when it is back. Nothing is exchanged twice.
//   - The session: Meet fails with recipes.ErrLost, and the error IsAmbiguous, since the
//     party may have met just before. If it had not nobody meets it any more.
//   - ctx ends while the connection is down: Meet waits for up to two seconds to find
//     out whether it has met; then the error IsAmbiguous, and the node goes when the
//     connection is back or with the session.
//   - The process is paused: it may be met while it is, until its session has ended.
//   - The servers' leader: as with the connection.
//
// # What the caller must do
//
// Use one n at one path: others are recipes.ErrLayout. All values of a meeting are
// written n times in one request, so n*n*(4/3) times the size of a value has to be less
// than client.DefaultMaxRequest. Parties must be allowed to read and write each other's
// nodes.
//
// # Goroutines
//
// None.
package rendezvous
