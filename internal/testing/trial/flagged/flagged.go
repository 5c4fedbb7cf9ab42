// Package flagged is the trial of flagged deposits: real contracts on a local Ethereum chain, all
// shipped code of the service that reads or pays there, and a risk provider whose verdicts a test
// sets.
//
// Only its tests have code. After every step they check the books against themselves and against
// the chain. The oracle reads with its own code what each address has and what has left it. No
// chain, signer or database is simulated. A crash leaves nothing: the chain and the database end
// with their test.
package flagged
