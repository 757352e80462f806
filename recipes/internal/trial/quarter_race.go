//go:build race

package trial

const quarter = 2
