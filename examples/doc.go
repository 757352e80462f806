// Package examples has only tests. The examples are in the packages below it.
package examples
