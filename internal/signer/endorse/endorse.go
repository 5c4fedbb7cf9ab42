// Package endorse remembers the addresses to which organizations may pay their own money, as the
// journal records them.
//
// An endorsement counts for its organization, chain and address alone, and its words never change. A
// revocation is permanent, also of an endorsement that was never made.
package endorse

import (
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
)

// Book holds the endorsements and revocations of a journal. Only its entries build it.
type Book struct {
	endorsements map[string]Entry // by the id of the endorsement
	revocations  map[string]revocation
}

// Entry is an endorsement in the journal.
type Entry struct {
	signer.EndorseBody
	Seq        uint64
	endorsedAt time.Time // by the journal's time
	usableTime time.Time // UsableFrom
}

type revocation struct {
	org string
	seq uint64
}

// NewBook returns the book of an empty journal.
func NewBook() *Book {
	return &Book{endorsements: map[string]Entry{}, revocations: map[string]revocation{}}
}

// Endorse adds an entry. An error says that the journal contradicts itself.
func (b *Book) Endorse(seq uint64, recordedAt time.Time, e signer.EndorseBody) error {
	if _, twice := b.endorsements[e.ID]; twice {
		return fmt.Errorf("address %s was already endorsed", e.ID)
	}
	if _, revoked := b.revocations[e.ID]; revoked {
		return fmt.Errorf("address %s was revoked before it was endorsed", e.ID)
	}
	usableFrom, err := time.Parse(time.RFC3339Nano, e.UsableFrom)
	if err != nil {
		return fmt.Errorf("address %s is endorsed from no time on: %w", e.ID, err)
	}
	b.endorsements[e.ID] = Entry{e, seq, recordedAt, usableFrom}
	return nil
}

// Revoke adds an entry. An error says that the journal contradicts itself.
func (b *Book) Revoke(seq uint64, r signer.Revocation) error {
	if _, twice := b.revocations[r.ID]; twice {
		return fmt.Errorf("address %s was already revoked", r.ID)
	}
	b.revocations[r.ID] = revocation{r.OrgID, seq}
	return nil
}

// Redate changes the times at which endorsements count as made.
func (b *Book) Redate(change func(time.Time) time.Time) {
	for id, e := range b.endorsements {
		e.endorsedAt = change(e.endorsedAt)
		b.endorsements[id] = e
	}
}

// Find returns the entry of an endorsement that was made before. It refuses one that contradicts the
// journal.
func (b *Book) Find(e signer.Endorsement) (existing Entry, ok bool, refusal *signer.Refusal) {
	if revocation, revoked := b.revocations[e.ID]; revoked {
		return Entry{}, false, signer.Refuse(signer.RefusedWhitelist,
			"address %s was permanently removed from the whitelist in entry %d: add it again, under another id", e.ID,
			revocation.seq)
	}
	if existing, ok = b.endorsements[e.ID]; ok && !existing.HasSameWords(e) {
		return Entry{}, false, signer.Refuse(signer.RefusedWhitelist,
			"address %s was endorsed with another content in entry %d", e.ID, existing.Seq)
	}
	return existing, ok, nil
}

// FindRevocation returns the entry of a revocation that was made before. It refuses one of another
// organization's address.
func (b *Book) FindRevocation(r signer.Revocation) (seq uint64, ok bool, refusal *signer.Refusal) {
	if endorsement, ok := b.endorsements[r.ID]; ok && endorsement.OrgID != r.OrgID {
		return 0, false, signer.Refuse(signer.RefusedWhitelist,
			"address %s was endorsed for another organization in entry %d", r.ID, endorsement.Seq)
	}
	existing, ok := b.revocations[r.ID]
	if ok && existing.org != r.OrgID {
		return 0, false, signer.Refuse(signer.RefusedWhitelist,
			"address %s was revoked for another organization in entry %d", r.ID, existing.seq)
	}
	return existing.seq, ok, nil
}

// FindPaid returns the endorsement that a payment of an organization names, if its fields match.
func (b *Book) FindPaid(intent signer.Intent) (Entry, *signer.Refusal) {
	if intent.WhitelistedID == "" {
		return Entry{}, signer.Refuse(signer.RefusedWhitelist,
			"payment %s has no customer and names no whitelisted address", intent.ID)
	}
	endorsement, ok := b.endorsements[intent.WhitelistedID]
	switch {
	case !ok:
		return endorsement, signer.Refuse(signer.RefusedWhitelist,
			"payment %s goes to address %s, which was never endorsed", intent.ID, intent.WhitelistedID)
	case endorsement.OrgID != intent.From.OrgID || endorsement.Chain != intent.Chain ||
		endorsement.Address != intent.To:
		return endorsement, signer.Refuse(signer.RefusedWhitelist,
			"payment %s of %s goes to %s on %s, and address %s was endorsed in entry %d for another organization, "+
				"chain or address",
			intent.ID, intent.From.OrgID, intent.To, intent.Chain, intent.WhitelistedID, endorsement.Seq)
	}
	return endorsement, nil
}

// CheckPayment refuses a payment to an address that is not endorsed for it, that was revoked, or
// that cools off: from its endorsement, or from a later adoption of the journal. Rules OW-6 and OP-8.
func (b *Book) CheckPayment(
	intent signer.Intent, adoptedAt time.Time, coolingOff time.Duration, now time.Time,
) *signer.Refusal {
	endorsement, refusal := b.FindPaid(intent)
	if refusal != nil {
		return refusal
	}
	if revocation, ok := b.revocations[intent.WhitelistedID]; ok {
		return signer.Refuse(signer.RefusedWhitelist,
			"payment %s goes to address %s, which was removed from the whitelist in entry %d", intent.ID,
			intent.WhitelistedID, revocation.seq)
	}
	usableFrom := endorsement.endorsedAt
	if usableFrom.Before(adoptedAt) {
		usableFrom = adoptedAt
	}
	usableFrom = usableFrom.Add(coolingOff)
	if usableFrom.Before(endorsement.usableTime) {
		usableFrom = endorsement.usableTime
	}
	if now.Before(usableFrom) {
		return signer.Refuse(signer.CoolingOff, "payment %s goes to address %s, which may be paid from %s on",
			intent.ID, intent.WhitelistedID, signer.FormatTime(usableFrom))
	}
	return nil
}

// CheckNotRevoked refuses a payment that was admitted before its address was revoked.
func (b *Book) CheckNotRevoked(intent signer.Intent) *signer.Refusal {
	if _, revoked := b.revocations[intent.WhitelistedID]; revoked {
		return signer.Refuse(signer.PolicyLimit,
			"address %s, which payment %s goes to, was removed from the whitelist after the admission",
			intent.WhitelistedID, intent.ID)
	}
	return nil
}
