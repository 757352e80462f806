package cluster

import (
	"math/rand/v2"
	"slices"
	"time"
)

// fault is something that happens to an ensemble. run does it, and undoes what
// does not end by itself; the links are healed, and servers that do not run
// started, behind it.
type fault struct {
	name string
	run  func(c *campaign)
}

// pick returns a random server of a list.
func (c *campaign) pick(list []*server) *server { return list[c.rng.IntN(len(list))] }

// faults are those that need nothing but processes and links.
var faults = []fault{
	{"nothing", func(c *campaign) { c.wait(time.Second) }},
	{"kill leader", func(c *campaign) { c.restart(c.e.awaitLeader()) }},
	{"kill follower", func(c *campaign) { c.restart(c.pick(c.e.followers())) }},
	{"kill all", killAll},
	{"kill majority", func(c *campaign) {
		voters := shuffle(c.rng, c.e.voters())[:len(c.e.voters())/2+1]
		for _, s := range voters {
			s.Kill()
		}
		c.wait(c.between(10*time.Millisecond, 800*time.Millisecond))
		c.e.start()
	}},
	{"kill one after the other", func(c *campaign) {
		for _, s := range shuffle(c.rng, c.e.servers) {
			c.restart(s)
			c.wait(c.between(0, 500*time.Millisecond))
		}
	}},
	{"stop leader", func(c *campaign) { c.terminate(c.e.awaitLeader()) }},
	{"rolling restart", func(c *campaign) {
		for _, s := range shuffle(c.rng, c.e.servers) {
			c.terminate(s)
			c.e.awaitAll()
		}
	}},
	{"pause leader", func(c *campaign) { c.pause(c.e.awaitLeader()) }},
	{"pause follower", func(c *campaign) { c.pause(c.pick(c.e.followers())) }},
	{"pause all", func(c *campaign) {
		for _, s := range c.e.servers {
			s.Pause()
		}
		c.wait(c.between(100*time.Millisecond, 3*time.Second))
		for _, s := range shuffle(c.rng, c.e.servers) {
			s.Resume()
		}
	}},
	{"hold leader", func(c *campaign) { c.partition(c.e.awaitLeader(), c.e.net.hold) }},
	{"hold follower", func(c *campaign) { c.partition(c.pick(c.e.followers()), c.e.net.hold) }},
	{"cut leader", func(c *campaign) { c.partition(c.e.awaitLeader(), c.e.net.cut) }},
	{"cut follower", func(c *campaign) { c.partition(c.pick(c.e.followers()), c.e.net.cut) }},
	{"nothing from leader", func(c *campaign) {
		leader := c.e.awaitLeader()
		c.partition(leader, func(a, b int) { c.e.net.set(a, b, weather{held: true}) })
	}},
	{"nothing to leader", func(c *campaign) {
		leader := c.e.awaitLeader()
		c.partition(leader, func(a, b int) { c.e.net.set(b, a, weather{held: true}) })
	}},
	{"bridge", bridge},
	{"reset links", func(c *campaign) {
		for range 1 + c.rng.IntN(10) {
			a, b := c.pick(c.e.servers), c.pick(c.e.servers)
			if a != b {
				c.e.net.reset(a.id, b.id)
			}
			c.wait(c.between(0, 200*time.Millisecond))
		}
	}},
	{"slow links", func(c *campaign) {
		delay := c.between(5*time.Millisecond, 80*time.Millisecond)
		for _, f := range c.e.net.flows {
			f.set(weather{delay: delay + c.between(0, 10*time.Millisecond)})
		}
		c.wait(c.between(time.Second, 3*time.Second))
	}},
	{"narrow link", func(c *campaign) {
		s := c.pick(c.e.servers)
		c.e.isolate(s, func(a, b int) { c.e.net.set(b, a, weather{rate: 20_000}) })
		c.wait(c.between(time.Second, 3*time.Second))
	}},
	{"flapping links", func(c *campaign) {
		for range 5 + c.rng.IntN(10) {
			for _, f := range c.e.net.flows {
				f.set(weather{held: c.rng.IntN(3) == 0})
			}
			c.wait(c.between(20*time.Millisecond, 600*time.Millisecond))
		}
	}},
	{"cold start, one missing", func(c *campaign) {
		killEach(c)
		missing := c.pick(c.e.voters())
		for _, s := range shuffle(c.rng, c.e.servers) {
			if s != missing {
				s.start()
				c.wait(c.between(0, 500*time.Millisecond))
			}
		}
		c.awaitWrite()
		missing.start()
	}},
	{"wipe follower", func(c *campaign) { c.wipe(c.pick(c.e.followers())) }},
	{"wipe leader", func(c *campaign) { c.wipe(c.e.awaitLeader()) }},
}

// ownFaults are those that Apache's servers do not survive, and are not made to.
var ownFaults = []fault{
	{"flip bits", func(c *campaign) { c.flip(c.pick(c.e.voters())) }},
	{"old copy", oldCopy},
}

// everyFault returns those that the target takes.
func everyFault() []fault {
	if apache() {
		return slices.Clone(faults)
	}
	return slices.Concat(faults, ownFaults, storms)
}

func shuffle(rng *rand.Rand, list []*server) []*server {
	list = slices.Clone(list)
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// restart kills a server and starts it some time later.
func (c *campaign) restart(s *server) {
	s.Kill()
	c.wait(c.between(10*time.Millisecond, time.Second))
	if c.rng.IntN(2) == 0 {
		c.awaitWrite()
	}
	s.start()
}

// terminate stops a server in an orderly way and starts it again.
func (c *campaign) terminate(s *server) {
	s.Stop()
	c.wait(c.between(0, 500*time.Millisecond))
	s.start()
}

func (c *campaign) pause(s *server) {
	s.Pause()
	c.wait(c.between(100*time.Millisecond, 4*time.Second))
	s.Resume()
	c.wait(c.between(0, 500*time.Millisecond))
}

// partition keeps a server from the others.
func (c *campaign) partition(s *server, how func(a, b int)) {
	c.e.isolate(s, how)
	c.wait(c.between(200*time.Millisecond, 4*time.Second))
	c.e.net.heal()
	if c.rng.IntN(2) == 0 {
		c.e.isolate(s, c.e.net.reset)
	}
}

func killEach(c *campaign) {
	for _, s := range c.e.servers {
		s.Signal(9)
	}
	for _, s := range c.e.servers {
		s.Kill()
	}
}

func killAll(c *campaign) {
	killEach(c)
	for _, s := range shuffle(c.rng, c.e.servers) {
		s.start()
		c.wait(c.between(0, 100*time.Millisecond))
	}
}

// bridge cuts the servers into two halves that only one server sees both of. With
// three servers that is one link.
func bridge(c *campaign) {
	list := shuffle(c.rng, c.e.voters())
	half := (len(list) - 1) / 2
	for _, a := range list[1 : 1+half] {
		for _, b := range list[1+half:] {
			c.e.net.cut(a.id, b.id)
		}
	}
	c.wait(c.between(time.Second, 4*time.Second))
}
