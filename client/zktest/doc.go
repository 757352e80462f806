// Package zktest starts real ZooKeeper-compatible servers inside a test, in
// milliseconds, and breaks them, and the connections to them, on purpose.
//
//	func TestLeaderSurvives(t *testing.T) {
//		e := zktest.StartEnsemble(t, 3)
//		c := e.Client(t) // closed when the test ends, as is the ensemble
//
//		cut := e.CutAfter(zktest.Op(jute.OpCreate)) // done, but nobody hears of it
//		_, err := c.Create(t.Context(), "/a", nil, client.Persistent, nil)
//		<-cut.Done()
//		if !client.IsAmbiguous(err) {
//			t.Fatalf("create = %v, want one that may have happened", err)
//		}
//		e.KillLeader()
//		if _, ok, err := c.Exists(t.Context(), "/a"); err != nil || !ok {
//			t.Fatalf("exists = %v, %v", ok, err)
//		}
//	}
//
// # Servers
//
// Start gives one server of its own, StartEnsemble several that replicate. They
// are zkd servers, the whole of them, with TCP ports of 127.0.0.1 and disks in
// memory. They can be stopped, killed and started again: the address
// that clients know stays.
//
// One of an ensemble can be taken off the network of the servers (Isolate), also
// without its notice (Strand), or be told nothing (Lag): then it answers reads out of
// the past, which is where programs break that take them for the present.
//
//	e := zktest.StartEnsemble(t, 3, zktest.Patient())
//	slow := e.Followers()[0]
//	here, there := e.At(slow-1).Client(t), e.At(e.Leader()-1).Client(t)
//	e.Lag(slow)
//	there.Set(ctx, "/a", []byte("new"), client.AnyVersion)
//	data, _, err := here.Get(ctx, "/a") // as it was
//	e.CatchUp(slow)
//
// # The proxy
//
// Clients reach a server through a Proxy, which can cut, stall and refuse
// connections, swallow a certain request or the reply to it, end a session, and
// which counts requests. Server and Ensemble are Proxies too. NewProxy puts one
// before any servers, of Apache or of anybody else, and any client library can
// go through it; Client makes one of ours.
//
// # Invariants
//
//   - What a proxy passes on it passes on unchanged, in order.
//   - A cut by request takes effect between two requests: the replies to all
//     requests before it have been passed on when the connection breaks, and
//     nothing behind it has reached the server.
//   - Nothing is left when the test has ended: no goroutine, no port.
//
// # Goroutines
//
// All methods may be called from any goroutine. What can't be done marks the
// test as failed and goes on, except that Start, StartEnsemble, NewProxy and
// Client end the test, as they return what it can't do without.
package zktest
