package local

import (
	"context"

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/signer"
)

// voidEntry is a payment or return that people recalled.
type voidEntry struct {
	org string
	seq uint64
}

// VoidIntent records that a payment is never made.
func (s *Signer) VoidIntent(ctx context.Context, v signer.Void) (signer.Entry, error) {
	if err := ctx.Err(); err != nil {
		return signer.Entry{}, err
	}
	if !isValidWord(v.OrgID) || !isValidWord(v.ID) {
		return signer.Entry{}, refuse(signer.RefusedMalformed, "orgId, id: give 1 to %d bytes of UTF-8 without NUL",
			wordBytesMax)
	}
	seq, err := s.recordVoid(v)
	if err != nil {
		return signer.Entry{}, err
	}
	failpoint.Hit("V02")
	e, err := s.journal.waitDurable(seq)
	if err != nil {
		return signer.Entry{}, err
	}
	failpoint.Hit("V03")
	return e, nil
}

func (s *Signer) recordVoid(v signer.Void) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if existing, ok := s.index.voids[v.ID]; ok {
		if existing.org != v.OrgID {
			return 0, refuse(signer.RefusedVoid, "payment %s was voided for another organization in entry %d", v.ID,
				existing.seq)
		}
		return existing.seq, nil
	}
	if refusal := s.conf.Grants.CheckVoid(v); refusal != nil {
		return 0, refusal
	}
	if intent := s.index.intents[v.ID]; intent != nil {
		switch {
		case intent.From.OrgID != v.OrgID:
			return 0, refuse(signer.RefusedIntent, "intent %s was admitted for another organization in entry %d", v.ID,
				intent.seq)
		case !isOutgoing(intent.Intent):
			return 0, refuse(signer.RefusedIntent, "intent %s pays no external payee, so it cannot be voided", v.ID)
		case intent.slot != nil:
			return 0, refuse(signer.RefusedSlot,
				"intent %s has %v of its account, and only a transaction mined in it ends it: the database that "+
					"takes it back does not have what was signed",
				v.ID, *intent.slot)
		}
	}
	v.MAC = nil
	return s.appendRecord(signer.Record{Kind: signer.RecordVoid, Void: &v})
}

// checkNotVoided refuses an intent that was voided. Rule WD-50.
func (x *journalIndex) checkNotVoided(id string) *signer.Refusal {
	void, ok := x.voids[id]
	if !ok {
		return nil
	}
	return refuse(signer.RefusedVoid,
		"payment %s was voided in entry %d of the journal and is never made: request it again under another id",
		id, void.seq)
}
