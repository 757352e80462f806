// Package api is the HTTP API of a server: what its port for clients offers, for programs without a ZooKeeper
// library.
//
//	request ─▶ table of endpoints ─▶ frame of ZooKeeper's protocol ─▶ link ─▶ the server's connection
//	answer  ◀─ JSON, bytes, problem ◀───────── reply ◀───────────────── ◀─┘
//
// It knows HTTP and the protocol, and nothing of the server: each request becomes one or two requests of the protocol, on
// a connection in memory that [Options.Connect] opens. To the server that is a client's connection like any other, so the
// same rules decide in which order its requests are answered, what it may do, how much, and what is audited.
//
// # Links
//
// A link is the client's end of such a connection. All requests of one caller share it: the same address, the same proof of
// who it is, the same session. A request without a session has one that is local to the server, which leaves nothing behind; its
// link is closed when it has been idle for a while. A session has its link until it ends, or comes to another server with its
// token. A link whose connection has ended is forgotten; the next request opens another one.
//
// # The table
//
// The table of endpoints (table.go) says what each takes and how it answers. The router, the checks of parameters
// and the OpenAPI description are made from it.
//
// The simulator runs the lines that serve links, with local sessions and with others; pages of package line have the visits. It
// has no HTTP, and none of this package.
//
// # Goroutines and locks
//
// A handler is the goroutine of its HTTP request. Each link has a goroutine that reads replies; it ends with the connection.
// links.mu guards the table of links, link.mu what a link waits for; links.mu is locked first.
package api
