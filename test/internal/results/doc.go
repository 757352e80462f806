// Package results is for programs that keep what long runs have found in small files, and write pages from these.
//
// A file has a line "key value" for each thing that is known; one of them has counts, "acknowledged=40000 lost=0".
// What a program writes into a page stands between two lines, and all else there is written by people.
package results
