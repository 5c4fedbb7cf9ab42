package local

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

// ChainNonce is what a chain reports about a wallet that pays: the next nonce after its latest
// block.
type ChainNonce struct {
	Wallet    signer.WalletRef
	Chain     chain.Name
	NextNonce uint64
}

// DeriveAddress returns the address of a wallet by the seed alone, independently of any database.
func DeriveAddress(seed keys.Seed, ref signer.WalletRef) (chain.Address, error) {
	key, err := seed.DeriveWallet(ref)
	if err != nil {
		return "", err
	}
	return key.Address(), nil
}

// AdoptJournal makes a journal that continues a lost one, from the database's copy of its entries
// and from what the chains report. It is a deliberate act of the operator, with no other process
// running, and refuses to replace a file.
//
// It is safe because the database commits an order's slot and whole payload before they are signed.
// What the lost journal knew and the copy lacks is therefore requested again and answered with the
// same bytes. That holds for the database that the lost journal worked with, not for an older
// backup of it. A chain whose nonce is past every copied slot reveals an older backup, and the
// adoption is refused.
//
// The copy comes from the database, which this signer does not trust:
//   - every address is derived again
//   - every intent has to be allowed (limits apart)
//   - every signature has to come out the same
func AdoptJournal(conf Config, seed keys.Seed, copied []signer.Entry, nonces []ChainNonce) error {
	if err := conf.Policy.Validate(); err != nil {
		return err
	}
	if len(copied) == 0 {
		return errors.New("adopt a lost journal: the database has no mirrored entry")
	}
	copied = slices.Clone(copied)
	slices.SortFunc(copied, func(a, b signer.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	records, err := readCopy(copied, attestKeyHex(seed))
	if err != nil {
		return fmt.Errorf("adopt a lost journal: %w", err)
	}

	s := &Signer{conf: conf, seed: seed, attestKey: seed.AttestKey(), index: newJournalIndex()}
	last := copied[len(copied)-1].Head()
	head := signer.Head{JournalID: id.New("jrn", conf.currentTime())}
	var contents []byte
	write := func(recordedAt time.Time, r signer.Record) error {
		r.RecordedAt = formatTime(recordedAt)
		e, err := newEntry(head, r)
		if err != nil {
			return err
		}
		if err := s.index.applyRecord(e.Seq, recordedAt, r); err != nil {
			return err
		}
		head = e.Head()
		contents = append(append(contents, mustJSON(e)...), '\n')
		return nil
	}
	// The times are those of the lost journal, so that limits stay taken.
	recordedAt := records[0].recordedTime
	err = write(recordedAt, signer.Record{
		Kind: signer.RecordGenesis, AttestKey: attestKeyHex(seed),
		Adopts: &signer.AdoptsBody{
			JournalID: last.JournalID, Seq: last.Seq, Hash: last.Hash,
			AdoptedAt: formatTime(conf.currentTime()),
		},
	})
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Kind == signer.RecordGenesis {
			continue
		}
		if r.recordedTime.Before(recordedAt) && r.Kind != signer.RecordClock {
			return fmt.Errorf("adopt a lost journal: entry %d is older than the one before it", r.seq)
		}
		recordedAt = r.recordedTime
		if err := s.recheckRecord(r.Record); err != nil {
			return fmt.Errorf("adopt a lost journal: entry %d of the mirror: %w", r.seq, err)
		}
		if err := write(recordedAt, r.Record); err != nil {
			return fmt.Errorf("adopt a lost journal: entry %d of the mirror: %w", r.seq, err)
		}
	}
	if err := s.index.checkNonces(nonces); err != nil {
		return fmt.Errorf("adopt a lost journal: %w", err)
	}
	return keys.CreateFile(conf.Journal, contents, 0o600)
}

type copiedRecord struct {
	signer.Record
	seq          uint64
	recordedTime time.Time
}

// readCopy decodes the entries of a copy, which may have gaps after its first part.
func readCopy(copied []signer.Entry, attestKey string) ([]copiedRecord, error) {
	var records []copiedRecord
	prev := signer.Head{}
	for n, e := range copied {
		if n > 0 && e.Seq == prev.Seq {
			return nil, fmt.Errorf("the mirror has entry %d twice", e.Seq)
		}
		if e.Seq > prev.Seq+1 {
			// The entries in the gap were lost; this entry is checked by its own hash alone.
			prev = signer.Head{JournalID: copied[0].JournalID, Seq: e.Seq - 1, Hash: e.Prev}
		}
		r, err := e.VerifyAfter(prev)
		if err != nil {
			return nil, err
		}
		recordedAt, err := time.Parse(time.RFC3339Nano, r.RecordedAt)
		if err != nil {
			return nil, fmt.Errorf("entry %d has no time: %w", e.Seq, err)
		}
		if r.Kind == signer.RecordGenesis && r.AttestKey != attestKey {
			return nil, fmt.Errorf("the mirror is of a journal of the seed with attestation key %s, and this seed "+
				"has %s",
				r.AttestKey, attestKey)
		}
		records = append(records, copiedRecord{r, e.Seq, recordedAt.UTC()})
		prev = e.Head()
	}
	return records, nil
}

// recheckRecord checks a record of a copied journal by the rules again.
func (s *Signer) recheckRecord(r signer.Record) error {
	switch {
	case r.Issue != nil:
		if refusal := checkRef(r.Issue.WalletRef); refusal != nil {
			return refusal
		}
		key, err := s.seed.DeriveWallet(r.Issue.WalletRef)
		if err != nil {
			return err
		}
		if key.Address() != r.Issue.Address || key.Path() != r.Issue.Path {
			return fmt.Errorf("%w: %s is not the address of its wallet", signer.ErrProof, r.Issue.Address)
		}
	case r.Admit != nil:
		if refusal := checkIntent(*r.Admit); refusal != nil {
			return refusal
		}
		policy, ok := s.conf.Policy.Chains[r.Admit.Chain]
		if !ok {
			return refuse(signer.RefusedNotConfigured, "the policy does not name chain %q: add it under chains",
				r.Admit.Chain)
		}
		refusal, err := s.checkDestination(*r.Admit, policy)
		if err != nil {
			return err
		}
		if refusal != nil && refusal.Code != signer.PolicyLimit {
			return refusal
		}
		if paysOwnMoney(*r.Admit) {
			// The endorsement was copied before the address could be paid, so it precedes this
			// entry in the copy.
			if _, refusal := s.findEndorsement(*r.Admit); refusal != nil {
				return refusal
			}
		}
	case r.Endorse != nil:
		return s.recheckEndorsement(*r.Endorse)
	case r.Revoke != nil:
		if !isValidWord(r.Revoke.OrgID) || !isValidWord(r.Revoke.ID) {
			return refuse(signer.RefusedMalformed, "a revocation of nothing")
		}
	case r.Void != nil:
		if !isValidWord(r.Void.OrgID) || !isValidWord(r.Void.ID) || len(r.Void.MAC) > 0 {
			return refuse(signer.RefusedMalformed, "a voided payment without its id")
		}
	case r.Sign != nil:
		lead := s.index.intents[r.Sign.IntentID]
		if lead == nil {
			return fmt.Errorf("intent %s was signed, and the mirror lacks its admission", r.Sign.IntentID)
		}
		intents, err := s.index.loadTxIntents(lead, r.Sign.TxMemberIDs)
		if err != nil {
			return err
		}
		signKeys, err := s.walletKeys(intents)
		if err != nil {
			return err
		}
		request := signer.SignRequest{
			IntentID: lead.ID, TxMemberIDs: r.Sign.TxMemberIDs, Slot: r.Sign.Slot,
			Act: r.Sign.Act, Payload: r.Sign.Payload,
		}
		if _, err := s.matchPayload(intents, request, s.conf.Policy.Chains[lead.Chain]); err != nil {
			return err
		}
		if signKeys, err = s.signingKeys(lead, r.Sign.Act, r.Sign.Payload, signKeys); err != nil {
			return err
		}
		_, hash, err := codecs[lead.Chain.Family()].signPayload(r.Sign.Payload, signKeys...)
		if err != nil {
			return err
		}
		if hash != r.Sign.Hash || payloadDigest(r.Sign.Payload) != r.Sign.Digest {
			return fmt.Errorf("the signature for intent %s does not match its admission", lead.ID)
		}
	}
	return nil
}

// checkNonces compares the slots with the chains. It returns an error for a paying wallet whose
// chain was not queried: that one could be the wallet with unknown signatures.
func (x *journalIndex) checkNonces(nonces []ChainNonce) error {
	nextNonces := map[feeAccount]uint64{}
	for s := range x.slotOwners {
		a := feeAccount{s.payer, s.chain}
		if s.nonce == math.MaxUint64 {
			return fmt.Errorf("the mirror has a slot of %s on %s past the last nonce", s.payer, s.chain)
		}
		nextNonces[a] = max(nextNonces[a], s.nonce+1)
	}
	asked := map[feeAccount]bool{}
	for _, n := range nonces {
		w, ok := x.wallets[n.Wallet]
		if !ok {
			if n.NextNonce > 0 {
				return fmt.Errorf("a wallet of %s has paid %d times on %s and the mirror lacks it: the database is "+
					"older than the lost journal",
					n.Wallet.OrgID, n.NextNonce, n.Chain)
			}
			continue
		}
		a := feeAccount{w.address, n.Chain}
		if asked[a] = true; n.NextNonce > nextNonces[a] {
			return fmt.Errorf("%s has used %d nonces on %s and the mirror has %d: the database is older than the "+
				"lost journal, restore its latest backup",
				w.address, n.NextNonce, n.Chain, nextNonces[a])
		}
	}
	for a := range nextNonces {
		if !asked[a] {
			return fmt.Errorf("%s has paid on %s: ask the chain for its next nonce first", a.address, a.chain)
		}
	}
	return nil
}
