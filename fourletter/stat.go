package fourletter

// server answers srvr, and stat if clients is set.
func (p printer) server(src Source, clients bool) {
	p.printf("Zookeeper version: %s\n", src.Version())
	if src.ReadOnly() {
		p.printf("READ-ONLY mode; serving only read-only clients\n")
	}
	if clients {
		p.printf("Clients:\n")
		for _, c := range src.Connections() {
			c.Session = 0 // in brief
			p.connection(c)
		}
		p.printf("\n")
	}
	s := src.Server()
	p.printf("Latency min/avg/max: %d/%s/%d\n", s.MinLatencyMs, double(s.AvgLatencyMs), s.MaxLatencyMs)
	p.printf("Received: %d\n", s.Received)
	p.printf("Sent: %d\n", s.Sent)
	p.printf("Connections: %d\n", s.Connections)
	p.printf("Outstanding: %d\n", s.Outstanding)
	p.printf("Zxid: %s\n", id(s.Zxid))
	p.printf("Mode: %s\n", s.Mode)
	p.printf("Node count: %d\n", s.Nodes)
	if sizes := s.ProposalSizes; sizes != nil {
		p.printf("Proposal sizes last/min/max: %d/%d/%d\n", sizes.Last, sizes.Min, sizes.Max)
	}
	if s.Disk != "" {
		p.printf("Disk: %s\n", s.Disk)
	}
	if s.Drain != "" {
		p.printf("Drain: %s\n", s.Drain)
	}
	for _, j := range s.Joiners {
		if j.Snapshot {
			p.printf("Joiner %d: snapshot %d/%d\n", j.ID, j.Sent, j.Size)
		} else {
			p.printf("Joiner %d: log %d left\n", j.ID, j.LogLeft)
		}
	}
}

func (p printer) cons(conns []Connection) {
	for _, c := range conns {
		p.connection(c)
	}
	p.printf("\n")
}

func (p printer) connection(c Connection) {
	interest := 0
	if c.Reading {
		interest |= 1
	}
	if c.Writing {
		interest |= 4
	}
	p.printf(" %s[%x](queued=%d,recved=%d,sent=%d", address(c.Remote), interest, c.Queued, c.Received, c.Sent)
	if c.Session != 0 {
		p.printf(",sid=%s,lop=%s,est=%d,to=%d", id(c.Session), c.LastOp, c.Established.UnixMilli(), c.TimeoutMs)
		if c.LastCxid >= 0 {
			p.printf(",lcxid=%s", id(c.LastCxid))
		}
		p.printf(",lzxid=%s,lresp=%d,llat=%d,minlat=%d,avglat=%d,maxlat=%d",
			id(c.LastZxid), c.LastReplyMs, c.LastLatencyMs, c.MinLatencyMs, c.AvgLatencyMs, c.MaxLatencyMs)
	}
	p.printf(")\n")
}
