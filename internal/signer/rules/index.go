package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/changewallet"
	"github.com/cofferpay/coffer/internal/signer/endorse"
	"github.com/cofferpay/coffer/internal/signer/limits"
	"github.com/cofferpay/coffer/internal/signer/payouts"
	"github.com/cofferpay/coffer/internal/signer/swapterms"
	"github.com/cofferpay/coffer/internal/signer/txcodec"
	"github.com/cofferpay/coffer/internal/signer/window"
)

// journalIndex is the journal in memory, in the form that the rules need. Only applyRecord builds
// it: from the file at open, and from each entry as it is appended. So a restart knows what was
// known before.
type journalIndex struct {
	genesis   signer.Record
	adoptedAt time.Time // zero for a journal that continues no other
	// clockSeq is the last entry in which a person confirmed the time, or 0.
	clockSeq        uint64
	wallets         map[signer.WalletRef]issuedWallet
	addressOwners   map[familyAddress]signer.WalletRef
	intents         map[string]*intentState
	slotOwners      map[accountSlot]string   // the id of the one intent that owns the slot
	payees          map[familyAddress]string // the id of the first intent that named the address
	resourceOwners  map[slotResource]string  // the id of the intent whose slot key permanently takes the resource
	changeWallets   changewallet.Counts
	idempotencyKeys map[idempotencyKey]string // the id of the payment that has it
	voids           map[string]voidEntry      // by the id of the intent, admitted or not
	endorsed        *endorse.Book
	payouts         *payouts.Book
	totals          *limits.Book

	// rescue is Config.Rescue. Everything goes to one address, so it does not matter which of two
	// transactions that spend one output is mined. The form that a wallet had is not known.
	rescue bool
}

// voidEntry is a payment or return that people recalled.
type voidEntry struct {
	org string
	seq uint64
}

type issuedWallet struct {
	seq     uint64
	path    string
	address chain.Address
}

// contradiction returns the error of a wallet whose key does not have its address.
func (w issuedWallet) contradiction() error {
	return fmt.Errorf("%w: entry %d gives a wallet an address that its key does not have", signer.ErrDamaged,
		w.seq)
}

type familyAddress struct {
	family  chain.Family
	address chain.Address
}

type intentState struct {
	signer.Intent
	seq           uint64
	admittedAt    time.Time                  // when it counts as admitted
	charges       []feeCharge                // what its signatures took of its account's fee allowance
	slot          *signer.Slot               // once it has one
	txLeadID      string                     // the intent under which its slot is signed, once it has one
	txMemberIDs   []string                   // of a lead: the other intents of its slot, in their order
	signatures    map[string]signer.SignBody // by the payload's digest, without the payload
	signatureSeqs map[string]uint64
	signedFeeMax  money.Amount // the most that its slot may cost, by the signed transactions
}

// feeCharge is what a signature took of an account's fee allowance, and when it counts as spent.
type feeCharge struct {
	seq       uint64
	chargedAt time.Time
	amount    money.Amount
}

// idempotencyKey identifies an idempotency key by its hash. A database that was restored to a time
// before the payment does not know it any more.
type idempotencyKey struct{ org, hash string }

// hasSignedPayment reports whether a transaction that pays the intent was signed: it may be out.
func (i *intentState) hasSignedPayment() bool {
	for _, s := range i.signatures {
		if s.Act == signer.Pay {
			return true
		}
	}
	return false
}

// addedCost returns what another transaction of the intent may cost in addition to those that were
// signed. One transaction of a slot is mined, so a more expensive one adds the difference. A creation
// of a nonce account is mined and charged even if the account exists, so each adds its fee.
func (i *intentState) addedCost(cost money.Amount) money.Amount {
	switch {
	case i.Kind().EachTxCosts && len(i.signatures) > 0:
		return window.Subtract(cost, i.Amount)
	case i.signedFeeMax.Less(cost):
		return window.Subtract(cost, i.signedFeeMax)
	}
	return money.Zero
}

// accountSlot identifies a slot of an account by its number. slotResource identifies by name what a
// slot key takes on the chain.
type accountSlot struct {
	payer chain.Address
	chain chain.Name
	nonce uint64
}

type slotResource struct {
	chain chain.Name
	name  string
}

