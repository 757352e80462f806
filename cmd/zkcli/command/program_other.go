//go:build !unix

package command

import (
	"os"
	"os/exec"
	"time"
)

// guardCommand is the first argument of a guard, which this system does not have.
const guardCommand = "--guard-of-a-program"

func runGuard([]string) int { return exitUsage }

// runProgram runs a program, and kills it when the command's context ends: this system has no
// signals to ask it first.
func runProgram(cmd *exec.Cmd, grace time.Duration) error {
	cmd.WaitDelay = grace
	return cmd.Run()
}

func exitCodeOf(p *os.ProcessState) int { return p.ExitCode() }
