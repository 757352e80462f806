// Package stale has only tests: recipes must keep their promises to a program whose server
// lags behind, and so answers reads from the past. In each test another client has made a
// change at the leader that the program's server does not know when the program begins.
package stale
