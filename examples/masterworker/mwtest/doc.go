// Package mwtest puts a master-worker system to the test. Both ways to write it have to
// pass the same tests, on real servers, while their connections break, their sessions
// end and the servers' leader is killed.
package mwtest
