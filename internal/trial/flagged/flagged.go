// Package flagged is the trial of flagged deposits: real contracts on a local
// Ethereum chain, everything of the service that reads or pays there as it is
// shipped, and a provider of opinions that says what a test wants of an address.
//
// Only its tests have code. After every step the books are checked against
// themselves and against the chain, and the oracle says with code of its own what
// stands on each address and what has left it. What never happens here: a stand-in
// for the chain, the signer or the database. What a crash leaves: nothing, the chain
// and the database end with their test.
package flagged
