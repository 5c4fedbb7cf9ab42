//go:build !crash

// Package failpoint names the places where a crash must be survived. In a build
// with the tag "crash" the process dies at the place that the variable
// COFFER_CRASH_AT names, or does there what a file in the folder of
// COFFER_CRASH_DIR asks for; in every other build a point is nothing and costs
// nothing. The names are those of the order of durable writes: W for
// withdrawals, A for approvals, D for deposits, F for flagged ones, S for sweeps, T for transfers, V for voids of
// payments that people take back, K for webhooks, O for operations. internal/trial/crashes plays all of them.
package failpoint

// Hit is a place between two durable steps.
func Hit(string) {}

// HitBeforeCommit is a place just before the commit that the point of that name
// comes after.
func HitBeforeCommit(string) {}
