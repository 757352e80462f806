// Package tools has nothing: the module is that of the programs which make lint and releases run.
package tools
