// Package login has the flags with which the programs log in to servers with SASL. zkcli and
// zkbench have the same.
package login
