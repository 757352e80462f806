package main

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"sync"
	"syscall"

	"go.uber.org/zap"
)

// handleSignals keeps SIGHUP and SIGQUIT from ending the server, which is Go's default.
// Supervisors and log rotation send SIGHUP; SIGQUIT requests the stacks of all
// goroutines, as in a JVM. stop restores the defaults.
func handleSignals(log *zap.Logger, stderr io.Writer) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGQUIT)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGQUIT {
					dumpStacks(log, stderr)
					continue
				}
				log.Info("SIGHUP: there is nothing to reload. Keys and certificates are read again when their files change; the configuration needs a restart")
			case <-done:
				return
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
	}
}

// dumpStacks writes the stacks of all goroutines, equal ones once with their number. That
// does not stop the server, however many connections there are.
func dumpStacks(log *zap.Logger, stderr io.Writer) {
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
		log.Warn("SIGQUIT: the stacks can't be written", zap.Error(err))
		return
	}
	log.Info("SIGQUIT: the stacks of all goroutines follow")
	_, _ = stderr.Write(stacks.Bytes()) // if stderr is gone, nobody reads it
}
