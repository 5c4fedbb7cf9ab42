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

// index is the journal in memory, as the rules ask for it. It is made by apply
// alone, from the file at open and from each entry as it gets its place, so that
// what a restart knows is what was known before.
type index struct {
	genesis signer.Record
	adopted time.Time // zero for a journal that continues none
	// clockSeq is the last entry in which a person confirmed the time, or 0.
	clockSeq uint64
	wallets  map[signer.WalletRef]issued
	owners   map[owned]signer.WalletRef
	intents  map[string]*intent
	slots    map[slot]string  // the id of the one intent that it belongs to
	places   map[place]string // what of a lease is in one slot for ever
	changes  map[numbered]numbers
	keys     map[key]string // the id of the payment that has it
	limits   limits
	fees     fees

	endorsed map[string]endorsed // by the id of the endorsement
	revoked  map[string]revoked
	voids    map[string]voided // by the id of the intent, admitted or not

	// rescue is Config.Rescue: everything goes to one address, so whatever is mined of two
	// transactions that spend one coin will do; and nobody knows which form a wallet had.
	rescue bool
}

type endorsed struct {
	signer.EndorseBody
	seq  uint64
	at   time.Time // by the journal
	from time.Time // UsableFrom
}

type revoked struct {
	org string
	seq uint64
}

type issued struct {
	seq     uint64
	path    string
	address chain.Address
}

type owned struct {
	family  chain.Family
	address chain.Address
}

type intent struct {
	signer.Intent
	seq   uint64
	at    time.Time                  // when it counts as admitted
	fees  []charge                   // what its signatures took of its account's fees
	slot  *signer.Slot               // once it has one
	lead  string                     // in whose name its slot is signed for, once it has one: often its own
	with  []string                   // of a lead: the others of its slot, in their order
	signs map[string]signer.SignBody // by the payload's digest, without the payload
	seqs  map[string]uint64
	fee   money.Amount // the most that its slot may cost by what was signed
}

// charge is what one signature took of an account's fees, and when that counts as spent.
type charge struct {
	seq  uint64
	at   time.Time
	fees money.Amount
}

// key is an idempotency key, by its hash: what a database that was restored to before
// the payment does not know any more.
type key struct{ org, hash string }

// pays tells whether something was signed that pays it, and may be out.
func (i *intent) pays() bool {
	for _, s := range i.signs {
		if s.Act == signer.Pay {
			return true
		}
	}
	return false
}

// adds is what another transaction of the intent's may cost beside those that were signed.
// One transaction of a slot is mined, so a dearer one adds what it is dearer by. What
// makes a place is mined and paid for in vain too when there is one already, so each adds
// its fee.
func (i *intent) adds(costs money.Amount) money.Amount {
	switch {
	case i.Purpose == signer.Place && len(i.signs) > 0:
		return less(costs, i.Amount)
	case i.fee.Less(costs):
		return less(costs, i.fee)
	}
	return money.Zero
}

// slot is one of an account's own, by its number, and place what a lease takes on the
// chain, by its name.
type slot struct {
	payer chain.Address
	chain chain.Name
	nonce uint64
}

type place struct {
	chain chain.Name
	name  string
}

func newIndex() *index {
	return &index{
		wallets: map[signer.WalletRef]issued{},
		owners:  map[owned]signer.WalletRef{},
		intents: map[string]*intent{},
		slots:   map[slot]string{},
		places:  map[place]string{},
		changes: map[numbered]numbers{},
		keys:    map[key]string{},
		limits:  limits{},
		fees:    fees{},

		endorsed: map[string]endorsed{},
		revoked:  map[string]revoked{},
		voids:    map[string]voided{},
	}
}

