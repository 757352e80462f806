// Package console prevents a program's output from controlling the terminal. Text from
// elsewhere, such as the data of a znode, may contain control sequences: these move the
// cursor, change the title of the window, or reverse a line. It also breaks the lines of help by the terminal's width.
package console
