// Package syntax refuses requests to the signer that are malformed in themselves. It reads no policy,
// no journal and no key, and a request that passes is not allowed by that.
package syntax

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/txcodec"
)

const (
	wordBytesMax    = 128      // an id or a subject
	payloadBytesMax = 24 << 10 // an unsigned transaction
	txMembersMax    = 255      // other intents that one transaction pays
	quoteBytesMax   = 64 << 10 // what a swap provider signed
	reasonBytesMax  = 500      // why a person did something at the signer's host
	// referenceBytesMax bounds the reference of a redirect and the label of an address, of at most 500 characters.
	referenceBytesMax = 2000
)

// IsWord reports whether a text survives a round trip through the journal and PostgreSQL
// unchanged, and is not too long.
func IsWord(s string) bool {
	return s != "" && len(s) <= wordBytesMax && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

// CheckWallet checks the reference to a wallet.
func CheckWallet(w signer.WalletRef) *signer.Refusal {
	switch {
	case txcodec.Find(w.Family) == nil:
		return signer.Refuse(signer.RefusedNotConfigured, "this signer has no keys for family %q", w.Family)
	case !IsWord(w.OrgID) || w.OrgID == signer.Operators:
		return malformed("orgId: give 1 to %d bytes of UTF-8 without NUL, and not %s", wordBytesMax, signer.Operators)
	case !IsWord(w.Purpose):
		return malformed("purpose: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case w.Purpose == signer.ChangePurpose && w.Family != chain.BitcoinFamily:
		return malformed("purpose: family %s has no change outputs, so no change wallets",
			w.Family)
	case w.Purpose == signer.TreasuryPurpose && w.Subject != "":
		return malformed("subject: a treasury has none")
	case w.Form != chain.Usual && (w.Family != chain.BitcoinFamily || w.Form != chain.Taproot):
		return malformed("form: family %s has no addresses of form %q", w.Family, w.Form)
	case w.Form != chain.Usual && (w.Purpose == signer.TreasuryPurpose || w.Purpose == signer.ChangePurpose):
		return malformed("form: a wallet for %s has none", w.Purpose)
	case w.Purpose != signer.TreasuryPurpose && !IsWord(w.Subject):
		return malformed("subject: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	}
	return nil
}

// knownPurposes returns the purposes that this signer accepts.
func knownPurposes() (purposes []signer.Purpose) {
	for _, kind := range signer.Kinds() {
		purposes = append(purposes, kind.Purpose)
	}
	return purposes
}

// CheckIntent checks the fields of an intent. The balance of its wallet is no part of that, because
// the journal and its copies do not contain it.
func CheckIntent(intent signer.Intent) *signer.Refusal {
	if refusal := CheckWallet(intent.From); refusal != nil {
		refusal.Message = "from." + refusal.Message
		return refusal
	}
	if intent.ToWallet != nil {
		if refusal := CheckWallet(*intent.ToWallet); refusal != nil {
			refusal.Message = "toWallet." + refusal.Message
			return refusal
		}
	}
	if intent.Payer != nil {
		if refusal := CheckWallet(*intent.Payer); refusal != nil {
			refusal.Message = "payer." + refusal.Message
			return refusal
		}
	}
	kind, isCanonical := intent.Kind(), txcodec.Find(intent.From.Family).IsCanonical
	isShort := func(s string) bool { return s == "" || IsWord(s) }
	switch {
	case !IsWord(intent.ID):
		return malformed("id: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case kind.Purpose == "":
		return malformed("purpose: got %q, want one of %s", intent.Purpose, knownPurposes())
	case intent.PaysNothing() && (!intent.Amount.IsZero() || intent.CustomerID != "" ||
		intent.IdempotencyKeyHash != "" || !intent.FeeDeducted.IsZero()):
		return malformed("amount: a %s pays no amount", intent.Purpose)
	case intent.WalletBalance != nil && !kind.NeedsBalance:
		return malformed("holds: a %s has none", intent.Purpose)
	case intent.Chain.Family() != intent.From.Family:
		return malformed("chain: %q is not of family %s", intent.Chain, intent.From.Family)
	case !isCanonical(intent.To):
		return malformed("to: %q is not an address in its canonical form", intent.To)
	case intent.Contract != "" && !isCanonical(intent.Contract):
		return malformed("contract: %q is not an address in its canonical form", intent.Contract)
	case intent.Contract != "" && intent.Chain.Family() == chain.BitcoinFamily:
		return malformed("contract: there are no tokens on %s", intent.Chain)
	case intent.Contract == intent.To:
		return signer.Refuse(signer.RefusedDestination, "to: %s is the token's own contract", intent.To)
	case intent.Amount.IsZero() && !intent.PaysNothing():
		return malformed("amount: an amount of zero cannot be paid")
	case intent.WhitelistedID != "" && !intent.PaysOwnMoney():
		return malformed("whitelistedId: only a payment of an organization has one")
	case intent.Refund != nil && (kind.Purpose != signer.Payment || intent.CustomerID != "" ||
		intent.Product != "CHECKOUT" || intent.SwapPayout() != nil):
		return malformed("refund: only a payment of CHECKOUT has one, of no customer and of no swap")
	case intent.Refund != nil && (!IsWord(intent.Refund.RefundID) || !IsWord(intent.Refund.CheckoutID)):
		return malformed("refund.refundId, refund.checkoutId: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case intent.Batch != nil && (kind.Purpose != signer.Payment || intent.CustomerID != "" || intent.Refund != nil ||
		intent.Product != signer.BatchProduct || intent.SwapPayout() != nil):
		return malformed("batch: only a payment of %s has one, of no customer, no refund and no swap",
			signer.BatchProduct)
	case intent.Batch != nil && (!IsWord(intent.Batch.BatchID) || !intent.Batch.IsWellFormed()):
		return malformed("batch.batchId, batch.row: give 1 to %d bytes of UTF-8 without NUL, and a row of at most %d",
			wordBytesMax, contenthash.RowsMax)
	case intent.Product != "" && intent.WhitelistedID == "" && intent.Refund == nil && intent.Batch == nil &&
		kind.Payee != signer.ToProvider:
		return malformed("product: only a payment of an organization has one")
	case !isShort(intent.WhitelistedID) || !isShort(intent.Product):
		return malformed("whitelistedId, product: give at most %d bytes of UTF-8 without NUL",
			wordBytesMax)
	case !isShort(intent.CustomerID) || !isShort(intent.IdempotencyKeyHash):
		return malformed(
			"customerId, idempotencyKeyHash: give at most %d bytes of UTF-8 without NUL", wordBytesMax)
	case checkLists(intent) != nil:
		return checkLists(intent)
	case intent.Redirect() != nil && (kind.Purpose != signer.Return || !IsWord(intent.Redirect().DepositID) ||
		!isShort(intent.Redirect().Reason) || len(intent.Redirect().Reference) > referenceBytesMax):
		return malformed("grant.redirect: only a %s has one, with the id of a deposit", signer.Return)
	case intent.SwapPayout() != nil && checkPayout(intent) != nil:
		return checkPayout(intent)
	case (intent.Swap != nil) != (kind.Payee == signer.ToProvider):
		return malformed("swap: only a %s has one, and always", signer.SwapPayment)
	case intent.Swap != nil && (intent.CustomerID == "") == (intent.Product == ""):
		return malformed("customerId, product: a %s is of one of them", signer.SwapPayment)
	case intent.Swap != nil:
		return checkSwapTerms(*intent.Swap)
	}
	return nil
}

// checkPayout checks what people approved of an organization's swap. Its address is one of the chain that the
// output is on.
func checkPayout(intent signer.Intent) *signer.Refusal {
	payout, name := *intent.SwapPayout(), intent.Chain
	if intent.Swap != nil {
		name = intent.Swap.ToChain
	}
	end, err := time.Parse(time.RFC3339Nano, payout.NotAfter)
	codec := txcodec.Find(name.Family())
	switch {
	case !IsWord(payout.OrgID) || !IsWord(payout.SwapID) || !IsWord(payout.Product) || !IsWord(payout.WhitelistedID):
		return malformed("grant.swapPayout: orgId, swapId, product, whitelistedId: give 1 to %d bytes of UTF-8 "+
			"without NUL", wordBytesMax)
	case codec == nil || !codec.IsCanonical(payout.To):
		return malformed("grant.swapPayout.to: %.80q is not an address of %s in its canonical form", payout.To, name)
	case err != nil || signer.FormatMicros(end) != payout.NotAfter:
		return malformed("grant.swapPayout.notAfter: give a time of RFC 3339 in UTC, to the microsecond")
	}
	return nil
}

// checkSwapTerms checks what a payment to a swap provider buys. It does not read the quote.
func checkSwapTerms(terms signer.SwapTerms) *signer.Refusal {
	if refusal := CheckWallet(terms.Delivery); refusal != nil {
		refusal.Message = "swap.delivery." + refusal.Message
		return refusal
	}
	if refusal := CheckWallet(terms.Refund); refusal != nil {
		refusal.Message = "swap.refund." + refusal.Message
		return refusal
	}
	payBy, err := time.Parse(time.RFC3339Nano, terms.PayBy)
	codec := txcodec.Find(terms.ToChain.Family())
	switch {
	case !IsWord(terms.Provider) || !IsWord(string(terms.Scheme)):
		return malformed("swap.provider, swap.scheme: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case len(terms.SignedQuote) == 0 || len(terms.SignedQuote) > quoteBytesMax:
		return malformed("swap.signedQuote: give 1 to %d bytes", quoteBytesMax)
	case codec == nil:
		return signer.Refuse(signer.RefusedNotConfigured, "swap.toChain: this signer has no keys for %.80q",
			terms.ToChain)
	case terms.ToContract != "" && !codec.IsCanonical(terms.ToContract):
		return malformed("swap.toContract: %.80q is not an address in its canonical form", terms.ToContract)
	case terms.ToContract != "" && terms.ToChain.Family() == chain.BitcoinFamily:
		return malformed("swap.toContract: there are no tokens on %s", terms.ToChain)
	case err != nil || signer.FormatMicros(payBy) != terms.PayBy:
		return malformed("swap.payBy: give a time of RFC 3339 in UTC, to the microsecond")
	}
	return nil
}

// CheckSignRequest checks a request to sign. Sign decodes the payload.
func CheckSignRequest(r signer.SignRequest) *signer.Refusal {
	switch {
	case !IsWord(r.IntentID):
		return malformed("intentId: give 1 to %d bytes of UTF-8 without NUL",
			wordBytesMax)
	case r.Act != signer.Pay && r.Act != signer.Cancel:
		return malformed("act: got %q, want %s or %s", r.Act, signer.Pay,
			signer.Cancel)
	case len(r.TxMemberIDs) > txMembersMax || slices.ContainsFunc(r.TxMemberIDs, func(id string) bool {
		return !IsWord(id)
	}):
		return malformed(
			"with: give at most %d intents, each in 1 to %d bytes of UTF-8 without NUL", txMembersMax, wordBytesMax)
	case len(r.Payload) == 0 || len(r.Payload) > payloadBytesMax:
		return malformed("payload: give 1 to %d bytes", payloadBytesMax)
	case r.Proof != "" && !IsWord(r.Proof):
		return malformed("proof: give at most %d bytes of UTF-8 without NUL",
			wordBytesMax)
	}
	return nil
}

// CheckEndorsement checks an endorsement, and returns its NotBefore.
func CheckEndorsement(e signer.Endorsement) (notBefore time.Time, refusal *signer.Refusal) {
	hash, err := hex.DecodeString(e.LabelHash)
	notBefore, timeErr := time.Parse(time.RFC3339Nano, e.NotBefore)
	switch {
	case !IsWord(e.OrgID) || !IsWord(e.ID) || e.OrgID == signer.Operators:
		refusal = malformed("orgId, id: give 1 to %d bytes of UTF-8 without NUL, and no organization %s", wordBytesMax,
			signer.Operators)
	case len(e.Label) > referenceBytesMax || len(e.SignedBy) > signaturesMax:
		refusal = malformed("label, signedBy: give at most %d bytes and %d signatures", referenceBytesMax,
			signaturesMax)
	case txcodec.Find(e.Chain.Family()) == nil:
		refusal = malformed("chain: this signer has no keys for %.80q", e.Chain)
	case !txcodec.Find(e.Chain.Family()).IsCanonical(e.Address):
		refusal = malformed("address: %.80q is not an address in its canonical form", e.Address)
	case err != nil || len(hash) != 32 || hex.EncodeToString(hash) != e.LabelHash:
		refusal = malformed("labelHash: give hex SHA-256")
	case timeErr != nil || signer.FormatMicros(notBefore) != e.NotBefore:
		refusal = malformed("notBefore: give a time of RFC 3339 in UTC, to the microsecond")
	}
	return notBefore, refusal
}

// CheckIDs checks the ids that a revocation or a void has.
func CheckIDs(orgID, id string) *signer.Refusal {
	if !IsWord(orgID) || !IsWord(id) {
		return malformed("orgId, id: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	}
	return nil
}

// CheckAuditHead checks the head of an audit log.
func CheckAuditHead(m signer.AuditHead) *signer.Refusal {
	sum, err := hex.DecodeString(m.Hash)
	switch {
	case !IsWord(m.Chain):
		return malformed("chain: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case err != nil || len(sum) != 32 || hex.EncodeToString(sum) != m.Hash:
		return malformed("hash: give 64 hexadecimal digits, in lower case")
	case m.Position > 1<<62:
		return malformed("position: is larger than any possible position")
	}
	return nil
}

// CheckReason checks why a person did something at the signer's host.
func CheckReason(reason string) *signer.Refusal {
	if reason == "" || len(reason) > reasonBytesMax || !utf8.ValidString(reason) {
		return malformed("because: give a reason of 1 to %d bytes of UTF-8", reasonBytesMax)
	}
	return nil
}

func malformed(format string, args ...any) *signer.Refusal {
	return signer.Refuse(signer.RefusedMalformed, format, args...)
}
