package mux

import "github.com/zkd-project/zkd/internal/mutant"

var notWoken = mutant.New("mux-not-woken") // a fault that tests plant: an awaited stream is not woken
