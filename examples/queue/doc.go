// Queue shows package queue at work: the queue of the blog post, three items in and
// three out, and workers that lease their items. See README.md.
//
// main parses the command line; demo and work do what it says, and know no more than a
// client. All run in the caller's goroutine.
package main
