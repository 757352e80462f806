// Package copies has the rules of copies of an ensemble at another site: what a server sends to one, what a copy takes, when
// it has everything, and how copies become an ensemble of their own.
//
//	Sends, Settled ─────── a server, or a copy that others follow: what it sends of its log
//	Begins, Installs ───── a copy: which stream of a log, and which whole state, it takes
//	Circle ─────────────── whom it must not follow
//	Complete, Covers ───── when the ensemble may be given up for the copy
//	LeftAfter, Age ─────── how far a copy is behind
//	Check, Succeed ─────── which copies become an ensemble, and how it begins
//
// What always holds of a copy: it is the history of the ensemble up to a zxid, without a hole, and each entry of it is
// committed. It never goes back to a lower zxid, but for what a crash takes that was not on its disk.
//
// The ensemble that copies become is another one, with the same state, sessions and secret of their passwords. Its id differs, so
// that servers of the two refuse each other, and its epochs are ahead, so that clients that have seen it are refused by the earlier
// one.
//
// The package is pure. Package migrate/standby does the work around it, and so does the simulator.
package copies