func newJournalIndex(rescue bool) *journalIndex {
	return &journalIndex{
		rescue:          rescue,
		wallets:         map[signer.WalletRef]issuedWallet{},
		addressOwners:   map[familyAddress]signer.WalletRef{},
		intents:         map[string]*intentState{},
		slotOwners:      map[accountSlot]string{},
		payees:          map[familyAddress]string{},
		resourceOwners:  map[slotResource]string{},
		changeWallets:   changewallet.Counts{},
		idempotencyKeys: map[idempotencyKey]string{},
		voids:           map[string]voidEntry{},
		endorsed:        endorse.NewBook(),
		payouts:         payouts.NewBook(),
		totals:          limits.NewBook(),
	}
}

func (x *journalIndex) isIssued(w signer.WalletRef) bool {
	_, issued := x.wallets[w]
	return issued
}

// isOwn reports whether an address is one of this installation.
func (x *journalIndex) isOwn(name chain.Name, address chain.Address) bool {
	_, isOwn := x.addressOwners[familyAddress{name.Family(), address}]
	return isOwn
}

// applyRecord adds an entry to the index. An error says that the journal contradicts itself, which
// no signer of Coffer has written.
func (x *journalIndex) applyRecord(seq uint64, recordedAt time.Time, r signer.Record) error {
	switch r.Kind {
	case signer.RecordGenesis:
		x.genesis = r
		if r.Adopts != nil && r.Adopts.AdoptedAt != "" {
			var err error
			if x.adoptedAt, err = time.Parse(time.RFC3339Nano, r.Adopts.AdoptedAt); err != nil {
				return fmt.Errorf("it was adopted at no time: %w", err)
			}
		}
	case signer.RecordIssue:
		w := familyAddress{r.Issue.Family, r.Issue.Address}
		if x.isIssued(r.Issue.WalletRef) {
			return fmt.Errorf("wallet %v was already issued", r.Issue.WalletRef)
		}
		if refusal := x.checkForm(r.Issue.WalletRef); refusal != nil && !x.rescue {
			return refusal
		}
		if _, twice := x.addressOwners[w]; twice {
			return fmt.Errorf("address %s was already issued", w.address)
		}
		x.wallets[r.Issue.WalletRef] = issuedWallet{seq, r.Issue.Path, r.Issue.Address}
		x.addressOwners[w] = r.Issue.WalletRef
		x.changeWallets.CountIssued(r.Issue.WalletRef)
	case signer.RecordAdmit:
		if x.intents[r.Admit.ID] != nil {
			return fmt.Errorf("intent %s was already admitted", r.Admit.ID)
		}
		if refusal := x.checkNotVoided(r.Admit.ID); refusal != nil {
			return refusal
		}
		for _, w := range []signer.WalletRef{r.Admit.From, r.Admit.Account()} {
			if !x.isIssued(w) {
				return fmt.Errorf("intent %s pays from a wallet that was never issued", r.Admit.ID)
			}
		}
		payee := familyAddress{r.Admit.Chain.Family(), r.Admit.To}
		if earlier, isPaid := x.payees[payee]; isPaid && r.Admit.Swap != nil {
			return fmt.Errorf("swap payment %s goes to the address that intent %s named before", r.Admit.ID, earlier)
		} else if !isPaid {
			x.payees[payee] = r.Admit.ID
		}
		if err := x.payouts.Admit(seq, *r.Admit); err != nil {
			return err
		}
		x.intents[r.Admit.ID] = &intentState{
			Intent: swapterms.Condense(*r.Admit), seq: seq, admittedAt: recordedAt,
			signatures: map[string]signer.SignBody{}, signatureSeqs: map[string]uint64{},
		}
		// A journal from before this rule may have a key twice. The intents that it admitted stay
		// admitted; the first one owns the key.
		if k, ok := idempotencyKeyOf(*r.Admit); ok && x.idempotencyKeys[k] == "" {
			x.idempotencyKeys[k] = r.Admit.ID
		}
		x.totals.CountAdmitted(*r.Admit, recordedAt)
	case signer.RecordSign:
		intent := x.intents[r.Sign.IntentID]
		if intent == nil {
			return fmt.Errorf("intent %s was signed without an admission", r.Sign.IntentID)
		}
		payer := x.wallets[intent.Account()].address
		intents, refusal := x.loadTxIntents(intent, r.Sign.TxMemberIDs)
		if refusal != nil {
			return refusal
		}
		for _, member := range intents {
			if refusal := x.checkNotVoided(member.ID); refusal != nil && r.Sign.Act == signer.Pay {
				return refusal
			}
		}
		if refusal := x.checkSlot(intents, payer, r.Sign.Slot); refusal != nil {
			return refusal
		}
		if _, twice := intent.signatures[r.Sign.Digest]; twice {
			return fmt.Errorf("intent %s was signed twice with the same bytes", intent.ID)
		}
		family := txcodec.Find(intent.Chain.Family())
		if family == nil {
			return fmt.Errorf("intent %s is of %q, which this signer has no keys for", intent.ID, intent.Chain)
		}
		effect, err := family.Decode(r.Sign.Payload)
		if err != nil {
			return fmt.Errorf("what was signed for intent %s: %w", intent.ID, err)
		}
		if r.Sign.Proof != "" { // a journal from before this rule has none
			if err := effect.VerifyProof(r.Sign.Proof); err != nil {
				return fmt.Errorf("what was signed for intent %s: %w", intent.ID, err)
			}
		}
		if added := intent.addedCost(effect.MaxCost); !added.IsZero() {
			x.totals.CountFee(x.feeAccount(intent.Intent), added, recordedAt)
			intent.charges = append(intent.charges, feeCharge{seq, recordedAt, added})
		}
		if intent.signedFeeMax.Less(effect.MaxCost) {
			intent.signedFeeMax = effect.MaxCost
		}
		s := r.Sign.Slot
		for _, member := range intents {
			member.slot, member.txLeadID = &s, intent.ID
		}
		intent.txMemberIDs, x.slotOwners[accountSlot{payer, intent.Chain, s.Nonce}] = r.Sign.TxMemberIDs, intent.ID
		if s.Key != "" {
			for _, name := range family.SlotResources(s.Key) {
				x.resourceOwners[slotResource{intent.Chain, name}] = intent.ID
			}
		}
		if effect.Inputs != nil {
			x.changeWallets.CountUsed(x.addressOwners[familyAddress{intent.From.Family, effect.Inputs.Change}])
		}
		if r.Sign.Act == signer.Pay {
			x.payouts.Sign(intent.ID)
		}
		body := *r.Sign
		body.Payload = nil
		intent.signatures[body.Digest], intent.signatureSeqs[body.Digest] = body, seq
	case signer.RecordEndorse:
		return x.endorsed.Endorse(seq, recordedAt, *r.Endorse)
	case signer.RecordRevoke:
		return x.endorsed.Revoke(seq, *r.Revoke)
	case signer.RecordVoid:
		if _, twice := x.voids[r.Void.ID]; twice {
			return fmt.Errorf("payment %s was already voided", r.Void.ID)
		}
		if intent := x.intents[r.Void.ID]; intent != nil && intent.slot != nil {
			return fmt.Errorf("payment %s was voided with a slot", r.Void.ID)
		}
		x.payouts.Void(r.Void.ID)
		x.voids[r.Void.ID] = voidEntry{r.Void.OrgID, seq}
	case signer.RecordClock:
		x.redateEntries(recordedAt)
		x.clockSeq = seq
	default:
		return fmt.Errorf("%q is not a kind of record", r.Kind)
	}
	return nil
}

