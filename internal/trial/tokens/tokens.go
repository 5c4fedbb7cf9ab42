// Package tokens is the trial of tokens and transactions that misbehave: real
// contracts on a local Ethereum chain that lie, take a fee, rebase, pause, block
// addresses and change behind their proxy, and everything of the service that
// reads or pays on a chain, as it is shipped.
//
// Only its tests have code. What never happens here: a stand-in for the chain, the
// signer or the database. What a crash leaves: nothing, the chain and the database
// end with their test.
package tokens
