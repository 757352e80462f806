// Package shares divides limits of rates among the servers of an ensemble, so that a client that is connected to
// several of them can't use a limit several times.
//
//	server ── what its clients use ──▶ leader: Sums.Hear
//	server ◀── what they may use ───── leader: Sums.Divide
//
// Each server counts for itself, and limits its clients by the whole limit until the leader tells it of a smaller
// share. It reports what its clients use in each [Period]. The leader adds up. As soon as all servers together
// use a limit up, it divides it: a server that does not use its share up gets what it uses and some more, and the
// others get equal parts of the rest. A server on which there is nothing to limit keeps a floor for the clients that may come.
//
// # What holds
//
//   - The shares are together at most an eighth more than the limit, and a server whose clients alone use a limit
//     has all of it.
//   - Before a limit is divided, each server may let its clients use the whole limit, for a period and the time that a report
//     and an answer take. It stays divided for [Kept] after it was last used up, so a client that waits before it does that again
//     gains nothing.
//   - A server that has no word of a leader for [Word] counts by itself again.
//
// Messages are bounded: a server reports the [MostUses] subjects that use most of their limits, and the leader divides
// at most [MostDivided] limits. Further ones are counted by each server for itself.
//
// The package is pure: times come in. It is not safe for concurrent use.
package shares
