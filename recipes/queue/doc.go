// Package queue hands work over.
package queue
