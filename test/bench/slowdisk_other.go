//go:build !linux

package main

import (
	"errors"
	"time"
)

const slowCommand = "with-slow-disk"

var errNoSlowDisk = errors.New("slow disk: on Linux only")

func (s *server) startOnSlowDisk(time.Duration) error { return errNoSlowDisk }

func becomeSlow([]string) error { return errNoSlowDisk }
