// Package doclines finds the command lines of a program in README.md and docs/*.md, so that a test can parse them.
// Only tests import it.
package doclines
