package main

import "slices"

// promise is a section of docs/guarantees.md.
type promise struct {
	name    string   // the heading
	checked []string // names of checks
}

var promises = []promise{
	{"Writes", []string{"sim", "spec", "crash", "cluster", "soak"}},
	{"Reads", []string{"sim", "cluster", "compat"}},
	{"Watches", []string{"sim", "cluster", "compat"}},
	{"Sessions and ephemerals", []string{"sim", "cluster"}},
	{"Exactly-once sessions", []string{"sim", "spec", "cluster", "exhaust"}},
	{"Feeds", []string{"sim"}},
	{"Clients of an edge", []string{"sim", "mutants", "world"}},
	{"Operations of a multi", []string{"sim"}},
	{"Changes of the members", []string{"sim", "spec", "cluster"}},
	{"Damage", []string{"sim", "crash", "cluster", "soak"}},
	{"Standbys", []string{"sim", "standby"}},
	{"Connections", []string{"sim", "spec", "compat"}},
}

// check is a target of the Makefile that attacks promises, or the other checks.
type check struct {
	name  string // of the target, and of its result
	title string
	what  string
	brief string // the target that runs a part of it
	kept  string // where its figures are, if not in results/
}

var checks = []check{
	{name: "sim", title: "simulator", what: "the servers' code in random ensembles, under faults of all kinds; each invariant after each step"},
	{name: "mutants", title: "planted faults", what: "are faults that were planted into the rules found by random runs, scripts or pages?"},
	{name: "mutate", title: "faults by rule", what: "does a test find a change of any condition, boundary or call in the packages that decide?"},
	{name: "spec", title: "specification", what: "all states of small ensembles; rules left out; runs of the simulator and of whole servers judged by it"},
	{name: "crash", title: "killed server", what: "one real server, killed under load, its log torn", brief: "processes"},
	{name: "cluster", title: "faulty ensembles", what: "real servers killed, paused, cut off, with bad disks; histories searched for an order", brief: "processes"},
	{name: "standby", title: "lost site", what: "real servers are lost under load, and their standbys take their place; what was acknowledged and not copied is counted", brief: "processes"},
	{name: "soak", title: "soak", what: "the same, one random fault after the other"},
	{name: "exhaust", title: "exhaustion", what: "clients use up memory, disks, inodes and descriptors"},
	{name: "upgrade", title: "upgrades", what: "real servers of the last version before each change of a format become this one, and go back, while clients write"},
	{name: "compat", title: "other clients", what: "other people's clients; each answer beside Apache's server"},
	{name: "world", title: "other programs", what: "programs of other people while servers are killed, and their test suites", kept: "[by program](applications.md#what-was-run)"},
	{name: "fuzz", title: "fuzzing", what: "random input for each decoder and pure core"},
}

// checkOf returns the check with a name, or nil.
func checkOf(name string) *check {
	if i := slices.IndexFunc(checks, func(c check) bool { return c.name == name }); i >= 0 {
		return &checks[i]
	}
	return nil
}
