// Package utxo tests the service on a chain with unspent outputs: payments that want the same
// outputs at once, change that is not final, blocks that disappear, and outputs that another owner
// of the key spends. The chain is simulated, so that a test can produce its worst cases.
//
// The simulated tests sign nothing. A crash leaves nothing; the tests own everything.
package utxo
