// Package behavior writes down what servers do in the terms of the specification docs/dev/spec/Zab.tla: the records
// that they write, when these become durable, what they know to be committed, and messages that say that something is
// durable. TLC decides whether the specification allows it: see Trace.tla. The simulator and tests of whole servers use it.
//
// Servers take many decisions at a time, and show them with the next output of their core. So a caller notes the records in their order, what a
// leader commits before them, and messages after them; and all of that before another server can see it.
//
// A Recorder may be used by several goroutines. One that is nil notes nothing.
package behavior
