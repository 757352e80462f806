package sim

// Shrink looks for a smaller configuration that violates the same invariant: fewer faults,
// clients and servers, and no steps after the failure.
func Shrink(r Result) Result {
	try := func(change func(*Config)) {
		c := r.Config
		change(&c)
		if c == r.Config {
			return
		}
		if o := Run(c); o.Failure != nil && o.Failure.Invariant == r.Failure.Invariant {
			r = o
		}
	}
	for f := range Fault(numFaults) {
		try(func(c *Config) { c.Faults[f] = 0 })
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Observers, c.Joiners = 0, 0 },
		func(c *Config) { c.Voters = 3 },
		func(c *Config) { c.Clients = 1 },
		func(c *Config) { c.DropPct, c.DupPct, c.ReorderPct = 0, 0, 0 },
		func(c *Config) { c.Encode, c.WAL, c.Capacity = false, false, 0 },
		func(c *Config) { c.LazyPct, c.ApplyUs, c.SkewPct = 0, 0, 0 },
		func(c *Config) { c.SnapshotEach = 0 },
		func(c *Config) { c.CacheBytes, c.WindowBytes, c.BatchBytes = 0, 0, 0 },
		func(c *Config) { c.InitialCounter = 0 },
		func(c *Config) { c.Pipeline = 1 },
		func(c *Config) { c.Loud = 0 },
		func(c *Config) { c.Weight = 0 },
		func(c *Config) { c.Feeds = 0 },
		func(c *Config) { c.Streams = 0 },
		func(c *Config) { c.Views = 0 },
		func(c *Config) { c.Standbys, c.Site = 0, SiteStays },
		func(c *Config) { c.Site = SiteStays },
		func(c *Config) { c.Edges = 0 },
		func(c *Config) { c.Carriers = 0 },
		func(c *Config) { c.Away = false },
		func(c *Config) { c.Cached = 0 },
		func(c *Config) { c.Steps = min(c.Steps, r.Failure.Step) },
	} {
		try(change)
	}
	return r
}
