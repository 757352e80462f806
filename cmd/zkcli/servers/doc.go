// Package servers asks servers for their state by the four-letter words srvr, mntr, cons and topc,
// for the commands of zkcli and zkd that show it. Apache's servers answer all but the last one.
//
// A View has the state of one server, or in Err why there is none. No call returns an
// error: a table of servers has a row for each, whatever its state. LookAll asks each
// server in a goroutine and waits for all of them.
package servers
