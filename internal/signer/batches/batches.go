// Package batches says which payments share a transaction on an EVM chain, where a contract makes several payments, and
// on Solana.
//
// There a token or a payee can make the transaction of all of them fail. So a customer's payment is always alone, and
// those that share one are rows of one batch, as people approved it. The package knows no key and no journal.
package batches

import (
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/signer"
)

// CheckMember refuses an intent that shares a transaction with a lead, unless both are rows of one batch under one
// content hash. The lead passes as its own member. Outputs of Bitcoin cannot fail each other, so there any intents
// pass. On Solana what comes back to the treasury passes, as a sweep does. Rules BP-23 and BP-43.
func CheckMember(lead, member signer.Intent) *signer.Refusal {
	family := lead.Chain.Family()
	switch {
	case member.ID == lead.ID || family == chain.BitcoinFamily:
		return nil
	case family == chain.SolanaFamily && !lead.LeavesInstallation() && !member.LeavesInstallation():
		return nil
	}
	if member.Batch == nil || lead.Batch == nil || member.Batch.BatchID != lead.Batch.BatchID ||
		member.Batch.ContentHash != lead.Batch.ContentHash {
		return signer.Refuse(signer.RefusedIntent,
			"intents %s and %s cannot share a transaction on %s: they are not rows of one approved batch", lead.ID,
			member.ID, lead.Chain)
	}
	return nil
}
