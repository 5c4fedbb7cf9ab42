//go:build !crash

// Package crash names the places where a crash must be survived. In a build
// with the tag "crash" the process kills itself at the place that the variable
// COFFER_CRASH_AT names; in every other build Point is nothing and costs
// nothing. The names are those of the order of durable writes: W for
// withdrawals, D for deposits, S for sweeps, K for webhooks.
package crash

// Point is a place between two durable steps.
func Point(string) {}
