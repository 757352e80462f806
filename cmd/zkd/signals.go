package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"sync"
	"syscall"

	"go.uber.org/zap"
)

// signals handles the signals that do not end the server.
//
//	SIGHUP   reads the configuration again
//	SIGQUIT  writes the stacks of all goroutines, as in a JVM
//	SIGUSR1  hands the lead over
//	SIGUSR2  does nothing
//
// Go's default for all of them is to end the process.
type signals struct {
	log    *zap.Logger
	stderr io.Writer
	come   chan os.Signal
	done   chan struct{}
	wg     sync.WaitGroup

	mu struct {
		sync.Mutex
		reload   func()
		handOver func() bool
	}
}

// handleSignals begins to handle them. stop restores Go's defaults.
func handleSignals(log *zap.Logger, stderr io.Writer) *signals {
	s := &signals{log: log, stderr: stderr, come: make(chan os.Signal, 1), done: make(chan struct{})}
	signal.Notify(s.come, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	s.wg.Go(func() {
		for {
			select {
			case sig := <-s.come:
				s.handle(sig)
			case <-s.done:
				return
			}
		}
	})
	return s
}

// serve sets what SIGHUP and SIGUSR1 do, once the server has started.
func (s *signals) serve(reload func(), handOver func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.reload, s.mu.handOver = reload, handOver
}

func (s *signals) stop() {
	signal.Stop(s.come)
	close(s.done)
	s.wg.Wait()
}

func (s *signals) handle(sig os.Signal) {
	s.mu.Lock()
	reload, handOver := s.mu.reload, s.mu.handOver
	s.mu.Unlock()
	switch {
	case sig == syscall.SIGQUIT:
		dumpStacks(s.log, s.stderr)
	case sig == syscall.SIGUSR2:
		s.log.Info("SIGUSR2 does nothing: SIGHUP reads the configuration again")
	case reload == nil:
		s.log.Warn("the server is still starting: send the signal again", zap.Stringer("signal", sig))
	case sig == syscall.SIGHUP:
		reload()
	case handOver():
		s.log.Info("SIGUSR1: the lead is handed over")
	default:
		s.log.Warn("SIGUSR1: nothing to hand over: this server does not lead, or no other server can")
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

// untilHangup returns a context that also ends at SIGHUP, for commands that have nothing to
// read again: the terminal was closed. nohup keeps the signal away.
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}
