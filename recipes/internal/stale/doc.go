// Package stale has tests only: what recipes promise holds also for a program whose
// server lags behind, and so answers reads out of the past. In each, somebody at the
// leader has done something of which the program's server does not know when the
// program begins.
package stale
