// Package swaps plays the stories of swaps on the simulated chain: everything from the request to the last
// refund, with a provider that does what a test says and signs its quotes as the real one. After each step it
// compares the books, the events and the states. It also attacks the rows of swaps with the roles of the
// program, and completes older databases from the signer's journal.
//
// It has tests only. They start their own database and leave nothing behind.
package swaps
