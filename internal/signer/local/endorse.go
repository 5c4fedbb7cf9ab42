package local

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
)

// Endorse remembers an address that an organization may be paid out to.
func (s *Signer) Endorse(ctx context.Context, e signer.Endorsement) (signer.Endorsed, error) {
	if err := ctx.Err(); err != nil {
		return signer.Endorsed{}, err
	}
	notBefore, no := checkEndorsement(e)
	if no != nil {
		return signer.Endorsed{}, no
	}
	body, seq, err := s.endorse(e, notBefore)
	if err != nil {
		return signer.Endorsed{}, err
	}
	entry, err := s.journal.durable(seq)
	if err != nil {
		return signer.Endorsed{}, err
	}
	return signer.Endorsed{EndorseBody: body, Entry: entry}, nil
}

func (s *Signer) endorse(e signer.Endorsement, notBefore time.Time) (signer.EndorseBody, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	none := signer.EndorseBody{}
	if gone, ok := s.index.revoked[e.ID]; ok {
		return none, 0, refuse(signer.RefusedWhitelist, "address %s was taken from the whitelist for ever in entry %d: add it again, under an id of its own", e.ID, gone.seq)
	}
	if known, ok := s.index.endorsed[e.ID]; ok {
		if !known.Same(e) {
			return none, 0, refuse(signer.RefusedWhitelist, "address %s was endorsed with other words in entry %d", e.ID, known.seq)
		}
		return known.EndorseBody, known.seq, nil
	}
	if no := s.conf.Grants.CheckEndorsement(e); no != nil {
		return none, 0, no
	}
	e.MAC = nil
	if _, ok := s.conf.Policy.Chains[e.Chain]; !ok {
		return none, 0, refuse(signer.RefusedNotConfigured, "the policy does not name chain %q: add it under chains", e.Chain)
	}
	if _, ours := s.index.owners[owned{e.Chain.Family(), e.Address}]; ours {
		return none, 0, refuse(signer.RefusedDestination, "%s is an address of this installation", e.Address)
	}
	at, ahead := s.time()
	if ahead > 0 {
		// A cooling-off that begins before the time is known could be over at once.
		return none, 0, s.unconfirmed(ahead)
	}
	from := at.Add(s.conf.Policy.coolingOff())
	if from.Before(notBefore) {
		from = notBefore
	}
	body := signer.EndorseBody{Endorsement: e, UsableFrom: signer.Moment(from)}
	body.Proof = s.attest.Endorse(body)
	seq, err := s.appendAt(at, signer.Record{Kind: signer.RecordEndorse, Endorse: &body})
	return body, seq, err
}

// Revoke takes an endorsement back.
func (s *Signer) Revoke(ctx context.Context, r signer.Revocation) (signer.Entry, error) {
	if err := ctx.Err(); err != nil {
		return signer.Entry{}, err
	}
	if !word(r.OrgID) || !word(r.ID) {
		return signer.Entry{}, refuse(signer.RefusedMalformed, "orgId, id: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	}
	seq, err := s.revoke(r)
	if err != nil {
		return signer.Entry{}, err
	}
	entry, err := s.journal.durable(seq)
	if err != nil {
		return signer.Entry{}, err
	}
	return entry, nil
}

func (s *Signer) revoke(r signer.Revocation) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.index.endorsed[r.ID]; ok && known.OrgID != r.OrgID {
		return 0, refuse(signer.RefusedWhitelist, "address %s was endorsed for another organization in entry %d", r.ID, known.seq)
	}
	if gone, ok := s.index.revoked[r.ID]; ok {
		if gone.org != r.OrgID {
			return 0, refuse(signer.RefusedWhitelist, "address %s was revoked for another organization in entry %d", r.ID, gone.seq)
		}
		return gone.seq, nil
	}
	return s.append(signer.Record{Kind: signer.RecordRevoke, Revoke: &r})
}

// whitelisted is the rule of an organization's own payments: they go where the journal
// says that they may, and nowhere else.
func (s *Signer) whitelisted(i signer.Intent, now time.Time) *signer.Refusal {
	if i.Purpose != signer.Payment || i.CustomerID != "" || s.conf.Rescue {
		return nil
	}
	known, no := s.endorsement(i)
	if no != nil {
		return no
	}
	if gone, ok := s.index.revoked[i.WhitelistedID]; ok {
		return refuse(signer.RefusedWhitelist, "payment %s goes to address %s, which was taken from the whitelist in entry %d", i.ID, i.WhitelistedID, gone.seq)
	}
	from := known.at
	if from.Before(s.index.adopted) {
		from = s.index.adopted
	}
	from = from.Add(s.conf.Policy.coolingOff())
	if from.Before(known.from) {
		from = known.from
	}
	if now.Before(from) {
		return refuse(signer.CoolingOff, "payment %s goes to address %s, which may be paid from %s on", i.ID, i.WhitelistedID, stamp(from))
	}
	return nil
}

// endorsement is what a payment of an organization names, with just its words.
func (s *Signer) endorsement(i signer.Intent) (endorsed, *signer.Refusal) {
	if i.WhitelistedID == "" {
		return endorsed{}, refuse(signer.RefusedWhitelist, "payment %s is of no customer and names no whitelisted address", i.ID)
	}
	known, ok := s.index.endorsed[i.WhitelistedID]
	switch {
	case !ok:
		return known, refuse(signer.RefusedWhitelist, "payment %s goes to address %s, which was never endorsed", i.ID, i.WhitelistedID)
	case known.OrgID != i.From.OrgID || known.Chain != i.Chain || known.Address != i.To:
		return known, refuse(signer.RefusedWhitelist, "payment %s of %s goes to %s on %s, and address %s was endorsed in entry %d for another organization, chain or address",
			i.ID, i.From.OrgID, i.To, i.Chain, i.WhitelistedID, known.seq)
	}
	return known, nil
}

func checkEndorsement(e signer.Endorsement) (notBefore time.Time, no *signer.Refusal) {
	hash, err := hex.DecodeString(e.LabelHash)
	notBefore, at := time.Parse(time.RFC3339Nano, e.NotBefore)
	switch {
	case !word(e.OrgID) || !word(e.ID):
		no = refuse(signer.RefusedMalformed, "orgId, id: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case families[e.Chain.Family()] == nil:
		no = refuse(signer.RefusedMalformed, "chain: %.80q is none that this signer has keys for", e.Chain)
	case !families[e.Chain.Family()].canonical(e.Address):
		no = refuse(signer.RefusedMalformed, "address: %.80q is no address in its canonical form", e.Address)
	case err != nil || len(hash) != 32 || hex.EncodeToString(hash) != e.LabelHash:
		no = refuse(signer.RefusedMalformed, "labelHash: give hex SHA-256")
	case at != nil || signer.Moment(notBefore) != e.NotBefore:
		no = refuse(signer.RefusedMalformed, "notBefore: give a time of RFC 3339 in UTC, to the microsecond")
	}
	return notBefore, no
}

// recheckEndorsement asks of an endorsement in a copied journal whether this seed made
// it.
func (s *Signer) recheckEndorsement(e signer.EndorseBody) error {
	if _, no := checkEndorsement(e.Endorsement); no != nil {
		return no
	}
	if err := e.Check(s.attest.Public()); err != nil {
		return err
	}
	if len(e.MAC) > 0 {
		return fmt.Errorf("address %s was not remembered like that", e.ID)
	}
	return nil
}
