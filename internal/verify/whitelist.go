package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// checkWhitelist compares every whitelisted address with the copy of the signer's journal. What the
// signer endorsed must equal the row exactly, and what it revoked must be on no list. The signer's
// own proof is checked at every use of an address, with a key that is not in the database.
func checkWhitelist(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
	type place struct {
		journal string
		seq     int64
	}
	endorsed, revoked := map[place]signer.EndorseBody{}, map[string]bool{}
	rows, err := tx.Query(ctx, `
		SELECT journal_id, seq, body FROM signer_journal
		WHERE substr(body, 1, 17) = '{"kind":"ENDORSE"' OR substr(body, 1, 16) = '{"kind":"REVOKE"'`)
	if err != nil {
		return nil, err
	}
	var entry place
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&entry.journal, &entry.seq, &body}, func() error {
		var r signer.Record
		if err := json.Unmarshal(body, &r); err != nil {
			found = append(found, Breach{
				Subject: fmt.Sprintf("entry %d of %s", entry.seq, entry.journal),
				Detail:  "cannot be read: " + err.Error(),
			})
		}
		switch {
		case r.Endorse != nil:
			endorsed[entry] = *r.Endorse
		case r.Revoke != nil:
			revoked[r.Revoke.ID] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows, err = tx.Query(ctx, `
		SELECT whitelisted_address_id, org_id, chain, address, label, not_before, coalesce(usable_from, not_before), coalesce(proof, ''),
			coalesce(journal_id, ''), coalesce(journal_seq, 0), proof IS NOT NULL, refusal IS NOT NULL, removed_at IS NOT NULL, revoked_seq IS NOT NULL
		FROM whitelisted_addresses`)
	if err != nil {
		return nil, err
	}
	var e signer.EndorseBody
	var label string
	var notBefore, usableFrom time.Time
	var isEndorsed, isRefused, isRemoved, isRevoked bool
	_, err = pgx.ForEachRow(rows,
		[]any{
			&e.ID, &e.OrgID, &e.Chain, &e.Address, &label, &notBefore, &usableFrom, &e.Proof, &entry.journal,
			&entry.seq, &isEndorsed, &isRefused, &isRemoved, &isRevoked,
		}, func() error {
			e.LabelHash, e.NotBefore, e.UsableFrom = signer.HashLabel(label), signer.FormatMicros(notBefore),
				signer.FormatMicros(usableFrom)
			add := func(format string, args ...any) {
				found = append(
					found,
					Breach{
						OrgID: e.OrgID, Subject: "whitelisted address " + e.ID, Detail: fmt.Sprintf(format, args...),
					},
				)
			}
			if attested, ok := endorsed[entry]; isEndorsed && (!ok || !attested.HasSameWords(
				e.Endorsement,
			) || attested.UsableFrom != e.UsableFrom || !bytes.Equal(attested.Proof, e.Proof)) {
				add("differs from what the signer endorsed in entry %d of %s", entry.seq, entry.journal)
			}
			switch {
			case !isRemoved && revoked[e.ID] && !isRefused:
				add("is on the list, and the signer has revoked it")
			case isRevoked && !revoked[e.ID]:
				add("is removed, and the signer's journal does not have the removal")
			}
			return nil
		})
	return found, err
}
