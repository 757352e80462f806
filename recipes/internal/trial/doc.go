// Package trial tests recipes on real servers while connections break and sessions end.
//
//   - Every breaks the connection before and after each request of a client, and ends its
//     session there, with one run for each.
//   - Storms runs several clients with random faults.
//
// Both start a server or an ensemble, or use the servers that zktest.ServersVariable names:
// see zktest.Target. Each run has its own directory there, which its clients see as "/".
package trial
