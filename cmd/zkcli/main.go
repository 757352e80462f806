// Certificates of old authorities have negative serial numbers; Java accepts them.
//
//go:debug x509negativeserial=1

// Command zkcli is a shell for ZooKeeper servers, interactive and for scripts.
//
//	zkcli -server HOST:PORT             interactive
//	zkcli -server HOST:PORT ls /        one command
//	zkcli -server HOST:PORT < FILE      the commands of a file
//
// See docs/zkcli.md.
package main

import (
	"context"
	"os"

	"github.com/zkd-project/zkd/cmd/zkcli/command"
	"github.com/zkd-project/zkd/internal/stdio"
)

func main() {
	stdio.Survive() // without a reader it closes its session, and gives up what it holds
	os.Exit(command.Main(context.Background(), os.Args[1:], command.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
	}))
}
