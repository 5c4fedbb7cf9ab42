// Package adopt makes the contents of a journal that continues a lost one, from the database's copy
// of its entries, and compares what they say with the chains.
//
// The copy comes from the database, which the signer does not trust, so every record passes the
// signer's rules again before it is taken over. A copy that is older than the lost journal is
// refused. This package writes nothing.
package adopt

import (
	"cmp"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/journalfile"
	"github.com/cofferpay/coffer/internal/signer/syntax"
)

// ChainNonce is what a chain reports about a wallet that pays: the next nonce after its latest
// block.
type ChainNonce struct {
	Wallet    signer.WalletRef
	Chain     chain.Name
	NextNonce uint64
}

// account is a wallet's address on a chain.
type account struct {
	address chain.Address
	chain   chain.Name
}

// Copy is the database's copy of a lost journal.
type Copy struct {
	attestKey ed25519.PublicKey
	last      signer.Head
	records   []copiedRecord
}

type copiedRecord struct {
	signer.Record
	seq          uint64
	recordedTime time.Time
}

// ReadCopy decodes the entries of a copy, which may have gaps after its first part, and checks that
// they are of the seed with this attestation key.
func ReadCopy(copied []signer.Entry, attestKey ed25519.PublicKey) (Copy, error) {
	if len(copied) == 0 {
		return Copy{}, errors.New("the database has no mirrored entry")
	}
	copied = slices.Clone(copied)
	slices.SortFunc(copied, func(a, b signer.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	c := Copy{attestKey: attestKey, last: copied[len(copied)-1].Head()}
	prev := signer.Head{}
	for n, e := range copied {
		if n > 0 && e.Seq == prev.Seq {
			return c, fmt.Errorf("the mirror has entry %d twice", e.Seq)
		}
		if e.Seq > prev.Seq+1 {
			// The entries in the gap were lost; this entry is checked by its own hash alone.
			prev = signer.Head{JournalID: copied[0].JournalID, Seq: e.Seq - 1, Hash: e.Prev}
		}
		r, err := e.VerifyAfter(prev)
		if err != nil {
			return c, err
		}
		recordedAt, err := time.Parse(time.RFC3339Nano, r.RecordedAt)
		if err != nil {
			return c, fmt.Errorf("entry %d has no time: %w", e.Seq, err)
		}
		if r.Kind == signer.RecordGenesis && r.AttestKey != hex.EncodeToString(attestKey) {
			return c, fmt.Errorf("the mirror is of a journal of the seed with attestation key %s, and this seed has %s",
				r.AttestKey, hex.EncodeToString(attestKey))
		}
		c.records = append(c.records, copiedRecord{r, e.Seq, recordedAt.UTC()})
		prev = e.Head()
	}
	return c, nil
}

// Continue returns the contents of the journal that continues the copied one, adopted now. recheck
// says whether a record passes the rules; apply adds it to what they know.
func (c Copy) Continue(
	now time.Time,
	recheck func(signer.Record) error, apply func(seq uint64, recordedAt time.Time, r signer.Record) error,
) (contents []byte, err error) {
	head := signer.Head{JournalID: id.New("jrn", now)}
	write := func(recordedAt time.Time, r signer.Record) error {
		r.RecordedAt = signer.FormatTime(recordedAt)
		e, err := journalfile.NewEntry(head, r)
		if err != nil {
			return err
		}
		if err := apply(e.Seq, recordedAt, r); err != nil {
			return err
		}
		head = e.Head()
		contents = append(contents, journalfile.EncodeLine(e)...)
		return nil
	}
	// The times are those of the lost journal, so that limits stay taken.
	recordedAt := c.records[0].recordedTime
	err = write(recordedAt, signer.Record{
		Kind: signer.RecordGenesis, AttestKey: hex.EncodeToString(c.attestKey),
		Adopts: &signer.AdoptsBody{
			JournalID: c.last.JournalID, Seq: c.last.Seq, Hash: c.last.Hash, AdoptedAt: signer.FormatTime(now),
		},
	})
	if err != nil {
		return nil, err
	}
	for _, r := range c.records {
		if r.Kind == signer.RecordGenesis {
			continue
		}
		if r.recordedTime.Before(recordedAt) && r.Kind != signer.RecordClock {
			return nil, fmt.Errorf("entry %d is older than the one before it", r.seq)
		}
		recordedAt = r.recordedTime
		err := c.checkForm(r.Record)
		if err == nil {
			err = recheck(r.Record)
		}
		if err == nil {
			err = write(recordedAt, r.Record)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d of the mirror: %w", r.seq, err)
		}
	}
	return contents, nil
}

// checkForm checks a record in itself: its form, and that the seed signed it.
func (c Copy) checkForm(r signer.Record) error {
	var malformed *signer.Refusal
	switch {
	case r.Issue != nil:
		malformed = syntax.CheckWallet(r.Issue.WalletRef)
	case r.Admit != nil:
		malformed = syntax.CheckIntent(*r.Admit)
	case r.Endorse != nil:
		if _, malformed = syntax.CheckEndorsement(r.Endorse.Endorsement); malformed != nil {
			break
		}
		if err := r.Endorse.VerifyProof(c.attestKey); err != nil {
			return err
		}
		if len(r.Endorse.MAC) > 0 {
			return fmt.Errorf("the record of address %s differs", r.Endorse.ID)
		}
	case r.Enrol != nil:
		return r.Enrol.VerifyProof(c.attestKey)
	case r.Rule != nil:
		if malformed = syntax.CheckRule(signer.RuleRequest{ApprovalRule: r.Rule.ApprovalRule}); malformed == nil {
			return r.Rule.VerifyProof(c.attestKey)
		}
	case r.Retire != nil && syntax.CheckIDs(r.Retire.OrgID, r.Retire.ID) != nil:
		malformed = signer.Refuse(signer.RefusedMalformed, "a retirement of nothing")
	case r.Revoke != nil && syntax.CheckIDs(r.Revoke.OrgID, r.Revoke.ID) != nil:
		malformed = signer.Refuse(signer.RefusedMalformed, "a revocation of nothing")
	case r.Void != nil && (syntax.CheckIDs(r.Void.OrgID, r.Void.ID) != nil || len(r.Void.MAC) > 0):
		malformed = signer.Refuse(signer.RefusedMalformed, "a voided payment without its id")
	}
	if malformed != nil {
		return malformed
	}
	return nil
}

// CheckNonces compares the slots of the copy with the chains. The rules have taken over its records.
// It returns an error for a paying wallet whose chain was not queried: that one could be the wallet
// with unknown signatures.
func (c Copy) CheckNonces(reported []ChainNonce) error {
	addresses, nextNonces, err := c.listNonces()
	if err != nil {
		return err
	}
	asked := map[account]bool{}
	for _, r := range reported {
		address, ok := addresses[r.Wallet]
		if !ok {
			if r.NextNonce > 0 {
				return fmt.Errorf("a wallet of %s has paid %d times on %s and the mirror lacks it: the database is "+
					"older than the lost journal",
					r.Wallet.OrgID, r.NextNonce, r.Chain)
			}
			continue
		}
		a := account{address, r.Chain}
		if asked[a] = true; r.NextNonce > nextNonces[a] {
			return fmt.Errorf("%s has used %d nonces on %s and the mirror has %d: the database is older than the "+
				"lost journal, restore its latest backup",
				address, r.NextNonce, r.Chain, nextNonces[a])
		}
	}
	for a := range nextNonces {
		if !asked[a] {
			return fmt.Errorf("%s has paid on %s: ask the chain for its next nonce first", a.address, a.chain)
		}
	}
	return nil
}

// listNonces returns the addresses of the copy and the nonces that come after its slots.
func (c Copy) listNonces() (map[signer.WalletRef]chain.Address, map[account]uint64, error) {
	addresses, intents := map[signer.WalletRef]chain.Address{}, map[string]signer.Intent{}
	nextNonces := map[account]uint64{}
	for _, r := range c.records {
		switch {
		case r.Issue != nil:
			addresses[r.Issue.WalletRef] = r.Issue.Address
		case r.Admit != nil:
			intents[r.Admit.ID] = *r.Admit
		case r.Sign != nil:
			intent, nonce := intents[r.Sign.IntentID], r.Sign.Slot.Nonce
			a := account{addresses[intent.Account()], intent.Chain}
			if nonce == math.MaxUint64 {
				return nil, nil, fmt.Errorf("the mirror has a slot of %s on %s past the last nonce", a.address, a.chain)
			}
			nextNonces[a] = max(nextNonces[a], nonce+1)
		}
	}
	return addresses, nextNonces, nil
}
