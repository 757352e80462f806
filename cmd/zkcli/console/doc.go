// Package console serves zkd's console for any ensemble, Apache's as well, to a browser on this machine.
//
//	browser ─▶ gate ─▶ server/console: the pages
//	                 ─▶ server/api ─▶ far end of a connection (far.go) ─▶ package client ─▶ servers
//	                 ─▶ the commands dump and connections (words.go) ─▶ four-letter words ─▶ all servers
//	                 ─▶ feed (feed.go) ─▶ a feed, or a persistent watch
//
// The API is that of a server, except that its connections end at a client of the ensemble, which has zkcli's identity. What only a
// server can tell of itself is missing. Everything is read, and nothing is written.
//
// # The gate
//
// Other users of the machine reach its loopback, and so do the pages of other origins, by their readers' browser. So there is a link with
// a secret that is good for one use: the browser that opens it gets a cookie, and others get nothing.
//
// # Goroutines
//
// A connection of the API has a goroutine that reads requests, and each request one. They end with the connection, and Close waits for them.
package console
