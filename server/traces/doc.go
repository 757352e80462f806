// Package traces sends OpenTelemetry spans of sampled requests to a collector.
//
// Each server that takes part in a request makes its spans by itself, when the request is
// applied there. Package traceid has the reason why they fit together. The server of the
// client has the parent of the others:
//
//	setData            the client, if it makes spans
//	└─ setData         its server, from the arrival of the request to the reply
//	   ├─ queue        until the transaction was handed to this server's log: at the leader, and on the way there and back
//	   ├─ disk         until it was durable here
//	   ├─ quorum       until it was known to be committed
//	   ├─ apply        until it was applied and answered
//	   ├─ leader       another server, from the log to the tree
//	   │  ├─ disk
//	   │  ├─ quorum
//	   │  └─ apply
//	   └─ follower
//
// The times are those of the log of slow requests and of the metrics: nothing is measured for
// a trace alone.
//
// # Goroutines
//
// Add passes a request to the Tracer's goroutine, and drops it if too many wait. That goroutine
// makes spans, for the SDK's batch processor, which has a goroutine that sends them. A
// collector that does not answer costs the memory of what waits: queued requests, and the
// batch processor's 2048 spans.
package traces
