// Package proxy has the connections of a shadow: those of clients to Apache's servers, which
// it relays, and those to zkd's servers. Package migrate/shadow compares what they carry.
// A Recorder writes down what clients ask instead, and Replay asks it again.
//
// # Invariants
//
//   - What a client gets is what Apache's server sent, byte for byte, as soon as it comes. The
//     relay never waits for the comparison: it hands over copies, and when too many of
//     them wait, the comparison of that connection ends.
//   - All connections to zkd are to one server, so that an answered write is seen by the next
//     read of another connection.
//
// # Goroutines
//
// A Relay has one goroutine that accepts, and two for each connection, one in each
// direction. A Shadow has one goroutine, which owns the shadow.Engine, and two for each connection to
// zkd: one reads, one writes. All end before Relay.Serve and Shadow.Run return. A walk reads eight
// znodes at a time, each in a goroutine for each side.
package proxy
