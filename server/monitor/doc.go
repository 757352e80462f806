// Package monitor has what a server counts of itself, and shows it by ZooKeeper's names
// and its own: to Prometheus, and to the four-letter word mntr. The names and their
// meaning are on the page admin.md of docs/spec.
//
// Metrics counts. It takes any number of goroutines, and costs an atomic addition for
// each event. A Reading is one look at a server; what is shown is made from that alone.
package monitor
