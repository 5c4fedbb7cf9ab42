// Package utxo tries the service on a chain where accounts are coins: payments that want
// the same coins at once, change that is not final, blocks that go away, coins that
// somebody else spends. The chain is simulated, so that its worst days can be had.
//
// What never happens here: a signature. What a crash leaves: nothing, the tests own it.
package utxo
