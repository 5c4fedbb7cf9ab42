package local

import (
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
)

// index is the journal in memory, as the rules ask for it. It is made by apply
// alone, from the file at open and from each entry as it gets its place, so that
// what a restart knows is what was known before.
type index struct {
	genesis signer.Record
	adopted time.Time // zero for a journal that continues none
	wallets map[signer.WalletRef]issued
	owners  map[owned]signer.WalletRef
	intents map[string]*intent
	slots   map[slot]string // the id of the one intent that it belongs to
	keys    map[key]string  // the id of the payment that has it
	limits  limits
	fees    fees

	endorsed map[string]endorsed // by the id of the endorsement
	revoked  map[string]revoked
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
	nonce *uint64                    // its slot, once it has one
	signs map[string]signer.SignBody // by the payload's digest, without the payload
	seqs  map[string]uint64
	fee   money.Amount // the most that its slot may cost by what was signed
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

type slot struct {
	from  chain.Address
	chain chain.Name
	nonce uint64
}

func newIndex() *index {
	return &index{
		wallets: map[signer.WalletRef]issued{},
		owners:  map[owned]signer.WalletRef{},
		intents: map[string]*intent{},
		slots:   map[slot]string{},
		keys:    map[key]string{},
		limits:  limits{},
		fees:    fees{},

		endorsed: map[string]endorsed{},
		revoked:  map[string]revoked{},
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
		if _, twice := x.owners[w]; twice {
			return fmt.Errorf("address %s was issued before", w.address)
		}
		x.wallets[r.Issue.WalletRef] = issued{seq, r.Issue.Path, r.Issue.Address}
		x.owners[w] = r.Issue.WalletRef
	case signer.RecordAdmit:
		if x.intents[r.Admit.ID] != nil {
			return fmt.Errorf("intent %s was admitted before", r.Admit.ID)
		}
		if _, known := x.wallets[r.Admit.From]; !known {
			return fmt.Errorf("intent %s pays from a wallet that was never issued", r.Admit.ID)
		}
		x.intents[r.Admit.ID] = &intent{Intent: *r.Admit, seq: seq, signs: map[string]signer.SignBody{}, seqs: map[string]uint64{}}
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
		s := slot{x.wallets[i.From].address, i.Chain, r.Sign.Slot.Nonce}
		if no := x.mayTake(i, s); no != nil {
			return no
		}
		if _, twice := i.signs[r.Sign.Digest]; twice {
			return fmt.Errorf("intent %s was signed twice with the same bytes", i.ID)
		}
		tx, err := evmtx.Decode(r.Sign.Payload)
		if err != nil {
			return fmt.Errorf("what was signed for intent %s: %w", i.ID, err)
		}
		if fee := worst(tx); i.fee.Less(fee) {
			x.fees.take(account{s.from, s.chain}, less(fee, i.fee), at)
			i.fee = fee
		}
		nonce := s.nonce
		i.nonce, x.slots[s] = &nonce, i.ID
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
	default:
		return fmt.Errorf("%q is no kind of record", r.Kind)
	}
	return nil
}

func keyOf(i signer.Intent) (k key, ok bool) {
	return key{i.From.OrgID, i.IdempotencyKeyHash}, i.Purpose == signer.Payment && i.IdempotencyKeyHash != ""
}

// mayTake is the rule of slots: one intent a slot, one slot an intent, for ever.
func (x *index) mayTake(i *intent, s slot) error {
	if i.nonce != nil && *i.nonce != s.nonce {
		return refuse(signer.RefusedSlot, "intent %s has nonce %d of %s on %s for ever, not %d", i.ID, *i.nonce, s.from, s.chain, s.nonce)
	}
	if owner, taken := x.slots[s]; taken && owner != i.ID {
		return refuse(signer.RefusedSlot, "nonce %d of %s on %s belongs to intent %s for ever, not to %s", s.nonce, s.from, s.chain, owner, i.ID)
	}
	return nil
}