// apply takes an entry into account. An error says that the journal contradicts
// itself, which no signer of ours has written.
func (x *index) apply(seq uint64, at time.Time, r signer.Record) error {
	switch r.Kind {
	case signer.RecordGenesis:
		x.genesis = r
		if r.Adopts != nil && r.Adopts.At != "" {
			var err error
			if x.adopted, err = time.Parse(time.RFC3339Nano, r.Adopts.At); err != nil {
				return fmt.Errorf("it was adopted at no time: %w", err)
			}
		}
	case signer.RecordIssue:
		w := owned{r.Issue.Family, r.Issue.Address}
		if _, twice := x.wallets[r.Issue.WalletRef]; twice {
			return fmt.Errorf("wallet %v was issued before", r.Issue.WalletRef)
		}
		if no := x.form(r.Issue.WalletRef); no != nil && !x.rescue {
			return no
		}
		if _, twice := x.owners[w]; twice {
			return fmt.Errorf("address %s was issued before", w.address)
		}
		x.wallets[r.Issue.WalletRef] = issued{seq, r.Issue.Path, r.Issue.Address}
		x.owners[w] = r.Issue.WalletRef
		x.count(r.Issue.WalletRef, false)
	case signer.RecordAdmit:
		if x.intents[r.Admit.ID] != nil {
			return fmt.Errorf("intent %s was admitted before", r.Admit.ID)
		}
		if no := x.live(r.Admit.ID); no != nil {
			return no
		}
		for _, w := range []signer.WalletRef{r.Admit.From, r.Admit.Account()} {
			if _, known := x.wallets[w]; !known {
				return fmt.Errorf("intent %s pays from a wallet that was never issued", r.Admit.ID)
			}
		}
		x.intents[r.Admit.ID] = &intent{Intent: *r.Admit, seq: seq, at: at, signs: map[string]signer.SignBody{}, seqs: map[string]uint64{}}
		// A journal of before this rule may have a key twice. What it admitted stays
		// admitted; the first one has the key.
		if k, ok := keyOf(*r.Admit); ok && x.keys[k] == "" {
			x.keys[k] = r.Admit.ID
		}
		x.limits.take(*r.Admit, at)
	case signer.RecordSign:
		i := x.intents[r.Sign.IntentID]
		if i == nil {
			return fmt.Errorf("intent %s was signed without being admitted", r.Sign.IntentID)
		}
		payer := x.wallets[i.Account()].address
		all, no := x.together(i, r.Sign.With)
		if no != nil {
			return no
		}
		for _, o := range all {
			if no := x.live(o.ID); no != nil && r.Sign.Act == signer.Pay {
				return no
			}
		}
		if no := x.mayTake(all, payer, r.Sign.Slot); no != nil {
			return no
		}
		if _, twice := i.signs[r.Sign.Digest]; twice {
			return fmt.Errorf("intent %s was signed twice with the same bytes", i.ID)
		}
		family, ok := families[i.Chain.Family()]
		if !ok {
			return fmt.Errorf("intent %s is of %q, which this signer has no keys for", i.ID, i.Chain)
		}
		does, err := family.read(r.Sign.Payload)
		if err != nil {
			return fmt.Errorf("what was signed for intent %s: %w", i.ID, err)
		}
		if r.Sign.Proof != "" { // a journal of before this rule has none
			if err := does.proven(r.Sign.Proof); err != nil {
				return fmt.Errorf("what was signed for intent %s: %w", i.ID, err)
			}
		}
		if more := i.adds(does.costs); !more.IsZero() {
			x.fees.take(account{payer, i.Chain}, more, at)
			i.fees = append(i.fees, charge{seq, at, more})
		}
		if i.fee.Less(does.costs) {
			i.fee = does.costs
		}
		s := r.Sign.Slot
		for _, o := range all {
			o.slot, o.lead = &s, i.ID
		}
		i.with, x.slots[slot{payer, i.Chain, s.Nonce}] = r.Sign.With, i.ID
		if s.Lease != "" {
			for _, name := range family.places(s.Lease) {
				x.places[place{i.Chain, name}] = i.ID
			}
		}
		if does.coins != nil {
			x.count(x.owners[owned{i.From.Family, does.coins.change}], true)
		}
		body := *r.Sign
		body.Payload = nil
		i.signs[body.Digest], i.seqs[body.Digest] = body, seq
	case signer.RecordEndorse:
		if _, twice := x.endorsed[r.Endorse.ID]; twice {
			return fmt.Errorf("address %s was endorsed before", r.Endorse.ID)
		}
		if _, gone := x.revoked[r.Endorse.ID]; gone {
			return fmt.Errorf("address %s was revoked before it was endorsed", r.Endorse.ID)
		}
		from, err := time.Parse(time.RFC3339Nano, r.Endorse.UsableFrom)
		if err != nil {
			return fmt.Errorf("address %s is endorsed from no time on: %w", r.Endorse.ID, err)
		}
		x.endorsed[r.Endorse.ID] = endorsed{*r.Endorse, seq, at, from}
	case signer.RecordRevoke:
		if _, twice := x.revoked[r.Revoke.ID]; twice {
			return fmt.Errorf("address %s was revoked before", r.Revoke.ID)
		}
		x.revoked[r.Revoke.ID] = revoked{r.Revoke.OrgID, seq}
	case signer.RecordVoid:
		if _, twice := x.voids[r.Void.ID]; twice {
			return fmt.Errorf("payment %s was voided before", r.Void.ID)
		}
		if i := x.intents[r.Void.ID]; i != nil && i.slot != nil {
			return fmt.Errorf("payment %s was voided with a slot", r.Void.ID)
		}
		x.voids[r.Void.ID] = voided{r.Void.OrgID, seq}
	case signer.RecordClock:
		x.redate(at)
		x.clockSeq = seq
	default:
		return fmt.Errorf("%q is no kind of record", r.Kind)
	}
	return nil
}

// form refuses a wallet that was issued in another form: whoever pays it has that address
// for ever, whatever a configuration says since.
func (x *index) form(w signer.WalletRef) error {
	for _, other := range w.Otherwise() {
		if known, ok := x.wallets[other]; ok {
			return refuse(signer.RefusedForm, "the wallet of %s %q was issued as %s in entry %d, and has no address of another form", w.Purpose, w.Subject, known.address, known.seq)
		}
	}
	return nil
}

