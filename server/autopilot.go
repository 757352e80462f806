package server

import (
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/server/audit"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// textOf is replica.Autopilot.Text: the lines of the list that decides now, with the roles of
// another one of the same servers.
func textOf(cfg *config.Config, list *zab.Members) ([]byte, error) {
	present, err := presentMembers(cfg, list)
	if err != nil {
		return nil, err
	}
	present.Servers = slices.Clone(present.Servers)
	for i := range present.Servers {
		one := &present.Servers[i]
		m := list.Find(zab.SIDOf(uint8(one.ID)))
		if m == nil {
			return nil, fmt.Errorf("the members have no server %d, and their text has", one.ID)
		}
		one.Observer = m.Observer
	}
	return []byte(present.Text()), nil
}

// presentMembers returns the members in the text of a list, or, if it has none, in the configuration
// file.
func presentMembers(cfg *config.Config, list *zab.Members) (config.Members, error) {
	if len(list.Text) == 0 {
		return cfg.Members, nil
	}
	return config.ParseMembers(string(list.Text))
}

// auditAutopilot makes the entry of a change of the members that this server makes for itself.
func auditAutopilot(trail *audit.Trail) {
	if log := trail.Log(); log != nil {
		log.Put(&audit.Entry{User: audit.SystemUser(), Operation: audit.Reconfig, Znode: datatree.ConfigPath})
	}
}
