package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

// wanderer is a value of asProgram, for wander.
const wanderer = "wanderer"

// wander gives the scheduler every occasion to move main to another thread, and prints
// whether it did. It is for Linux.
func wander() {
	var others sync.WaitGroup
	for range 100 {
		others.Go(func() {
			for range 1000 {
				runtime.Gosched()
			}
		})
	}
	threads := map[string]bool{}
	for range 1000 {
		runtime.Gosched()
		thread, _ := os.Readlink("/proc/thread-self")
		threads[thread] = true
	}
	others.Wait()
	pid := os.Getpid()
	fmt.Println("first thread:", len(threads) == 1 && threads[fmt.Sprintf("%d/task/%d", pid, pid)])
}
