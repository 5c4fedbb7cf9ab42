//go:build !crash

// Package failpoint names the failpoints: places where a crash must be survived. In a build with the
// tag "crash" the process dies at the failpoint that COFFER_CRASH_AT names, or does there what a
// file in the folder COFFER_CRASH_DIR says. In every other build a failpoint does nothing and costs
// nothing.
//
// The names follow the order of durable writes. Their first letters are W for withdrawals, A for
// approvals, D for deposits, F for flagged deposits, S for sweeps, Q for swaps, T for transfers, V for
// voids of payments that people end, B for batch payouts, E for passkeys and rules of approvers, K for webhooks, L for
// billing and O for operations.
// internal/testing/trial/crashes runs them, or says why not.
package failpoint

// Hit is a failpoint between two durable steps.
func Hit(string) {}

// HitBeforeCommit is a failpoint just before a commit; the failpoint of Hit with the same name
// follows the commit.
func HitBeforeCommit(string) {}