// changeAhead is how many wallets for change there are at most past the last that is in a
// slot. Whoever has the seed and nothing else looks a thousand past the last that the chain
// has seen: what lay further on would be lost.
const changeAhead = 500

// numbered is whose wallets for change are counted, and numbers how far: those that were
// issued and those that are in a slot.
type numbered struct {
	org    string
	family chain.Family
}

type numbers struct{ issued, slotted uint64 }

// changeNumber is the number of a wallet for change; 0 where it has none, as in a journal
// of before they were numbered.
func changeNumber(w signer.WalletRef) uint64 {
	n, err := strconv.ParseUint(w.Subject, 10, 63)
	if w.Purpose != change || err != nil || strconv.FormatUint(n, 10) != w.Subject {
		return 0
	}
	return n
}

// count notes a wallet for change, that it was issued or that it is in a slot.
func (x *index) count(w signer.WalletRef, slotted bool) {
	of := numbered{w.OrgID, w.Family}
	at, n := x.changes[of], changeNumber(w)
	if slotted {
		at.slotted = max(at.slotted, n)
	} else {
		at.issued = max(at.issued, n)
	}
	if n > 0 {
		x.changes[of] = at
	}
}

// next refuses a wallet for change that is not the next one of its organization, or that is
// too far past those in use: by the seed alone nobody would find what lies there.
func (x *index) next(w signer.WalletRef) *signer.Refusal {
	if w.Purpose != change {
		return nil
	}
	at, n := x.changes[numbered{w.OrgID, w.Family}], changeNumber(w)
	switch {
	case n != at.issued+1:
		return refuse(signer.RefusedWallet, "wallets for change are numbered, and the next of %s is %d, not %q", w.OrgID, at.issued+1, w.Subject)
	case n > at.slotted+changeAhead:
		return refuse(signer.RefusedWallet, "%s has %d wallets for change that are in no slot that was signed for: use them first", w.OrgID, changeAhead)
	}
	return nil
}

func keyOf(i signer.Intent) (k key, ok bool) {
	return key{i.From.OrgID, i.IdempotencyKeyHash}, i.Purpose == signer.Payment && i.IdempotencyKeyHash != ""
}

// together are the intents that one transaction is for, the lead first. They are
// different ones of the same organization on the same chain, and the same wallet pays
// their fee.
func (x *index) together(lead *intent, with []string) ([]*intent, error) {
	all := []*intent{lead}
	for _, id := range with {
		o := x.intents[id]
		switch {
		case o == nil:
			return nil, refuse(signer.RefusedIntent, "intent %s, which is to be paid with %s, was never admitted", id, lead.ID)
		case slices.Contains(all, o):
			return nil, refuse(signer.RefusedIntent, "intent %s is named twice for one transaction", id)
		case o.Chain != lead.Chain || o.From.OrgID != lead.From.OrgID || o.Account() != lead.Account():
			return nil, refuse(signer.RefusedIntent, "intents %s and %s are not of one account: no transaction is for both", lead.ID, id)
		}
		all = append(all, o)
	}
	return all, nil
}

// mayTake is the rule of slots: one slot an intent, for ever, with the same companions,
// and nothing else in it; and one transaction, where nothing on the chain keeps two of a
// slot apart. The lead is first.
func (x *index) mayTake(all []*intent, payer chain.Address, s signer.Slot) error {
	lead := all[0]
	if once[lead.Chain.Family()] && len(lead.signs) > 0 {
		return refuse(signer.RefusedSlot, "intent %s has its one transaction on %s already: another would be mined beside it, so wait until that is final or has expired", lead.ID, lead.Chain)
	}
	for _, o := range all {
		switch {
		case o.slot == nil && lead.slot == nil:
		case o.slot == nil || o.lead != lead.ID:
			return refuse(signer.RefusedSlot, "intent %s is in no slot of %s, and who is in a slot together stays so for ever", o.ID, lead.ID)
		case *o.slot != s:
			return refuse(signer.RefusedSlot, "intent %s has %v of %s on %s for ever, not %v", o.ID, *o.slot, payer, o.Chain, s)
		}
	}
	if lead.slot != nil && !slices.EqualFunc(all[1:], lead.with, func(o *intent, id string) bool { return o.ID == id }) {
		return refuse(signer.RefusedSlot, "intent %s has its slot with %q for ever, and with nobody else", lead.ID, lead.with)
	}
	if owner, taken := x.slots[slot{payer, lead.Chain, s.Nonce}]; taken && owner != lead.ID {
		return refuse(signer.RefusedSlot, "%v of %s on %s belongs to intent %s for ever, not to %s", s, payer, lead.Chain, owner, lead.ID)
	}
	if s.Lease == "" || lead.slot != nil || x.rescue && lead.Chain.Pooled() {
		return nil // its own lease it took whole
	}
	for _, name := range families[lead.Chain.Family()].places(s.Lease) {
		if owner, taken := x.places[place{lead.Chain, name}]; taken && owner != lead.ID {
			return refuse(signer.RefusedSlot, "%s on %s belongs to intent %s for ever, not to %s", name, lead.Chain, owner, lead.ID)
		}
	}
	return nil
}
