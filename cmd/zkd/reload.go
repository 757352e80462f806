package main

import (
	"errors"
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkd-project/zkd/server"
	"github.com/zkd-project/zkd/server/config"
)

// reloader takes over changes of the configuration while the server runs. Only the
// goroutine that handles signals uses it.
type reloader struct {
	log     *zap.Logger
	level   zap.AtomicLevel
	started *config.Config // with which the server was started
	last    *config.Config // whose changes were taken over last
	load    func() (*config.Config, []config.Warning, error)
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
	if level, err := zapcore.ParseLevel(cfg.LogLevel); err == nil { // the table of keys has checked it
		r.level.SetLevel(level)
	}
	r.server.Reload(cfg)
	for _, c := range r.last.Differences(cfg) {
		if c.Live {
			taken++
			r.log.Info("SIGHUP: changed", zap.String("key", c.Key), zap.String("from", c.Before), zap.String("to", c.After))
		}
	}
	for _, c := range r.started.Differences(cfg) {
		if !c.Live {
			waiting++
			r.log.Warn("SIGHUP: needs a restart", zap.String("key", c.Key), zap.String("from", c.Before), zap.String("to", c.After))
		}
	}
	r.last = cfg
	r.log.Info("SIGHUP: the configuration was read again", zap.Int("changed", taken), zap.Int("need_restart", waiting))
}
