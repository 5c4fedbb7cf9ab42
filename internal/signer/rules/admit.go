package rules

import (
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/limits"
	"github.com/cofferpay/coffer/internal/signer/ownaccounts"
	"github.com/cofferpay/coffer/internal/signer/payouts"
	"github.com/cofferpay/coffer/internal/signer/refunds"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/signer/swapterms"
	"github.com/cofferpay/coffer/internal/signer/txcodec"
)

// AdmitIntent decides whether an intent may have a slot.
func (eng *Engine) AdmitIntent(intent signer.Intent, reading Reading) (Decision, error) {
	if refusal := limits.CheckBalance(intent); refusal != nil {
		return Decision{}, refusal
	}
	intent.WalletBalance = nil // compared on every request because it changes; not recorded
	if refusal := eng.index.checkNotVoided(intent.ID); refusal != nil {
		return Decision{}, refusal
	}
	if existing := eng.index.intents[intent.ID]; existing != nil {
		if !existing.HasSameWords(swapterms.Condense(intent)) || payouts.Differ(existing.Intent, intent) {
			return Decision{}, signer.Refuse(signer.RefusedIntent,
				"intent %s was admitted with another content in entry %d", intent.ID, existing.seq)
		}
		return Decision{Seq: existing.seq}, nil
	}
	if k, ok := idempotencyKeyOf(intent); ok && eng.index.idempotencyKeys[k] != "" {
		earlier := eng.index.intents[eng.index.idempotencyKeys[k]]
		return Decision{}, signer.Refuse(signer.RefusedKey,
			"payment %s repeats the idempotency key of %s, which entry %d of the journal admitted, so it is not "+
				"paid. If the database does not have %s, it is older than the journal: stop the service, restore the "+
				"backup again and run `coffer signer import` before anything else",
			intent.ID, earlier.ID, earlier.seq, earlier.ID)
	}
	if refusal := eng.conf.Grants.CheckGrant(intent); refusal != nil {
		return Decision{}, refusal
	}
	inBatch := intent.RecordGrant()
	if refusal := eng.index.payouts.Check(intent, reading.Now); refusal != nil {
		return Decision{}, refusal
	}
	policy, err := eng.chainPolicy(intent.Chain)
	if err != nil {
		return Decision{}, err
	}
	if err := eng.checkSource(intent); err != nil {
		return Decision{}, err
	}
	if err := eng.checkDestination(intent, policy); err != nil {
		return Decision{}, err
	}
	if reading.Ahead > 0 && eng.isTimeLimited(policy, intent) {
		return Decision{}, limits.RefuseUnconfirmed(reading.Ahead)
	}
	if refusal := swapterms.CheckPayBy(intent, eng.conf.Policy.EffectiveSwaps(), reading.Now); refusal != nil {
		return Decision{}, refusal
	}
	if intent.PaysOwnMoney() && !eng.conf.Rescue {
		coolingOff := eng.conf.Policy.CoolingOff()
		refusal := eng.index.endorsed.CheckPayment(intent, eng.index.adoptedAt, coolingOff, reading.Now)
		if refusal != nil {
			return Decision{}, refusal
		}
	}
	// Without any fee allowance left, the intent would get a slot in which nothing could be signed.
	if err := eng.index.totals.CheckFee(policy, eng.index.feeAccount(intent), money.Units(1), reading.Now); err != nil {
		return Decision{}, err
	}
	if err := eng.index.totals.CheckPayment(eng.conf.Policy, intent, inBatch, reading.Now); err != nil {
		return Decision{}, err
	}
	return Decision{Record: &signer.Record{Kind: signer.RecordAdmit, Admit: &intent}}, nil
}

// checkSource checks the wallets that pay the amount and the fee. Where the chain has a separate fee
// payer, only a treasury pays fees.
func (eng *Engine) checkSource(intent signer.Intent) error {
	payer, separatePayer := intent.Payer, txcodec.Find(intent.From.Family).SeparateFeePayer()
	switch {
	case payer == nil && separatePayer && intent.From.Purpose != signer.TreasuryPurpose:
		return signer.Refuse(signer.RefusedWallet, "intent %s does not name the treasury that pays its fee", intent.ID)
	case payer == nil:
	case !separatePayer:
		return signer.Refuse(signer.RefusedWallet, "intent %s: a separate fee payer does not exist on %s", intent.ID,
			intent.Chain)
	case payer.Purpose != signer.TreasuryPurpose || payer.OrgID != intent.From.OrgID ||
		payer.Family != intent.From.Family || *payer == intent.From:
		return signer.Refuse(signer.RefusedWallet,
			"the fee payer of intent %s is not the treasury of its organization, for another wallet", intent.ID)
	case !eng.index.isIssued(*payer):
		return signer.Refuse(signer.RefusedWallet, "the fee payer of intent %s is a wallet that was never issued",
			intent.ID)
	}
	if !eng.index.isIssued(intent.From) {
		return signer.Refuse(signer.RefusedWallet, "intent %s pays from a wallet that was never issued", intent.ID)
	}
	// The index was read from a file, so the addresses are checked against the keys.
	if _, err := eng.walletKeys([]*intentState{{Intent: intent}}); err != nil {
		return err
	}
	if intent.To == eng.index.wallets[intent.From].address {
		return signer.Refuse(signer.RefusedDestination, "intent %s pays its own wallet", intent.ID)
	}
	return nil
}

