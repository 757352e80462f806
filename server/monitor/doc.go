// Package monitor counts what a server does. Metrics takes any number of goroutines, and costs an
// atomic addition for each event. Package show has the names under which operators see it.
package monitor
