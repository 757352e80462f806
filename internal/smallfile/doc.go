// Package smallfile reads the files that people write for programs: configurations, keys, passwords. What is no such file, and would never
// end, is refused.
package smallfile
