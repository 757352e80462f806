// Package source gets snapshots and the log from running servers, by the pages of their AdminServers:
// /commands/snapshot has the state at a zxid, and /commands/log the committed entries after one, as a
// stream that does not end. Package archive has their formats.
package source