// checkDestination checks the payer and the payee by the rules of the intent's kind.
func (eng *Engine) checkDestination(intent signer.Intent, policy signpolicy.Chain) error {
	kind, toWallet := intent.Kind(), intent.ToWallet
	allowed := kind.Source.Includes(intent.From)
	notAllowed := func(code string) error {
		return signer.Refuse(code, kind.WalletRule, intent.ID, intent.From.Purpose)
	}
	refuse := func(code, format string, args ...any) error {
		return signer.Refuse(code, "%s %s "+format, append([]any{kind.Noun, intent.ID}, args...)...)
	}
	switch kind.Payee {
	case signer.ToNonceAccount:
		return ownaccounts.CheckNonceAccount(intent, eng.index.wallets[intent.From].address, policy)
	case signer.ToPayouts:
		return ownaccounts.CheckAllowance(intent, policy)
	case signer.ToAnyone, signer.ToProvider:
		switch {
		case !allowed:
			return notAllowed(signer.RefusedWallet)
		case toWallet != nil:
			return refuse(signer.RefusedDestination, "names a wallet of this installation as its payee")
		case kind.Payee == signer.ToProvider:
			return eng.checkSwap(intent)
		case eng.index.isOwn(intent.Chain, intent.To):
			return refuse(signer.RefusedDestination, "goes to %s, which is an address of this installation", intent.To)
		}
		return refunds.Check(intent, eng.index.isIssued)
	case signer.ToWallet:
		switch {
		case !allowed:
			return notAllowed(signer.RefusedWallet)
		case toWallet == nil:
			return refuse(signer.RefusedDestination, "does not name its wallet")
		}
	case signer.ToTreasury:
		if !allowed || toWallet == nil || toWallet.Purpose != signer.TreasuryPurpose {
			return notAllowed(signer.RefusedDestination)
		}
	case signer.ToSharedWallet:
		if err := ownaccounts.CheckTokenAccount(intent, policy); err != nil {
			return err
		}
	case signer.ToChangeWallet:
		if !allowed || !intent.Chain.IsUTXO() || toWallet == nil || toWallet.Purpose != signer.ChangePurpose {
			return notAllowed(signer.RefusedDestination)
		}
		if owner, taken := eng.index.resourceOwners[slotResource{intent.Chain, string(intent.To)}]; taken &&
			owner != intent.ID {
			return refuse(signer.RefusedDestination, "goes to %s, which is permanently in the slot of intent %s",
				intent.To, owner)
		}
	default:
		return signer.Refuse(signer.RefusedDestination, "%s may pay no one", intent.ID)
	}
	switch {
	case kind.PaysGas && intent.Contract != "":
		return refuse(signer.RefusedDestination, "is not in the native coin")
	case kind.PaysGas && policy.GasMax.Less(intent.Amount):
		return signer.Refuse(signer.PolicyLimit, "one %s on %s may be at most %v; this is %v", kind.Noun, intent.Chain,
			policy.GasMax, intent.Amount)
	case kind.ClosesTokenAccount && (intent.Contract == "" || intent.Chain.Family() != chain.SolanaFamily):
		return refuse(signer.RefusedDestination, "names no token account, which %s has", chain.Solana)
	case kind.ClosesTokenAccount && intent.From.Purpose == signer.SharedPurpose: // Rule CO-138.
		return refuse(signer.RefusedWallet, "is of the address that checkouts share, whose accounts stay")
	case kind.ClosesTokenAccount && (intent.Payer == nil || *intent.Payer != *toWallet):
		return signer.Refuse(signer.RefusedWallet,
			"the fee payer of %s %s is not the treasury that receives its content", kind.Noun, intent.ID)
	case toWallet.OrgID != intent.From.OrgID || toWallet.Family != intent.From.Family:
		return signer.Refuse(signer.RefusedDestination, "%s goes to a wallet of another organization or family",
			intent.ID)
	}
	toKey, err := eng.seed.DeriveWallet(*toWallet)
	if err != nil {
		return fmt.Errorf("derive the key that %s pays: %w", intent.ID, err)
	}
	if toKey.Address() != intent.To {
		return signer.Refuse(signer.RefusedDestination,
			"%s goes to %s, and the wallet that it names has another address", intent.ID, intent.To)
	}
	return nil
}
