// Package trial puts recipes to the test: it runs them against real servers while
// their connections break and their sessions end.
//
//   - Every breaks the connection before and after each request that a client makes,
//     one run for each, and ends its session at each.
//   - Storms has several clients at work while random faults befall them.
//
// Both use a server, or an ensemble, of their own, or the servers that
// zktest.ServersVariable names: see zktest.Target. Each run has a directory of its
// own there, which its clients see as "/".
package trial
