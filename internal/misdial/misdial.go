// Package misdial tells ZooKeeper clients that they have come to a port of a server that is for something else.
// Otherwise they would wait for an answer until they give up.
package misdial

import (
	"io"
	"net"
	"time"
)

// Client is the first byte of a ZooKeeper client: its first frame is shorter than 16 MiB. No TLS record,
// and no text, begins with it.
const Client = 0

// patience is the time in which a client has to take the text.
const patience = time.Second

// Tell sends the text, which clients show as what does not speak ZooKeeper's protocol. The connection is to be closed
// afterwards. What the client has sent is read first: closing would reset the connection, and the text be lost.
func Tell(nc net.Conn, text string) {
	if nc.SetDeadline(time.Now().Add(patience)) != nil {
		return
	}
	if _, err := io.WriteString(nc, text+"\r\n"); err == nil {
		io.CopyN(io.Discard, nc, 64<<10)
	}
}
