package treediff

// Counts are of nodes.
type Counts struct {
	Created int `json:"created"`
	Changed int `json:"changed"`
	Deleted int `json:"deleted"`
	// Same are nodes that were equal already.
	Same int `json:"same"`
	// Skipped are existing nodes that differ and were left because of an option.
	Skipped int `json:"skipped"`
	// Ephemerals are nodes of the file that were omitted.
	Ephemerals int `json:"ephemerals"`
}

// Settled is the number of nodes of the file that are done.
func (c Counts) Settled() int { return c.Created + c.Changed + c.Same + c.Skipped + c.Ephemerals }

// Report is the result of a change of a whole subtree.
type Report struct {
	Counts
	// Plan is what there was to be done.
	Plan Counts `json:"plan"`
	// Counters is how many counters of sequential nodes were raised.
	Counters int `json:"counters,omitempty"`
	// Total is the number of nodes of the change.
	Total int `json:"total"`
	// Left is the number of nodes that are not done, Next the first of them: a path relative
	// to the root in the report of Import, otherwise a whole one.
	Left int    `json:"left"`
	Next string `json:"next,omitempty"`
	// Unknown are those of the nodes left whose change was sent and may have been done: the
	// connection was lost and the servers could not be asked.
	Unknown []string `json:"unknown,omitempty"`
}

// Progress is how far a change is.
type Progress struct {
	Doing       string // "reading", "writing", "deleting", …
	Done, Total int
}
