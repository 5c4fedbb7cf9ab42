package local

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
)

// EndorseAddress records an address to which an organization may pay out.
func (s *Signer) EndorseAddress(ctx context.Context, e signer.Endorsement) (signer.EndorsedAddress, error) {
	if err := ctx.Err(); err != nil {
		return signer.EndorsedAddress{}, err
	}
	notBefore, refusal := checkEndorsement(e)
	if refusal != nil {
		return signer.EndorsedAddress{}, refusal
	}
	body, seq, err := s.recordEndorsement(e, notBefore)
	if err != nil {
		return signer.EndorsedAddress{}, err
	}
	entry, err := s.journal.waitDurable(seq)
	if err != nil {
		return signer.EndorsedAddress{}, err
	}
	return signer.EndorsedAddress{EndorseBody: body, Entry: entry}, nil
}

func (s *Signer) recordEndorsement(e signer.Endorsement, notBefore time.Time) (signer.EndorseBody, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	empty := signer.EndorseBody{}
	if revocation, ok := s.index.revocations[e.ID]; ok {
		return empty, 0, refuse(signer.RefusedWhitelist,
			"address %s was permanently removed from the whitelist in entry %d: add it again, under another id", e.ID,
			revocation.seq)
	}
	if existing, ok := s.index.endorsements[e.ID]; ok {
		if !existing.HasSameWords(e) {
			return empty, 0, refuse(signer.RefusedWhitelist, "address %s was endorsed with another content in entry %d",
				e.ID, existing.seq)
		}
		return existing.EndorseBody, existing.seq, nil
	}
	if refusal := s.conf.Grants.CheckEndorsement(e); refusal != nil {
		return empty, 0, refusal
	}
	e.MAC = nil
	if _, ok := s.conf.Policy.Chains[e.Chain]; !ok {
		return empty, 0, refuse(signer.RefusedNotConfigured, "the policy does not name chain %q: add it under chains",
			e.Chain)
	}
	if _, isOwn := s.index.addressOwners[familyAddress{e.Chain.Family(), e.Address}]; isOwn {
		return empty, 0, refuse(signer.RefusedDestination, "%s is an address of this installation", e.Address)
	}
	now, ahead := s.journalTime()
	if ahead > 0 {
		// A cooling-off that starts before the time is confirmed could be over at once.
		return empty, 0, s.refuseUnconfirmed(ahead)
	}
	usableFrom := now.Add(s.conf.Policy.coolingOff())
	if usableFrom.Before(notBefore) {
		usableFrom = notBefore
	}
	body := signer.EndorseBody{Endorsement: e, UsableFrom: signer.FormatMicros(usableFrom)}
	body.Proof = s.attestKey.SignEndorsement(body)
	seq, err := s.appendRecordAt(now, signer.Record{Kind: signer.RecordEndorse, Endorse: &body})
	return body, seq, err
}

// RevokeEndorsement revokes an endorsement.
func (s *Signer) RevokeEndorsement(ctx context.Context, r signer.Revocation) (signer.Entry, error) {
	if err := ctx.Err(); err != nil {
		return signer.Entry{}, err
	}
	if !isValidWord(r.OrgID) || !isValidWord(r.ID) {
		return signer.Entry{}, refuse(signer.RefusedMalformed, "orgId, id: give 1 to %d bytes of UTF-8 without NUL",
			wordBytesMax)
	}
	seq, err := s.recordRevocation(r)
	if err != nil {
		return signer.Entry{}, err
	}
	entry, err := s.journal.waitDurable(seq)
	if err != nil {
		return signer.Entry{}, err
	}
	return entry, nil
}

func (s *Signer) recordRevocation(r signer.Revocation) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if endorsement, ok := s.index.endorsements[r.ID]; ok && endorsement.OrgID != r.OrgID {
		return 0, refuse(signer.RefusedWhitelist, "address %s was endorsed for another organization in entry %d", r.ID,
			endorsement.seq)
	}
	if existing, ok := s.index.revocations[r.ID]; ok {
		if existing.org != r.OrgID {
			return 0, refuse(signer.RefusedWhitelist, "address %s was revoked for another organization in entry %d",
				r.ID, existing.seq)
		}
		return existing.seq, nil
	}
	return s.appendRecord(signer.Record{Kind: signer.RecordRevoke, Revoke: &r})
}

