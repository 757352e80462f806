package show

import (
	"github.com/zkd-project/zkd/fourletter"
)

// server answers srvr, and stat if clients is set.
func (p printer) server(v *View, clients bool) {
	p.printf("Zookeeper version: %s\n", v.Version)
	if v.ReadOnly {
		p.printf("READ-ONLY mode; serving only read-only clients\n")
	}
	if clients {
		p.printf("Clients:\n")
		for _, c := range v.Conns() {
			c.Session = 0 // in brief
			p.connection(c)
		}
		p.printf("\n")
	}
	p.printf("Latency min/avg/max: %d/%s/%d\n", v.Latency.Min, fourletter.Double(v.Latency.Avg), v.Latency.Max)
	p.printf("Received: %d\n", v.PacketsReceived.Load())
	p.printf("Sent: %d\n", v.PacketsSent.Load())
	p.printf("Connections: %d\n", v.Connections)
	p.printf("Outstanding: %d\n", v.WaitingRequests)
	p.printf("Zxid: %s\n", fourletter.ID(v.Zxid))
	p.printf("Mode: %s\n", v.Mode())
	p.printf("Node count: %d\n", v.Tree.Nodes)
	if sizes := v.LeaderProposals(); sizes != nil {
		p.printf("Proposal sizes last/min/max: %d/%d/%d\n", sizes.Last.Load(), sizes.Least.Load(), sizes.Most.Load())
	}
	if v.Standby.Of != "" {
		p.printf("Standby: %s\n", v.Standby.String())
	}
	for _, state := range [][2]string{{"Disk", v.Disk}, {"Memory", v.Memory}, {"Drain", v.Drain}} {
		if state[1] != "" {
			p.printf("%s: %s\n", state[0], state[1])
		}
	}
	for _, j := range v.Joiners() {
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
	p.printf(" %s[%x](queued=%d,recved=%d,sent=%d", fourletter.Address(c.Remote), interest, c.Queued, c.Received, c.Sent)
	if c.Session != 0 {
		p.printf(",sid=%s,lop=%s,est=%d,to=%d", fourletter.ID(c.Session), c.LastOp, c.Established.UnixMilli(), c.TimeoutMs)
		if c.LastCxid >= 0 {
			p.printf(",lcxid=%s", fourletter.ID(c.LastCxid))
		}
		p.printf(",lzxid=%s,lresp=%d,llat=%d,minlat=%d,avglat=%d,maxlat=%d",
			fourletter.ID(c.LastZxid), c.LastReplyMs, c.LastLatencyMs, c.MinLatencyMs, c.AvgLatencyMs, c.MaxLatencyMs)
	}
	if c.For != "" {
		p.printf(",for=%s", c.For)
	}
	if c.Edge != "" {
		p.printf(",user=%s,edge=%s", fourletter.Value(c.User), fourletter.Value(c.Edge))
	}
	p.printf(")\n")
}
