// Package fair decides who gives way where many share what is bounded: those who hold most, and not
// those who come last.
//
//	Release ──── of all that hold a part, who ends when it is too much
//	Displace ─── who gives one up to a newcomer
//	Places ───── a number of places, shared by Displace
//	Enters ───── whether one may take a place, where nobody gives one up
//
// A holder weighs what it holds, times what its heaviest group holds: all that have its address, or one of
// its identities, in common. So neither many connections nor one protect from giving way, and a newcomer
// never takes the same from somebody in turns.
//
// The package is pure. Places have a lock and may be used from any goroutine; they call the end of a holder
// with that lock held.
package fair
