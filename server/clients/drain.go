package clients

import (
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// drain ends a share of the other connections, so that their clients go to other servers. It
// answers with their number. Those may ask for it who may change the members.
func (r *read) drain() error {
	var req jute.DrainRequest
	d := r.body()
	req.Decode(&d)
	switch {
	case d.Err() != nil:
		return jute.ErrMarshalling
	case req.Percent < 1 || req.Percent > 100:
		return jute.ErrBadArguments
	}
	config, _ := r.state.Tree.Get(datatree.ConfigPath)
	if err := r.allowed(config.ACL, jute.PermWrite); err != nil {
		return err
	}
	ended := r.Clients.drain(int(req.Percent), r.c)
	r.log.Info("ends connections, as a client has asked", zap.Int("connections", ended), zap.Stringer("remote", r.c.nc.RemoteAddr()))
	r.end(jute.AppendInt32(r.begin(), int32(ended)))
	return nil
}

// drain ends percent of the connections, and at least one of several, but not one of them. It
// returns how many.
func (s *Clients) drain(percent int, but *conn) (ended int) {
	list := s.conns.All()
	most := ((len(list)-1)*percent + 99) / 100
	for _, c := range list {
		if c != but && ended < most {
			c.drain()
			ended++
		}
	}
	return ended
}
