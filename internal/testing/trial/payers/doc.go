// Package payers plays payers in a whole local world: the service as it is shipped, a database, a signer, a local
// Ethereum, Solana and Bitcoin, and a real Chromium that stands on the page of a checkout while money moves.
//
// Only its tests have code. All payers share one world, and each has a checkout and a browser of its own. A payer reads
// amount and address from the page and nothing else, so the page itself is what is paid. At each stage the words of the
// page are those of its catalogue of texts, and the API says the same. The wallets in the browser have keys, sign, and
// send to the chains. A crash leaves nothing: the world and the browsers end with the test.
//
// The package rules out:
//   - a case in which money arrives and the page does not say what became of it
//   - a payment by a wallet of the browser that the open page does not show by itself
//   - a refund that the claim page promises and the chain does not have
package payers
