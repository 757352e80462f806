//go:build compat

package compat

// poisonScenarios are requests that a server accepted once and that killed it or
// left clients hanging. Each has servers of its own.
func poisonScenarios() []scenario {
	attack := func(reqs ...request) func(w *world) {
		return func(w *world) {
			w.patience = silence
			c := w.connect("A")
			c.do(create("/victim", "", 0), createContainer("/box"))
			for _, r := range reqs {
				c.do(r)
				if !c.gone {
					continue
				}
				if w.srv.dying() {
					w.logf("the server is dead")
					return
				}
				c = w.connect("A")
			}
			w.connect("B").do(exists("/victim"), exists("/box"))
		}
	}
	return []scenario{
		{name: "poison: check alone", own: &config{}, run: attack(check("/victim", -1))},
		{name: "poison: check alone that fails", own: &config{}, run: attack(check("/victim", 99), check("/none", -1))},
		{name: "poison: createSession as a request", own: &config{}, run: attack(raw(opCreateSession, "", enc(nil).i32(10000)))},
		{name: "poison: deleteContainer as a request", own: &config{}, run: attack(
			raw(opDeleteContainer, "raw path", []byte("/box")), raw(opDeleteContainer, "record", enc(nil).buf([]byte("/box"))),
			raw(opDeleteContainer, "a plain node", []byte("/victim")), raw(opDeleteContainer, "empty", nil))},
		{name: "poison: deleteContainer in a multi", own: &config{}, run: attack(multi(raw(opDeleteContainer, "", []byte("/box"))), multi(raw(opDeleteContainer, "", enc(nil).buf([]byte("/box")))))},
		{name: "poison: createTTL with a negative ttl", own: &config{}, run: attack(createTTL("/poison", 0, -1), createTTL("/poison1", 1, -5))},
		{name: "poison: createTTL in a multi", own: &config{}, run: attack(multi(createTTL("/poison", 0, -1)))},
		{name: "poison: container flags", own: &config{}, run: attack(createACL(opCreateContainer, "/c0", nil, openACL, 0), createACL(opCreateContainer, "/c1", nil, openACL, 1), create("/c4", "", 4))},
		{name: "poison: setData of quota stats", own: &config{}, run: attack(create("/zookeeper/quota/victim", "", 0),
			create("/zookeeper/quota/victim/zookeeper_limits", "count=x,bytes=", 0), create("/zookeeper/quota/victim/zookeeper_stats", "\xff\xfe=,;=", 0),
			set("/victim", "x"), create("/victim/x", "", 0), setData("/zookeeper/quota/victim/zookeeper_stats", nil, -1), set("/victim", "xy"),
			setData("/zookeeper/quota/victim/zookeeper_limits", nil, -1), set("/victim", "xyz"), create("/victim/y", "", 0), get("/zookeeper/quota/victim/zookeeper_stats"))},
		{name: "poison: error and close inside a multi", own: &config{}, run: attack(multi(raw(-1, "", enc(nil).i32(-5))), multi(closeSession()), multi(raw(opCreateSession, "", enc(nil).i32(1000))))},
	}
}
