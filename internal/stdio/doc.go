// Package stdio is for programs that must go on working whatever happens to the reader of
// their output: a log shipper restarts, a terminal is closed or stopped by Ctrl-S, the disk
// with the log is full.
//
// [Survive] keeps the process from being killed when it writes. [Lines] are lines of text
// that are written as far as possible, and neither block nor stop the program.
package stdio
