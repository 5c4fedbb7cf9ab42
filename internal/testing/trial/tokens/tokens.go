// Package tokens is the trial of tokens and transactions that misbehave: real contracts on a local
// Ethereum chain that give false answers, take a fee, rebase, pause, block addresses and change
// behind their proxy. All code of the service that reads or pays on a chain runs as shipped.
//
// Only its tests have code. No chain, signer or database is simulated. A crash leaves nothing: the
// chain and the database end with their test.
package tokens
