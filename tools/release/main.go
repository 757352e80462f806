// Release makes the parts of a release that other tools do not make; scripts/release.sh calls it:
//
//	go -C tools run ./release notes -version v0.1.0 $PWD/CHANGELOG.md
//	go -C tools run ./release image -version v0.1.0 -commit 01ab -time 2026-01-02T03:04:05Z -dockerfile FILE -o FILE linux/amd64=ROOT
//	go -C tools run ./release client -version v0.1.0 -o DIRECTORY $PWD
//	go -C tools run ./release provenance -version v0.1.0 -commit 01ab -parameter repeat=COMMAND -sbom FILE ARTEFACT...
//
// The output depends on the arguments and files alone, so that a release can be repeated.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

const repository = "https://github.com/zkd-project/zkd"

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// source says what a release is made of.
type source struct{ version, commit, time string }

// list collects the values of a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

func run(args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errors.New("name one of notes, image, client and provenance")
	}
	fl := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	fl.SetOutput(stderr)
	var from source
	fl.StringVar(&from.version, "version", "", "version, or the commit's name where there is none")
	fl.StringVar(&from.commit, "commit", "", "commit")
	fl.StringVar(&from.time, "time", "", "time of the commit (RFC 3339)")
	switch args[0] {
	case "notes":
		if err := fl.Parse(args[1:]); err != nil {
			return err
		}
		return notesOf(fl.Arg(0), from.version, stdout, stderr)
	case "image":
		dockerfile := fl.String("dockerfile", "", "the Dockerfile whose last stage says how the image runs")
		out := fl.String("o", "", "file to write")
		if err := fl.Parse(args[1:]); err != nil {
			return err
		}
		return writeImage(*out, *dockerfile, from, fl.Args())
	case "client":
		out := fl.String("o", "", "directory to make")
		if err := fl.Parse(args[1:]); err != nil {
			return err
		}
		return writeModule(*out, fl.Arg(0), from.version)
	case "provenance":
		var parameters, sboms list
		fl.Var(&parameters, "parameter", "NAME=VALUE that a repetition needs")
		fl.Var(&sboms, "sbom", "bill of materials of programs in the release")
		files := list{}
		fl.Var(&files, "file", "file outside of the source that goes into the release")
		if err := fl.Parse(args[1:]); err != nil {
			return err
		}
		s, err := state(from, parameters, sboms, files, fl.Args())
		if err != nil {
			return err
		}
		return s.write(stdout)
	default:
		return fmt.Errorf("%s: want notes, image, client or provenance", args[0])
	}
}