// redateEntries counts what is dated later than a confirmed time as made at that time, and rebuilds
// the totals. Nothing counts as made earlier than it was: a wrong clock had dropped what is now
// within the window again.
func (x *journalIndex) redateEntries(confirmed time.Time) {
	capTime := func(recordedAt time.Time) time.Time {
		if recordedAt.After(confirmed) {
			return confirmed
		}
		return recordedAt
	}
	x.adoptedAt = capTime(x.adoptedAt)
	x.endorsed.Redate(capTime)
	type taking struct {
		seq  uint64
		take func()
	}
	var takings []taking
	x.totals.Clear()
	for _, intent := range x.intents {
		intent.admittedAt = capTime(intent.admittedAt)
		if confirmed.Sub(intent.admittedAt) < window.Length {
			count := func() { x.totals.CountPayment(intent.Intent, intent.admittedAt) }
			takings = append(takings, taking{intent.seq, count})
		}
		payer := x.feeAccount(intent.Intent)
		for n := range intent.charges {
			c := &intent.charges[n]
			c.chargedAt = capTime(c.chargedAt)
			if confirmed.Sub(c.chargedAt) < window.Length {
				takings = append(takings, taking{c.seq, func() { x.totals.CountFee(payer, c.amount, c.chargedAt) }})
			}
		}
	}
	slices.SortFunc(takings, func(a, b taking) int { return cmp.Compare(a.seq, b.seq) })
	for _, t := range takings {
		t.take()
	}
}

