package local

import (
	"context"

	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/signer"
)

// voided is a payment or return that people took back.
type voided struct {
	org string
	seq uint64
}

// Void remembers that a payment is never made.
func (s *Signer) Void(ctx context.Context, v signer.Void) (signer.Entry, error) {
	if err := ctx.Err(); err != nil {
		return signer.Entry{}, err
	}
	if !word(v.OrgID) || !word(v.ID) {
		return signer.Entry{}, refuse(signer.RefusedMalformed, "orgId, id: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	}
	seq, err := s.void(v)
	if err != nil {
		return signer.Entry{}, err
	}
	crash.Point("V02")
	e, err := s.journal.durable(seq)
	if err != nil {
		return signer.Entry{}, err
	}
	crash.Point("V03")
	return e, nil
}

func (s *Signer) void(v signer.Void) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.index.voids[v.ID]; ok {
		if known.org != v.OrgID {
			return 0, refuse(signer.RefusedVoid, "payment %s was voided for another organization in entry %d", v.ID, known.seq)
		}
		return known.seq, nil
	}
	if no := s.conf.Grants.CheckVoid(v); no != nil {
		return 0, no
	}
	if i := s.index.intents[v.ID]; i != nil {
		switch {
		case i.From.OrgID != v.OrgID:
			return 0, refuse(signer.RefusedIntent, "intent %s was admitted for another organization in entry %d", v.ID, i.seq)
		case !outward(i.Intent):
			return 0, refuse(signer.RefusedIntent, "intent %s pays nobody outside, so nothing of it is voided", v.ID)
		case i.slot != nil:
			return 0, refuse(signer.RefusedSlot, "intent %s has %v of its account, and only what is mined in it ends it: the database that takes it back does not know what was signed", v.ID, *i.slot)
		}
	}
	v.MAC = nil
	return s.append(signer.Record{Kind: signer.RecordVoid, Void: &v})
}

// live refuses an intent that was voided.
func (x *index) live(id string) *signer.Refusal {
	gone, ok := x.voids[id]
	if !ok {
		return nil
	}
	return refuse(signer.RefusedVoid, "payment %s was taken back by people in entry %d of the journal and is never made: request it anew under an id of its own", id, gone.seq)
}
