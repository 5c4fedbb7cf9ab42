// Package solanatx reads and writes what Solana is to us without a network:
// addresses, token accounts and nonce accounts, which follow from a wallet.
//
// It is pure: no network, no key, no clock. Same input, same bytes, so a crash
// leaves nothing to remember.
package solanatx
