// Package commands makes a tree of cobra's commands refuse words that name no command. Cobra itself shows
// the help of the command above, and exits with 0, so that a script does not notice.
package commands
