package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// settings say how containers of an image run, in the form of the OCI image specification.
// Healthcheck is Docker's addition; others ignore it.
type settings struct {
	User         string              `json:",omitempty"`
	ExposedPorts map[string]struct{} `json:",omitempty"`
	Env          []string            `json:",omitempty"`
	Entrypoint   []string            `json:",omitempty"`
	Cmd          []string            `json:",omitempty"`
	Volumes      map[string]struct{} `json:",omitempty"`
	WorkingDir   string              `json:",omitempty"`
	Labels       map[string]string   `json:",omitempty"`
	StopSignal   string              `json:",omitempty"`
	Healthcheck  *healthcheck        `json:",omitempty"`
}

type healthcheck struct {
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration
}

// parse reads the settings of a Dockerfile's last stage. An instruction that it does not know is an
// error, so that no image is made without it.
func parse(dockerfile string) (settings, error) {
	var s settings
	for number, line := range strings.Split(dockerfile, "\n") {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if instruction == "" || instruction[0] == '#' {
			continue
		}
		if instruction == "FROM" {
			s = settings{ExposedPorts: map[string]struct{}{}, Volumes: map[string]struct{}{}}
			continue
		}
		if err := s.set(instruction, strings.TrimSpace(rest)); err != nil {
			return s, fmt.Errorf("line %d: %s: %w", number+1, instruction, err)
		}
	}
	return s, nil
}

func (s *settings) set(instruction, rest string) (err error) {
	switch instruction {
	case "ARG", "RUN", "COPY": // they make the files, which are there already
	case "ENV":
		s.Env = append(s.Env, strings.Fields(rest)...)
	case "USER":
		s.User = rest
	case "WORKDIR":
		s.WorkingDir = rest
	case "VOLUME":
		for _, dir := range strings.Fields(rest) {
			s.Volumes[dir] = struct{}{}
		}
	case "EXPOSE":
		for _, port := range strings.Fields(rest) {
			s.ExposedPorts[port+"/tcp"] = struct{}{}
		}
	case "STOPSIGNAL":
		s.StopSignal = rest
	case "ENTRYPOINT":
		s.Entrypoint, err = words(rest)
	case "CMD":
		s.Cmd, err = words(rest)
	case "HEALTHCHECK":
		s.Healthcheck, err = parseHealthcheck(rest)
	default:
		err = errors.New("not known here: add it to tools/release/dockerfile.go")
	}
	return err
}

// words reads a command in the form of a JSON array; the other form would need a shell.
func words(rest string) (w []string, err error) {
	if err := json.Unmarshal([]byte(rest), &w); err != nil {
		return nil, fmt.Errorf(`want ["WORD", ...]: %w`, err)
	}
	return w, nil
}

func parseHealthcheck(rest string) (*healthcheck, error) {
	flags, command, ok := strings.Cut(rest, "CMD ")
	if !ok {
		return nil, errors.New("no CMD")
	}
	w, err := words(command)
	if err != nil {
		return nil, err
	}
	h := &healthcheck{Test: append([]string{"CMD"}, w...)}
	for _, f := range strings.Fields(flags) {
		name, value, _ := strings.Cut(f, "=")
		d, err := time.ParseDuration(value)
		if err != nil {
			return nil, err
		}
		switch name {
		case "--interval":
			h.Interval = d
		case "--timeout":
			h.Timeout = d
		case "--start-period":
			h.StartPeriod = d
		default:
			return nil, fmt.Errorf("%s: not known", name)
		}
	}
	return h, nil
}
