package main

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/config"
)

// reloader takes over changes of the configuration while the server runs. Only the
// goroutine that handles signals uses it.
type reloader struct {
	log     *zap.Logger
	started *config.Config // with which the server was started
	load    func(...config.Setting) (*config.Config, []config.Warning, error)
	server  *server.Server
}

// run reads the configuration again and takes over what can change. What is wrong with it is
// in the log, and changes nothing.
func (r *reloader) run() {
	cfg, warnings, err := r.load()
	if err != nil {
		if list, ok := errors.AsType[config.Errors](err); ok {
			for _, e := range list {
				r.log.Error("SIGHUP: "+e.Error(), zap.String("key", e.Key))
			}
			err = fmt.Errorf("%d errors", len(list))
		}
		r.log.Error("SIGHUP: the configuration can't be used, and nothing was changed", zap.Error(err))
		return
	}
	for _, w := range warnings {
		r.log.Warn(w.String())
	}
	taken, waiting := 0, 0
	changes, err := r.server.Reload(cfg)
	if err != nil {
		r.log.Error("SIGHUP: the configuration can't be used, and nothing was changed", zap.Error(err))
		return
	}
	for _, c := range changes {
		taken++
		r.log.Info("SIGHUP: changed", zap.String("key", c.Key), zap.String("from", c.Before), zap.String("to", c.After))
	}
	for _, c := range r.started.Differences(cfg) {
		if !c.Live {
			waiting++
			r.log.Warn("SIGHUP: needs a restart", zap.String("key", c.Key), zap.String("from", c.Before), zap.String("to", c.After))
		}
	}
	r.log.Info("SIGHUP: the configuration was read again", zap.Int("changed", taken), zap.Int("need_restart", waiting))
}
