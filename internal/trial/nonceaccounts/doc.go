// Package nonceaccounts plays everything that moves money on a chain that numbers nothing:
// surfpool, a real Solana, where transactions are sent in places that the service makes
// for itself. The services that die are played by ports that answer no more.
//
// What never happens here: a place that the test makes for the service. What a crash
// leaves: a database server and a node that end with the test.
package nonceaccounts