// paysOwnMoney reports whether an intent pays an organization's own money, not a customer's.
func paysOwnMoney(intent signer.Intent) bool {
	return intent.Kind().MayPayOwnMoney && intent.CustomerID == ""
}

// checkWhitelisted checks that an organization's own payment goes to an address that the journal
// has endorsed and that may be paid by now. Rules OW-6 and OP-8.
func (s *Signer) checkWhitelisted(intent signer.Intent, now time.Time) *signer.Refusal {
	if !paysOwnMoney(intent) || s.conf.Rescue {
		return nil
	}
	endorsement, refusal := s.findEndorsement(intent)
	if refusal != nil {
		return refusal
	}
	if revocation, ok := s.index.revocations[intent.WhitelistedID]; ok {
		return refuse(signer.RefusedWhitelist,
			"payment %s goes to address %s, which was removed from the whitelist in entry %d", intent.ID,
			intent.WhitelistedID, revocation.seq)
	}
	usableFrom := endorsement.endorsedAt
	if usableFrom.Before(s.index.adoptedAt) {
		usableFrom = s.index.adoptedAt
	}
	usableFrom = usableFrom.Add(s.conf.Policy.coolingOff())
	if usableFrom.Before(endorsement.usableTime) {
		usableFrom = endorsement.usableTime
	}
	if now.Before(usableFrom) {
		return refuse(signer.CoolingOff, "payment %s goes to address %s, which may be paid from %s on", intent.ID,
			intent.WhitelistedID, formatTime(usableFrom))
	}
	return nil
}

// findEndorsement returns the endorsement that a payment of an organization names, if its fields
// match.
func (s *Signer) findEndorsement(intent signer.Intent) (endorsementEntry, *signer.Refusal) {
	if intent.WhitelistedID == "" {
		return endorsementEntry{}, refuse(signer.RefusedWhitelist,
			"payment %s has no customer and names no whitelisted address", intent.ID)
	}
	endorsement, ok := s.index.endorsements[intent.WhitelistedID]
	switch {
	case !ok:
		return endorsement, refuse(signer.RefusedWhitelist, "payment %s goes to address %s, which was never endorsed",
			intent.ID, intent.WhitelistedID)
	case endorsement.OrgID != intent.From.OrgID || endorsement.Chain != intent.Chain ||
		endorsement.Address != intent.To:
		return endorsement, refuse(signer.RefusedWhitelist,
			"payment %s of %s goes to %s on %s, and address %s was endorsed in entry %d for another organization, "+
				"chain or address",
			intent.ID, intent.From.OrgID, intent.To, intent.Chain, intent.WhitelistedID, endorsement.seq)
	}
	return endorsement, nil
}

func checkEndorsement(e signer.Endorsement) (notBefore time.Time, refusal *signer.Refusal) {
	hash, err := hex.DecodeString(e.LabelHash)
	notBefore, timeErr := time.Parse(time.RFC3339Nano, e.NotBefore)
	switch {
	case !isValidWord(e.OrgID) || !isValidWord(e.ID):
		refusal = refuse(signer.RefusedMalformed, "orgId, id: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case codecs[e.Chain.Family()] == nil:
		refusal = refuse(signer.RefusedMalformed, "chain: this signer has no keys for %.80q", e.Chain)
	case !codecs[e.Chain.Family()].isCanonical(e.Address):
		refusal = refuse(signer.RefusedMalformed, "address: %.80q is not an address in its canonical form", e.Address)
	case err != nil || len(hash) != 32 || hex.EncodeToString(hash) != e.LabelHash:
		refusal = refuse(signer.RefusedMalformed, "labelHash: give hex SHA-256")
	case timeErr != nil || signer.FormatMicros(notBefore) != e.NotBefore:
		refusal = refuse(signer.RefusedMalformed, "notBefore: give a time of RFC 3339 in UTC, to the microsecond")
	}
	return notBefore, refusal
}

// recheckEndorsement checks that this seed made an endorsement of a copied journal.
func (s *Signer) recheckEndorsement(e signer.EndorseBody) error {
	if _, refusal := checkEndorsement(e.Endorsement); refusal != nil {
		return refusal
	}
	if err := e.VerifyProof(s.attestKey.PublicKey()); err != nil {
		return err
	}
	if len(e.MAC) > 0 {
		return fmt.Errorf("the record of address %s differs", e.ID)
	}
	return nil
}
