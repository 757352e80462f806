package subtree

// Counts are of nodes.
type Counts struct {
	Created int `json:"created"`
	Changed int `json:"changed"`
	Deleted int `json:"deleted"`
	// Same are those that were as they should be.
	Same int `json:"same"`
	// Skipped are those that exist, differ, and were left alone as was asked for.
	Skipped int `json:"skipped"`
	// Ephemerals are those of the file that were left out.
	Ephemerals int `json:"ephemerals"`
}

// settled is how many nodes of the file are dealt with.
func (c Counts) settled() int { return c.Created + c.Changed + c.Same + c.Skipped + c.Ephemerals }

// Report is what a change of a whole subtree has done.
type Report struct {
	Counts
	// Plan is what there was to be done.
	Plan Counts `json:"plan"`
	// Counters is how many counters of sequential nodes were raised.
	Counters int `json:"counters,omitempty"`
	// Total is how many nodes the change was about.
	Total int `json:"total"`
	// Left is how many nodes have not been dealt with, Next the first of them: its
	// path is relative to the root in the report of Import, or else a whole one.
	Left int    `json:"left"`
	Next string `json:"next,omitempty"`
	// Unknown are nodes, among those that are left, whose change was sent and may
	// have happened: the connection was lost and the servers could not be asked.
	Unknown []string `json:"unknown,omitempty"`
}
