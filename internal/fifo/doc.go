// Package fifo has lists from which the oldest element is removed first: List, which is one, and
// Turns, which has one for each key and removes elements of all of them by turns.
//
// What the lists hold is contiguous in memory, or reused: they leave no garbage, and a burst
// costs no memory after its end. They are not safe for concurrent use.
package fifo
