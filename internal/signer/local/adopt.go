package local

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

// ChainNonce is what a chain says of a wallet that pays: the next nonce after all that
// is in its latest block.
type ChainNonce struct {
	From  signer.WalletRef
	Chain chain.Name
	Next  uint64
}

// Address is where a wallet's key is, by the seed alone: what a database says of it
// is not asked.
func Address(seed keys.Seed, ref signer.WalletRef) (chain.Address, error) {
	key, err := seed.Wallet(ref)
	if err != nil {
		return "", err
	}
	return key.Address(), nil
}

// Adopt makes a journal that continues a lost one, from the database's copy of its
// entries and from what the chains say. It is a deliberate act of the operator, with
// nothing else running, and refuses to replace a file.
//
// It is safe because the database writes before it is needed: an order has its slot
// and its whole payload before it is signed, so whatever the lost journal knew and the
// copy lacks is asked for again and answered with the same bytes. That holds for the
// database that the lost journal worked with, not for an older backup of it; a chain
// whose nonce is past every copied slot betrays one, and refuses the adoption.
//
// The copy comes from the database, which this signer does not trust: every address is
// derived again, every intent has to be allowed (limits apart) and every signature has
// to come out the same.
func Adopt(conf Config, seed keys.Seed, copied []signer.Entry, nonces []ChainNonce) error {
	if err := conf.Policy.Check(); err != nil {
		return err
	}
	if len(copied) == 0 {
		return errors.New("adopt a lost journal: the database has no copy of any entry")
	}
	copied = slices.Clone(copied)
	slices.SortFunc(copied, func(a, b signer.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	records, err := copiedRecords(copied, publicHex(seed))
	if err != nil {
		return fmt.Errorf("adopt a lost journal: %w", err)
	}

	s := &Signer{conf: conf, seed: seed, attest: seed.Attest(), index: newIndex()}
	last := copied[len(copied)-1].Head()
	head := signer.Head{JournalID: id.New("jrn", conf.now())}
	var contents []byte
	write := func(at time.Time, r signer.Record) error {
		r.At = stamp(at)
		e, err := entry(head, r)
		if err != nil {
			return err
		}
		if err := s.index.apply(e.Seq, at, r); err != nil {
			return err
		}
		head = e.Head()
		contents = append(append(contents, mustJSON(e)...), '\n')
		return nil
	}
	// The times are those of the lost journal, so that limits stay taken.
	at := records[0].at
	err = write(at, signer.Record{
		Kind: signer.RecordGenesis, AttestKey: publicHex(seed),
		Adopts: &signer.AdoptsBody{JournalID: last.JournalID, Seq: last.Seq, Hash: last.Hash, At: stamp(conf.now())},
	})
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Kind == signer.RecordGenesis {
			continue
		}
		if r.at.Before(at) && r.Kind != signer.RecordClock {
			return fmt.Errorf("adopt a lost journal: entry %d is older than the one before it", r.seq)
		}
		at = r.at
		if err := s.recheck(r.Record); err != nil {
			return fmt.Errorf("adopt a lost journal: entry %d of the copy: %w", r.seq, err)
		}
		if err := write(at, r.Record); err != nil {
			return fmt.Errorf("adopt a lost journal: entry %d of the copy: %w", r.seq, err)
		}
	}
	if err := s.index.behind(nonces); err != nil {
		return fmt.Errorf("adopt a lost journal: %w", err)
	}
	return keys.CreateFile(conf.Journal, contents, 0o600)
}

type copiedRecord struct {
	signer.Record
	seq uint64
	at  time.Time
}

// copiedRecords reads what a copy has, which may have gaps after its first part.
func copiedRecords(copied []signer.Entry, attestKey string) ([]copiedRecord, error) {
	var out []copiedRecord
	prev := signer.Head{}
	for n, e := range copied {
		if n > 0 && e.Seq == prev.Seq {
			return nil, fmt.Errorf("the copy has entry %d twice", e.Seq)
		}
		if e.Seq > prev.Seq+1 {
			// What lies between was lost; the entry vouches for itself alone.
			prev = signer.Head{JournalID: copied[0].JournalID, Seq: e.Seq - 1, Hash: e.Prev}
		}
		r, err := e.Follow(prev)
		if err != nil {
			return nil, err
		}
		at, err := time.Parse(time.RFC3339Nano, r.At)
		if err != nil {
			return nil, fmt.Errorf("entry %d has no time: %w", e.Seq, err)
		}
		if r.Kind == signer.RecordGenesis && r.AttestKey != attestKey {
			return nil, fmt.Errorf("the copy is of a journal of the seed with attestation key %s, and this seed has %s", r.AttestKey, attestKey)
		}
		out = append(out, copiedRecord{r, e.Seq, at.UTC()})
		prev = e.Head()
	}
	return out, nil
}

// recheck asks the rules again for a record that somebody else kept.
func (s *Signer) recheck(r signer.Record) error {
	switch {
	case r.Issue != nil:
		if no := checkRef(r.Issue.WalletRef); no != nil {
			return no
		}
		key, err := s.seed.Wallet(r.Issue.WalletRef)
		if err != nil {
			return err
		}
		if key.Address() != r.Issue.Address || key.Path() != r.Issue.Path {
			return fmt.Errorf("%w: %s is not the address of its wallet", signer.ErrProof, r.Issue.Address)
		}
	case r.Admit != nil:
		if no := checkIntent(*r.Admit); no != nil {
			return no
		}
		policy, ok := s.conf.Policy.Chains[r.Admit.Chain]
		if !ok {
			return refuse(signer.RefusedNotConfigured, "the policy does not name chain %q: add it under chains", r.Admit.Chain)
		}
		no, err := s.destination(*r.Admit, policy)
		if err != nil {
			return err
		}
		if no != nil && no.Code != signer.PolicyLimit {
			return no
		}
		if r.Admit.Purpose == signer.Payment && r.Admit.CustomerID == "" {
			// It was copied before it could be paid, so the copy has it before this.
			if _, no := s.endorsement(*r.Admit); no != nil {
				return no
			}
		}
	case r.Endorse != nil:
		return s.recheckEndorsement(*r.Endorse)
	case r.Revoke != nil:
		if !word(r.Revoke.OrgID) || !word(r.Revoke.ID) {
			return refuse(signer.RefusedMalformed, "a revocation of nothing")
		}
	case r.Void != nil:
		if !word(r.Void.OrgID) || !word(r.Void.ID) || len(r.Void.MAC) > 0 {
			return refuse(signer.RefusedMalformed, "a payment that was voided without its name")
		}
	case r.Sign != nil:
		i := s.index.intents[r.Sign.IntentID]
		if i == nil {
			return fmt.Errorf("intent %s was signed and the copy lacks its admission", r.Sign.IntentID)
		}
		all, err := s.index.together(i, r.Sign.With)
		if err != nil {
			return err
		}
		by, err := s.keysOf(all)
		if err != nil {
			return err
		}
		request := signer.SignRequest{IntentID: i.ID, With: r.Sign.With, Slot: r.Sign.Slot, Act: r.Sign.Act, Payload: r.Sign.Payload}
		if _, err := s.matches(all, request, s.conf.Policy.Chains[i.Chain]); err != nil {
			return err
		}
		if by, err = s.signers(i, r.Sign.Act, r.Sign.Payload, by); err != nil {
			return err
		}
		_, hash, err := families[i.Chain.Family()].sign(r.Sign.Payload, by...)
		if err != nil {
			return err
		}
		if hash != r.Sign.Hash || digestOf(r.Sign.Payload) != r.Sign.Digest {
			return fmt.Errorf("intent %s was not signed like that", i.ID)
		}
	}
	return nil
}

// behind compares the slots with the chains. A wallet that pays and that nobody asked
// its chain about is an error: it would be the one.
func (x *index) behind(nonces []ChainNonce) error {
	next := map[account]uint64{}
	for s := range x.slots {
		a := account{s.payer, s.chain}
		if s.nonce == math.MaxUint64 {
			return fmt.Errorf("the copy has a slot of %s on %s past the last nonce", s.payer, s.chain)
		}
		next[a] = max(next[a], s.nonce+1)
	}
	asked := map[account]bool{}
	for _, n := range nonces {
		w, ok := x.wallets[n.From]
		if !ok {
			if n.Next > 0 {
				return fmt.Errorf("a wallet of %s has paid %d times on %s and the copy lacks it: the database is older than the lost journal", n.From.OrgID, n.Next, n.Chain)
			}
			continue
		}
		a := account{w.address, n.Chain}
		if asked[a] = true; n.Next > next[a] {
			return fmt.Errorf("%s has used %d nonces on %s and the copy knows %d: the database is older than the lost journal, restore its latest backup",
				w.address, n.Next, n.Chain, next[a])
		}
	}
	for a := range next {
		if !asked[a] {
			return fmt.Errorf("%s has paid on %s: ask the chain for its next nonce first", a.from, a.chain)
		}
	}
	return nil
}
