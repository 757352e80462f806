// Package zktest starts real ZooKeeper-compatible servers inside a test, in
// milliseconds, and breaks them and the connections to them on purpose.
//
//	func TestLeaderSurvives(t *testing.T) {
//		e := zktest.StartEnsemble(t, 3)
//		// Closed when the test ends, like the ensemble. In a session that is not plain, the
//		// create would wait for the next connection, and succeed.
//		c := e.Client(t, zktest.Plain)
//
//		cut := e.CutAfter(zktest.Op(jute.OpCreate)) // done, but without a reply
//		_, err := c.Create(t.Context(), "/a", nil, client.CreateOptions{})
//		<-cut.Done()
//		if !client.IsAmbiguous(err) {
//			t.Fatalf("create = %v, want an ambiguous error", err)
//		}
//		e.KillLeader()
//		if node, err := c.Exists(t.Context(), "/a"); err != nil || !node.Exists {
//			t.Fatalf("exists = %+v, %v", node, err)
//		}
//	}
//
// # Servers
//
// Start starts a single server, StartEnsemble several that replicate. They are
// complete zkd servers with TCP ports of 127.0.0.1 and disks in memory. They can
// be stopped, killed and started again at the address that clients know. They
// delete empty containers and expired TTL nodes only with the option CleanUp.
//
// A server of an ensemble can be disconnected from the others (Isolate), also
// without its notice (Strand), or receive nothing (Lag). It then answers reads
// from an old state, which breaks programs that take it for the newest one.
//
//	e := zktest.StartEnsemble(t, 3, zktest.Patient())
//	slow := e.Followers()[0]
//	here, there := e.At(slow-1).Client(t), e.At(e.Leader()-1).Client(t)
//	e.Lag(slow)
//	there.Set(ctx, "/a", []byte("new"), client.AnyVersion)
//	node, err := here.Get(ctx, "/a") // the old data
//	e.CatchUp(slow)
//
// # The proxy
//
// Clients reach a server through a Proxy. It can cut, stall and refuse
// connections, drop a selected request or its reply, and end a session, and it
// counts requests. Server and Ensemble are Proxies, too. NewProxy puts one in
// front of any servers, for example Apache's, and any client library can connect
// through it; Client makes one of zkd's clients.
//
// # Invariants
//
//   - A proxy forwards data unchanged and in order.
//   - A cut takes effect between two requests: the replies to all earlier
//     requests have been forwarded when the connection breaks, and no later
//     request has reached the server.
//   - Nothing is left when the test has ended: no goroutine, no port.
//
// # Goroutines
//
// All methods may be called from any goroutine. A method that fails marks the
// test as failed and returns. Start, StartEnsemble, NewProxy and Client end the
// test instead, because it can't continue without their results.
package zktest
