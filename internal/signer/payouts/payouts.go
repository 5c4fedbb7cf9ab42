// Package payouts compares an organization's swap, and the payment of what the swap brought, with what people
// approved of both.
//
// People approve once. Their approval is worth one payment: within its bounds, to its address, until its time, and
// only if the journal has the swap with exactly that approval and a signed payment to its provider. It knows no key:
// package signer has checked the MACs of the grant before. Nothing here pays an address that is not endorsed.
package payouts

import (
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
)

// Book holds the approvals of the journal's swaps, and the payments that used them. Only the journal's entries build
// it.
type Book struct {
	swaps    map[string]approvedSwap // by id, without those that people took back
	payments map[string]string       // by the id of the swap: the id of the payment that used its approval
}

type approvedSwap struct {
	payout   signer.SwapPayout
	seq      uint64
	isSigned bool // a payment to its provider was signed: it may have brought something
}

// NewBook returns the book of an empty journal.
func NewBook() *Book {
	return &Book{swaps: map[string]approvedSwap{}, payments: map[string]string{}}
}

// Admit adds an admitted intent. An error says that the journal contradicts itself.
//
// A payment uses the approval when it is admitted, permanently. The signer sees no chain, so it cannot tell a payment
// that a cancel replaced from one that was made. Only a void proves that a payment is never signed, and with such a
// payment the swap has ended: freeing its approval would serve no one but a caller who voids payments to make others.
// What people approve by itself may still be paid.
func (b *Book) Admit(seq uint64, intent signer.Intent) error {
	payout := intent.SwapPayout()
	switch {
	case payout == nil:
		return nil
	case intent.Swap != nil:
		b.swaps[intent.ID] = approvedSwap{payout: *payout, seq: seq}
		return nil
	}
	if earlier, isUsed := b.payments[payout.SwapID]; isUsed {
		return fmt.Errorf("payment %s uses the approval of swap %s, which payment %s has used", intent.ID,
			payout.SwapID, earlier)
	}
	b.payments[payout.SwapID] = intent.ID
	return nil
}

// Sign adds a signed payment of an intent.
func (b *Book) Sign(id string) {
	if swap, isKnown := b.swaps[id]; isKnown {
		swap.isSigned = true
		b.swaps[id] = swap
	}
}

// Void forgets the approval of a swap that people took back: it is never made, so it brings nothing.
func (b *Book) Void(id string) { delete(b.swaps, id) }

// Check refuses an intent that is not what people approved of an organization's swap, that comes too late, or that pays
// what a swap brought whose payment was never signed. An intent without such an approval passes.
func (b *Book) Check(intent signer.Intent, now time.Time) *signer.Refusal {
	if refusal := b.CheckContent(intent); refusal != nil {
		return refusal
	}
	payout := intent.SwapPayout()
	switch {
	case payout == nil:
		return nil
	case intent.Swap == nil && !b.swaps[payout.SwapID].isSigned:
		return refuse(intent, "pays what swap %s brought, and no payment of that swap was signed", payout.SwapID)
	case now.After(notAfter(*payout)):
		return refuse(intent, "had to be admitted by %s: people approved nothing later", payout.NotAfter)
	}
	return nil
}

// CheckContent is Check of the content alone: a journal that continues a lost one may lack a signature.
func (b *Book) CheckContent(intent signer.Intent) *signer.Refusal {
	payout := intent.SwapPayout()
	if payout == nil {
		return nil
	}
	if payout.OrgID != intent.From.OrgID || payout.Product != intent.Product {
		return refuse(intent, "is not of the organization and the product that the approval names")
	}
	total, err := intent.Amount.Add(intent.FeeDeducted)
	switch {
	case err != nil:
		return refuse(intent, "takes more than any amount")
	case intent.Swap != nil:
		return checkSwap(intent, *payout, total)
	case intent.PaysOwnMoney():
		return b.checkPayment(intent, *payout, total)
	}
	return refuse(intent, "pays no organization's own money")
}

// checkSwap checks the payment to the provider.
func checkSwap(intent signer.Intent, payout signer.SwapPayout, total money.Amount) *signer.Refusal {
	switch {
	case intent.CustomerID != "":
		return refuse(intent, "is a customer's")
	case payout.SwapID != intent.ID:
		return refuse(intent, "comes with the approval of swap %s", payout.SwapID)
	case payout.FromMintID != intent.MintID || payout.AmountIn != total:
		return refuse(intent, "pays %v of mint %d, and people approved %v of mint %d", total, intent.MintID,
			payout.AmountIn, payout.FromMintID)
	case payout.ToMintID != intent.Swap.ToMintID || payout.MinOut != intent.Swap.MinOut:
		return refuse(intent, "buys %v of mint %d, and people approved %v of mint %d", intent.Swap.MinOut,
			intent.Swap.ToMintID, payout.MinOut, payout.ToMintID)
	case payout.MaxOut.Less(payout.MinOut):
		return refuse(intent, "has an approval of at least %v and at most %v", payout.MinOut, payout.MaxOut)
	}
	return nil
}

// checkPayment checks the payment of what a swap brought. Rule SWAP-36.
func (b *Book) checkPayment(intent signer.Intent, payout signer.SwapPayout, total money.Amount) *signer.Refusal {
	swap, isKnown := b.swaps[payout.SwapID]
	earlier, isUsed := b.payments[payout.SwapID]
	switch {
	case payout.WhitelistedID != intent.WhitelistedID || payout.To != intent.To:
		return refuse(intent, "goes to %s of entry %s, and people approved %s of entry %s", intent.To,
			intent.WhitelistedID, payout.To, payout.WhitelistedID)
	case payout.ToMintID != intent.MintID:
		return refuse(intent, "pays mint %d, and people approved mint %d", intent.MintID, payout.ToMintID)
	case total.Less(payout.MinOut) || payout.MaxOut.Less(total):
		return refuse(intent, "takes %v, and people approved at least %v and at most %v", total, payout.MinOut,
			payout.MaxOut)
	case !isKnown:
		return refuse(intent, "names swap %s, which the journal does not have or people took back", payout.SwapID)
	case swap.payout != payout:
		return refuse(intent, "comes with another approval than swap %s had in entry %d", payout.SwapID, swap.seq)
	case isUsed:
		return refuse(intent, "would be the second payment of swap %s: payment %s was admitted for it", payout.SwapID,
			earlier)
	}
	return nil
}

// Differ reports whether a swap that is known comes with another approval than it was admitted with. A restored
// database may have none. A payment that was admitted is the same payment under whichever grant it comes again.
func Differ(existing, intent signer.Intent) bool {
	payout := intent.SwapPayout()
	return intent.Swap != nil && payout != nil && !payout.Equal(existing.SwapPayout())
}

// notAfter returns the end of an approval. Package syntax has checked its form; a text of another form is a time that
// is over.
func notAfter(payout signer.SwapPayout) time.Time {
	end, err := time.Parse(time.RFC3339Nano, payout.NotAfter)
	if err != nil {
		return time.Time{}
	}
	return end
}

func refuse(intent signer.Intent, format string, args ...any) *signer.Refusal {
	return signer.Refuse(signer.RefusedGrant, "%s %s "+format,
		append([]any{intent.Kind().Noun, intent.ID}, args...)...)
}
