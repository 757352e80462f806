// Package crash tests the zkd program from outside: real processes that are
// killed, stopped, starved of disk and fed with damaged files and hostile
// bytes, and clients that write down what they were promised.
//
// What must hold, whatever happens to the process:
//
//   - A write that was acknowledged is there after the restart, with the data,
//     the version and the zxids that the reply gave.
//   - Of the requests of a connection that had no reply, the first few have
//     happened, in order, each as a whole, and the others not at all.
//   - A zxid is never used twice, and neither is a sequence number.
//   - Sessions live on with their ephemerals; those whose client does not come
//     back expire, and the ephemerals go with them.
//   - Damage is reported and not papered over; no client can harm another.
//
// The runs are random. ZKD_SEED has the seed of the choices, if not of the
// moments. -rounds sets how often TestKill kills the server.
package crash
