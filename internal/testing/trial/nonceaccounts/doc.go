// Package nonceaccounts plays everything that moves money on a chain without account nonces: surfpool, a
// real Solana node, where transactions use nonce accounts that the service creates for itself. A
// service that dies is played by ports that answer no more.
//
// No test creates a nonce account for the service. A crash leaves a database server and a node that
// end with the test.
package nonceaccounts
