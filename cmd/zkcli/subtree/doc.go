// Package subtree reads, writes and compares whole subtrees: what the commands
// tree, find, du, export, import, diff and setAcl -R of zkcli stand on.
//
// Everything is a stream of nodes in tree order: a node comes before its
// children, siblings in the order of their names' bytes (see Compare). Live reads
// such a stream from servers, Reader from an export. As both have the same order,
// Diff and a prune need to hold no more than one node of each.
//
// Paths of nodes are relative to the root of the subtree, which is "/" itself, so
// that a subtree can be compared with, or written to, another place: see Join.
//
// # Exports
//
// An export is lines of JSON, each ended by a newline: a header, a line for each
// node in tree order, and a trailer.
//
//	{"format":"zkcli-export","version":1,"source":"zk1:2181","path":"/app","zxid":"0x100000002","time":"2026-01-02T03:04:05Z","about":2}
//	{"path":"/","text":"hello","acl":["world:anyone:cdrwa"],"stat":{"czxid":"0x1",…}}
//	{"path":"/a","base64":"/w==","acl":["world:anyone:cdrwa"],"stat":{"czxid":"0x2",…}}
//	{"end":true,"nodes":2,"sha256":"…"}
//
// Data that is valid UTF-8 is in "text", other data in "base64"; a node with
// neither has null data, which ZooKeeper tells from empty. The trailer has the
// number of nodes and the SHA-256 of all bytes before it. Its bytes must be
// exactly those that Writer writes, so a file that was cut or changed anywhere is
// recognised.
//
// # Invariants
//
//   - Reader returns io.EOF only after a trailer that fits; until then what it
//     returned may be a part of a damaged file. Import reads a file to its end
//     before it writes anything.
//   - A change that may or may not have happened is looked up before anything
//     else is done, and an interrupted change is waited for: reports name what
//     was done, what was not, and, if the servers can't be asked, what is unknown.
//
// # Goroutines
//
// Functions run in the caller's goroutine and block as long as their context
// lets them. They keep many requests under way through client.Async.
package subtree
