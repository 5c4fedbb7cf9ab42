// Package changewallet numbers the wallets that receive the change of an organization's transactions:
// see docs/design/bitcoin.md#change-wallets. A number is never passed over, so a recovery from the
// seed alone finds all of them.
package changewallet

import (
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/signer"
)

// aheadMax is how many change wallets may exist past the last one that is in a slot. A recovery
// from the seed alone searches a thousand past the last that the chain has seen; it would miss
// funds further on.
const aheadMax = 500

// Counts holds the counts of each owner of a series of change wallets.
type Counts map[owner]count

type owner struct {
	org    string
	family chain.Family
}

// count holds the last number that was issued and the last that is in a slot.
type count struct{ lastIssued, lastUsed uint64 }

// number returns the number of a change wallet. It returns 0 if there is none, as in a journal from
// before they were numbered.
func number(w signer.WalletRef) uint64 {
	n, err := strconv.ParseUint(w.Subject, 10, 63)
	if w.Purpose != signer.ChangePurpose || err != nil || strconv.FormatUint(n, 10) != w.Subject {
		return 0
	}
	return n
}

// CountIssued counts a wallet that was issued, if it is a change wallet.
func (c Counts) CountIssued(w signer.WalletRef) {
	if n := number(w); n > 0 {
		counted := c[owner{w.OrgID, w.Family}]
		counted.lastIssued = max(counted.lastIssued, n)
		c[owner{w.OrgID, w.Family}] = counted
	}
}

// CountUsed counts a change wallet that is in a slot.
func (c Counts) CountUsed(w signer.WalletRef) {
	if n := number(w); n > 0 {
		counted := c[owner{w.OrgID, w.Family}]
		counted.lastUsed = max(counted.lastUsed, n)
		c[owner{w.OrgID, w.Family}] = counted
	}
}

// CheckNext refuses a change wallet that is not the next one of its organization, or that is too far
// past those in use: a recovery from the seed alone would not find its funds. Rule COIN-9.
func (c Counts) CheckNext(w signer.WalletRef) *signer.Refusal {
	if w.Purpose != signer.ChangePurpose {
		return nil
	}
	counted, n := c[owner{w.OrgID, w.Family}], number(w)
	switch {
	case n != counted.lastIssued+1:
		return signer.Refuse(signer.RefusedWallet, "change wallets are numbered, and the next one of %s is %d, not %q",
			w.OrgID, counted.lastIssued+1, w.Subject)
	case n > counted.lastUsed+aheadMax:
		return signer.Refuse(signer.RefusedWallet, "%s has %d change wallets that no signed slot uses: use them first",
			w.OrgID, aheadMax)
	}
	return nil
}
