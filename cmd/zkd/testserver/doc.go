// Package testserver is the test kit for programs in any language: an ensemble of local
// servers, with a proxy in front of each, and faults that a test orders by HTTP.
//
// A Proxy passes connections on as they are. It reads only the session's id, in the first
// frame that a server answers, so that it can drop the connection of a session. A Control is
// the handler of the orders; it may be called from any goroutine, and answers when an order
// is carried out.
package testserver
