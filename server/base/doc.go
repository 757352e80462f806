// Package base is the ground that the parts of a server stand on: its clock, the queues between
// its goroutines, and its life. It knows no part.
package base