// checkNotVoided refuses an intent that was voided. Rule WD-50.
func (x *journalIndex) checkNotVoided(id string) *signer.Refusal {
	void, ok := x.voids[id]
	if !ok {
		return nil
	}
	return signer.Refuse(signer.RefusedVoid,
		"payment %s was voided in entry %d of the journal and is never made: request it again under another id",
		id, void.seq)
}

// checkForm refuses a wallet that was issued in another form. Its payers have that address
// permanently, and a later change of the configuration does not alter it. Rule DEP-44.
func (x *journalIndex) checkForm(w signer.WalletRef) error {
	for _, otherForm := range w.OtherForms() {
		if existing, ok := x.wallets[otherForm]; ok {
			return signer.Refuse(signer.RefusedForm,
				"the wallet of %s %q was issued as %s in entry %d, and has no address of another form", w.Purpose,
				w.Subject, existing.address, existing.seq)
		}
	}
	return nil
}

func idempotencyKeyOf(intent signer.Intent) (k idempotencyKey, ok bool) {
	return idempotencyKey{intent.From.OrgID, intent.IdempotencyKeyHash},
		intent.Kind().OncePerKey && intent.IdempotencyKeyHash != ""
}

// loadTxIntents returns the intents of one transaction, the lead first. They are distinct, of the
// same organization and chain, and the same wallet pays their fee. A payment to a swap provider is
// alone, so that it can be cancelled alone.
func (x *journalIndex) loadTxIntents(lead *intentState, memberIDs []string) ([]*intentState, error) {
	intents := []*intentState{lead}
	for _, id := range memberIDs {
		member := x.intents[id]
		switch {
		case member == nil:
			return nil, signer.Refuse(signer.RefusedIntent,
				"intent %s, which shares a transaction with %s, was never admitted", id, lead.ID)
		case slices.Contains(intents, member):
			return nil, signer.Refuse(signer.RefusedIntent, "intent %s is named twice for one transaction", id)
		case member.Swap != nil || lead.Swap != nil:
			return nil, signer.Refuse(signer.RefusedIntent,
				"intents %s and %s cannot share a transaction: a payment to a swap provider is alone", lead.ID, id)
		case member.Chain != lead.Chain || member.From.OrgID != lead.From.OrgID || member.Account() != lead.Account():
			return nil, signer.Refuse(signer.RefusedIntent,
				"intents %s and %s are not of one account: they cannot share a transaction", lead.ID, id)
		}
		intents = append(intents, member)
	}
	return intents, nil
}

// checkSlot checks the rule of slots. The lead is first.
//   - An intent has one slot, permanently, with the same companions.
//   - A slot belongs to no other intents.
//
// Rule WD-7.
func (x *journalIndex) checkSlot(intents []*intentState, payer chain.Address, slot signer.Slot) error {
	lead := intents[0]
	for _, member := range intents {
		switch {
		case member.slot == nil && lead.slot == nil:
		case member.slot == nil || member.txLeadID != lead.ID:
			return signer.Refuse(signer.RefusedSlot,
				"intent %s is not in slot %s, and the members of a slot never change", member.ID, lead.ID)
		case *member.slot != slot:
			return signer.Refuse(signer.RefusedSlot, "intent %s has %v of %s on %s permanently, not %v", member.ID,
				*member.slot, payer, member.Chain, slot)
		}
	}
	sameID := func(member *intentState, id string) bool { return member.ID == id }
	if lead.slot != nil && !slices.EqualFunc(intents[1:], lead.txMemberIDs, sameID) {
		return signer.Refuse(signer.RefusedSlot,
			"intent %s shares its slot permanently with %q, and with no other intent", lead.ID, lead.txMemberIDs)
	}
	if owner, taken := x.slotOwners[accountSlot{payer, lead.Chain, slot.Nonce}]; taken && owner != lead.ID {
		return signer.Refuse(signer.RefusedSlot, "%v of %s on %s belongs permanently to intent %s, not to %s", slot,
			payer, lead.Chain, owner, lead.ID)
	}
	if slot.Key == "" || lead.slot != nil || x.rescue && lead.Chain.IsUTXO() {
		return nil // it already took its own slot key as a whole
	}
	for _, name := range txcodec.Find(lead.Chain.Family()).SlotResources(slot.Key) {
		if owner, taken := x.resourceOwners[slotResource{lead.Chain, name}]; taken && owner != lead.ID {
			return signer.Refuse(signer.RefusedSlot, "%s on %s belongs permanently to intent %s, not to %s", name,
				lead.Chain, owner, lead.ID)
		}
	}
	return nil
}
