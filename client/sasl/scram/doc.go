// Package scram authenticates a client to zkd's servers with SCRAM (RFC 5802, RFC 7677). It is
// apart from package sasl because of the tables of Unicode that passwords need (RFC 8265).
//
//	c, err := client.New("zk1:2181", client.Options{SASL: scram.SHA256("bob", password)})
package scram
