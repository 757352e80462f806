// Package trial has what the tests of the client and of the packages above it share: servers
// with a separate directory for each test, and work whose connection breaks, or whose session
// ends, at each of its requests.
package trial
