package local

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
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
	slotOwners      map[accountSlot]string  // the id of the one intent that owns the slot
	resourceOwners  map[slotResource]string // the id of the intent whose slot key permanently takes the resource
	changeCounts    map[changeScope]changeCount
	idempotencyKeys map[idempotencyKey]string // the id of the payment that has it
	paymentTotals   paymentTotals
	feeTotals       feeTotals

	endorsements map[string]endorsementEntry // by the id of the endorsement
	revocations  map[string]revocationEntry
	voids        map[string]voidEntry // by the id of the intent, admitted or not

	// rescue is Config.Rescue. Everything goes to one address, so it does not matter which of two
	// transactions that spend one output is mined. The form that a wallet had is not known.
	rescue bool
}

type endorsementEntry struct {
	signer.EndorseBody
	seq        uint64
	endorsedAt time.Time // by the journal's time
	usableTime time.Time // UsableFrom
}

type revocationEntry struct {
	org string
	seq uint64
}

type issuedWallet struct {
	seq     uint64
	path    string
	address chain.Address
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

// feeCharge is what one signature took of an account's fee allowance, and when that counts as
// spent.
type feeCharge struct {
	seq       uint64
	chargedAt time.Time
	amount    money.Amount
}

// idempotencyKey identifies an idempotency key by its hash. A database that was restored to a time
// before the payment does not know it any more.
type idempotencyKey struct{ org, hash string }

// hasSignedPayment reports whether a transaction that pays the intent was signed, and so may be
// out.
func (i *intentState) hasSignedPayment() bool {
	for _, s := range i.signatures {
		if s.Act == signer.Pay {
			return true
		}
	}
	return false
}

// addedCost returns what another transaction of the intent may cost in addition to those that were
// signed. One transaction of a slot is mined, so a more expensive one adds the difference. A
// creation of a nonce account is mined and charged even if the account exists, so each adds its
// fee.
func (i *intentState) addedCost(cost money.Amount) money.Amount {
	switch {
	case i.Kind().EachTxCosts && len(i.signatures) > 0:
		return mustSubtract(cost, i.Amount)
	case i.signedFeeMax.Less(cost):
		return mustSubtract(cost, i.signedFeeMax)
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

func newJournalIndex() *journalIndex {
	return &journalIndex{
		wallets:         map[signer.WalletRef]issuedWallet{},
		addressOwners:   map[familyAddress]signer.WalletRef{},
		intents:         map[string]*intentState{},
		slotOwners:      map[accountSlot]string{},
		resourceOwners:  map[slotResource]string{},
		changeCounts:    map[changeScope]changeCount{},
		idempotencyKeys: map[idempotencyKey]string{},
		paymentTotals:   paymentTotals{},
		feeTotals:       feeTotals{},

		endorsements: map[string]endorsementEntry{},
		revocations:  map[string]revocationEntry{},
		voids:        map[string]voidEntry{},
	}
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
		if _, twice := x.wallets[r.Issue.WalletRef]; twice {
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
		x.countChangeWallet(r.Issue.WalletRef, false)
	case signer.RecordAdmit:
		if x.intents[r.Admit.ID] != nil {
			return fmt.Errorf("intent %s was already admitted", r.Admit.ID)
		}
		if refusal := x.checkNotVoided(r.Admit.ID); refusal != nil {
			return refusal
		}
		for _, w := range []signer.WalletRef{r.Admit.From, r.Admit.Account()} {
			if _, issued := x.wallets[w]; !issued {
				return fmt.Errorf("intent %s pays from a wallet that was never issued", r.Admit.ID)
			}
		}
		x.intents[r.Admit.ID] = &intentState{
			Intent: *r.Admit, seq: seq, admittedAt: recordedAt,
			signatures: map[string]signer.SignBody{}, signatureSeqs: map[string]uint64{},
		}
		// A journal from before this rule may have a key twice. The intents that it admitted stay
		// admitted; the first one owns the key.
		if k, ok := idempotencyKeyOf(*r.Admit); ok && x.idempotencyKeys[k] == "" {
			x.idempotencyKeys[k] = r.Admit.ID
		}
		x.paymentTotals.addPayment(*r.Admit, recordedAt)
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
		family, ok := codecs[intent.Chain.Family()]
		if !ok {
			return fmt.Errorf("intent %s is of %q, which this signer has no keys for", intent.ID, intent.Chain)
		}
		effect, err := family.decode(r.Sign.Payload)
		if err != nil {
			return fmt.Errorf("what was signed for intent %s: %w", intent.ID, err)
		}
		if r.Sign.Proof != "" { // a journal from before this rule has none
			if err := effect.verifyProof(r.Sign.Proof); err != nil {
				return fmt.Errorf("what was signed for intent %s: %w", intent.ID, err)
			}
		}
		if added := intent.addedCost(effect.maxCost); !added.IsZero() {
			x.feeTotals.addFee(feeAccount{payer, intent.Chain}, added, recordedAt)
			intent.charges = append(intent.charges, feeCharge{seq, recordedAt, added})
		}
		if intent.signedFeeMax.Less(effect.maxCost) {
			intent.signedFeeMax = effect.maxCost
		}
		s := r.Sign.Slot
		for _, member := range intents {
			member.slot, member.txLeadID = &s, intent.ID
		}
		intent.txMemberIDs, x.slotOwners[accountSlot{payer, intent.Chain, s.Nonce}] = r.Sign.TxMemberIDs, intent.ID
		if s.Key != "" {
			for _, name := range family.slotResources(s.Key) {
				x.resourceOwners[slotResource{intent.Chain, name}] = intent.ID
			}
		}
		if effect.inputs != nil {
			x.countChangeWallet(x.addressOwners[familyAddress{intent.From.Family, effect.inputs.change}], true)
		}
		body := *r.Sign
		body.Payload = nil
		intent.signatures[body.Digest], intent.signatureSeqs[body.Digest] = body, seq
	case signer.RecordEndorse:
		if _, twice := x.endorsements[r.Endorse.ID]; twice {
			return fmt.Errorf("address %s was already endorsed", r.Endorse.ID)
		}
		if _, revoked := x.revocations[r.Endorse.ID]; revoked {
			return fmt.Errorf("address %s was revoked before it was endorsed", r.Endorse.ID)
		}
		usableFrom, err := time.Parse(time.RFC3339Nano, r.Endorse.UsableFrom)
		if err != nil {
			return fmt.Errorf("address %s is endorsed from no time on: %w", r.Endorse.ID, err)
		}
		x.endorsements[r.Endorse.ID] = endorsementEntry{*r.Endorse, seq, recordedAt, usableFrom}
	case signer.RecordRevoke:
		if _, twice := x.revocations[r.Revoke.ID]; twice {
			return fmt.Errorf("address %s was already revoked", r.Revoke.ID)
		}
		x.revocations[r.Revoke.ID] = revocationEntry{r.Revoke.OrgID, seq}
	case signer.RecordVoid:
		if _, twice := x.voids[r.Void.ID]; twice {
			return fmt.Errorf("payment %s was already voided", r.Void.ID)
		}
		if intent := x.intents[r.Void.ID]; intent != nil && intent.slot != nil {
			return fmt.Errorf("payment %s was voided with a slot", r.Void.ID)
		}
		x.voids[r.Void.ID] = voidEntry{r.Void.OrgID, seq}
	case signer.RecordClock:
		x.redateEntries(recordedAt)
		x.clockSeq = seq
	default:
		return fmt.Errorf("%q is not a kind of record", r.Kind)
	}
	return nil
}

// checkForm refuses a wallet that was issued in another form. Its payers have that address
// permanently, and a later change of the configuration does not alter it. Rule DEP-44.
func (x *journalIndex) checkForm(w signer.WalletRef) error {
	for _, otherForm := range w.OtherForms() {
		if existing, ok := x.wallets[otherForm]; ok {
			return refuse(signer.RefusedForm,
				"the wallet of %s %q was issued as %s in entry %d, and has no address of another form", w.Purpose,
				w.Subject, existing.address, existing.seq)
		}
	}
	return nil
}

// changeAhead is how many change wallets may exist past the last one that is in a slot. A recovery
// from the seed alone searches a thousand past the last that the chain has seen; it would miss
// funds further on.
const changeAhead = 500

// changeScope identifies the owner of a series of change wallets. changeCount holds the last number
// that was issued and the last that is in a slot.
type changeScope struct {
	org    string
	family chain.Family
}

type changeCount struct{ lastIssued, lastUsed uint64 }

// changeNumber returns the number of a change wallet. It returns 0 if there is none, as in a
// journal from before they were numbered.
func changeNumber(w signer.WalletRef) uint64 {
	n, err := strconv.ParseUint(w.Subject, 10, 63)
	if w.Purpose != changePurpose || err != nil || strconv.FormatUint(n, 10) != w.Subject {
		return 0
	}
	return n
}

// countChangeWallet records that a change wallet was issued, or that it is in a slot.
func (x *journalIndex) countChangeWallet(w signer.WalletRef, slotted bool) {
	scope := changeScope{w.OrgID, w.Family}
	count, n := x.changeCounts[scope], changeNumber(w)
	if slotted {
		count.lastUsed = max(count.lastUsed, n)
	} else {
		count.lastIssued = max(count.lastIssued, n)
	}
	if n > 0 {
		x.changeCounts[scope] = count
	}
}

// checkNextChangeWallet refuses a change wallet that is not the next one of its organization, or
// that is too far past those in use: a recovery from the seed alone would not find its funds.
// Rule COIN-9.
func (x *journalIndex) checkNextChangeWallet(w signer.WalletRef) *signer.Refusal {
	if w.Purpose != changePurpose {
		return nil
	}
	count, n := x.changeCounts[changeScope{w.OrgID, w.Family}], changeNumber(w)
	switch {
	case n != count.lastIssued+1:
		return refuse(signer.RefusedWallet, "change wallets are numbered, and the next one of %s is %d, not %q",
			w.OrgID, count.lastIssued+1, w.Subject)
	case n > count.lastUsed+changeAhead:
		return refuse(signer.RefusedWallet,
			"%s has %d change wallets that no signed slot uses: use them first", w.OrgID,
			changeAhead)
	}
	return nil
}

func idempotencyKeyOf(intent signer.Intent) (k idempotencyKey, ok bool) {
	return idempotencyKey{intent.From.OrgID, intent.IdempotencyKeyHash},
		intent.Kind().OncePerKey && intent.IdempotencyKeyHash != ""
}

// loadTxIntents returns the intents of one transaction, the lead first. They are distinct, of the
// same organization and chain, and the same wallet pays their fee.
func (x *journalIndex) loadTxIntents(lead *intentState, memberIDs []string) ([]*intentState, error) {
	intents := []*intentState{lead}
	for _, id := range memberIDs {
		member := x.intents[id]
		switch {
		case member == nil:
			return nil, refuse(signer.RefusedIntent, "intent %s, which shares a transaction with %s, was never "+
				"admitted", id,
				lead.ID)
		case slices.Contains(intents, member):
			return nil, refuse(signer.RefusedIntent, "intent %s is named twice for one transaction", id)
		case member.Chain != lead.Chain || member.From.OrgID != lead.From.OrgID || member.Account() != lead.Account():
			return nil, refuse(signer.RefusedIntent,
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
			return refuse(signer.RefusedSlot,
				"intent %s is not in slot %s, and the members of a slot never change", member.ID, lead.ID)
		case *member.slot != slot:
			return refuse(signer.RefusedSlot, "intent %s has %v of %s on %s permanently, not "+
				"%v", member.ID, *member.slot,
				payer, member.Chain, slot)
		}
	}
	if lead.slot != nil && !slices.EqualFunc(intents[1:], lead.txMemberIDs, func(member *intentState, id string) bool {
		return member.ID == id
	}) {
		return refuse(signer.RefusedSlot, "intent %s shares its slot permanently with %q, and with no other "+
			"intent", lead.ID,
			lead.txMemberIDs)
	}
	if owner, taken := x.slotOwners[accountSlot{payer, lead.Chain, slot.Nonce}]; taken && owner != lead.ID {
		return refuse(signer.RefusedSlot, "%v of %s on %s belongs permanently to intent %s, not to %s", slot, payer,
			lead.Chain, owner, lead.ID)
	}
	if slot.Key == "" || lead.slot != nil || x.rescue && lead.Chain.IsUTXO() {
		return nil // it already took its own slot key as a whole
	}
	for _, name := range codecs[lead.Chain.Family()].slotResources(slot.Key) {
		if owner, taken := x.resourceOwners[slotResource{lead.Chain, name}]; taken && owner != lead.ID {
			return refuse(signer.RefusedSlot, "%s on %s belongs permanently to intent %s, not to %s", name, lead.Chain,
				owner, lead.ID)
		}
	}
	return nil
}
