//go:build !unix

package backup

import "io/fs"

// mine reports whether a file belongs to the user of this process, as all in a user's own directory
// for temporary files do.
func mine(fs.FileInfo) bool { return true }
