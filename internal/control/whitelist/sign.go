package whitelist

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Approvers knows the operators' rule and their passkeys, as the signer recorded them.
type Approvers interface {
	// LoadRule returns the rule that holds as the transaction sees it, or nil.
	LoadRule(ctx context.Context, tx pg.Tx, org string) (*signer.ApprovalRule, error)
	// CheckSignature verifies a signature as the signer will. A fault says in plain words why it is not valid; any
	// other error leaves that open.
	CheckSignature(ctx context.Context, tx pg.Tx, org, person string, right signer.Right, signature signer.KeySignature,
		statement func(signer.StatementContext) signer.Statement) error
	// Context returns what a statement says beside what it is about.
	Context(person, notAfter string) signer.StatementContext
}

// Signing is what an operator sees before an entry is signed.
type Signing struct {
	Entry Entry
	// People is how many operators have to sign an entry by their rule; 0: an entry needs no signature.
	People int
	// SignedBy are the operators whose signatures count, in the order in which they came.
	SignedBy  []string
	statement func(person, notAfter string) signer.Statement
}

// IsWanted reports whether the entry waits for the signature of a person.
func (s Signing) IsWanted(person string, now time.Time) bool {
	return s.People > 0 && s.Entry.Status(now) == StatusWaiting && !slices.Contains(s.SignedBy, person)
}

// Statement returns the words that a person signs. The signer builds the same words.
func (s Signing) Statement(person, notAfter string) signer.Statement {
	if s.statement == nil {
		return nil
	}
	return s.statement(person, notAfter)
}

// storedSignature is a signature of an entry, and who gave it.
type storedSignature struct {
	person    string
	signature signer.KeySignature
}

// LoadSigning returns who has to sign an entry and its words, in a system transaction. Error: NOT_FOUND.
func (b *Service) LoadSigning(ctx context.Context, tx pg.Tx, orgID, name string) (Signing, error) {
	e, err := b.ByID(ctx, tx, orgID, name)
	if err != nil || b.conf.Approvers == nil {
		return Signing{Entry: e}, err
	}
	s := Signing{Entry: e, statement: func(person, notAfter string) signer.Statement {
		return e.statement(b.conf.Approvers.Context(person, notAfter))
	}}
	rule, err := b.conf.Approvers.LoadRule(ctx, tx, signer.Operators)
	if err != nil {
		return Signing{}, err
	}
	if rule != nil {
		s.People = rule.Quorum
	}
	signatures, err := b.loadSignatures(ctx, tx, e)
	for _, g := range signatures {
		s.SignedBy = append(s.SignedBy, g.person)
	}
	return s, err
}

// statement returns the words of an entry.
func (e Entry) statement(c signer.StatementContext) signer.Statement {
	words := e.endorsement()
	words.Label = e.Label
	return signer.EndorseStatement(words, c)
}

// loadSignatures returns the signatures of an entry that still count, one of each operator. One by a passkey that was
// retired meanwhile is left out: the signer would refuse all of them.
func (b *Service) loadSignatures(ctx context.Context, tx pg.Tx, e Entry) (found []storedSignature, err error) {
	rows, err := tx.Query(ctx, `
		SELECT signed_by, signature FROM (
			SELECT DISTINCT ON (signed_by) * FROM whitelist_signatures
			WHERE whitelisted_address_id = $1 AND not_after > $2 ORDER BY signed_by, not_after DESC
		) g ORDER BY at, signed_by`, e.ID, tx.Now)
	if err != nil {
		return nil, fmt.Errorf("read the signatures of %s: %w", e.ID, err)
	}
	stored, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g storedSignature, err error) {
		err = row.Scan(&g.person, &g.signature)
		return g, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the signatures of %s: %w", e.ID, err)
	}
	for _, g := range stored {
		err := b.conf.Approvers.CheckSignature(ctx, tx, signer.Operators, g.person, signer.RightApprove, g.signature,
			e.statement)
		if fault.Find(err) != nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("verify a signature of %s: %w", e.ID, err)
		}
		found = append(found, g)
	}
	return found, nil
}

// makeRequest returns what the signer is asked for: the entry, with the signatures of one that waits for them.
func (b *Service) makeRequest(ctx context.Context, e Entry) (signer.Endorsement, error) {
	request := e.endorsement()
	if b.conf.Approvers == nil || e.Endorsed && e.WaitsFor == "" {
		return request, nil
	}
	err := b.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		request.SignedBy = nil
		signatures, err := b.loadSignatures(ctx, tx, e)
		for _, g := range signatures {
			request.Label, request.SignedBy = e.Label, append(request.SignedBy, g.signature)
		}
		return err
	})
	return request, err
}

// SignEntry records an operator's signature of an entry that waits for it, in a system transaction. After the commit
// the caller calls FinishEntry, which sends the signatures to the signer. Faults:
//
//   - NOT_FOUND,
//   - INVALID_STATE for an entry that does not wait, without a rule of the operators, and for a second signature,
//   - INVALID_REQUEST for a signature that is not valid.
//
// Rules SA-7 and SA-18.
func (b *Service) SignEntry(
	ctx context.Context, tx pg.Tx, actor audit.Actor, orgID, name string, signature signer.KeySignature,
) error {
	if err := pg.LockExclusive(ctx, tx, lockName(orgID)); err != nil {
		return err
	}
	s, err := b.LoadSigning(ctx, tx, orgID, name)
	if err != nil {
		return err
	}
	person := actor.Kind + " " + actor.ID
	conflict := func(advice, format string, args ...any) error {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten, format, args...).
			WithAdvice("%s", advice)
	}
	switch status := s.Entry.Status(tx.Now); {
	case s.People == 0:
		return conflict("Open the page of the address again.",
			"The operators have no rule, so no one signs an address of a whitelist.")
	case status != StatusWaiting:
		return conflict("Look at its state.", "This address waits for no signature: it is %s.", status)
	case slices.Contains(s.SignedBy, person):
		return conflict("Another operator has to sign it, too.",
			"You have already signed this address, and each person counts once.")
	}
	err = b.conf.Approvers.CheckSignature(ctx, tx, signer.Operators, person, signer.RightApprove, signature,
		s.Entry.statement)
	if err != nil {
		return fmt.Errorf("verify the signature of %s: %w", name, err)
	}
	notAfter, err := time.Parse(time.RFC3339Nano, signature.NotAfter)
	if err != nil {
		return fmt.Errorf("the signature of %s has no end: %w", name, err)
	}
	encoded, err := json.Marshal(signature)
	if err != nil {
		return fmt.Errorf("write the signature of %s: %w", name, err)
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO whitelist_signatures (org_id, whitelisted_address_id, by_key_id, signed_by, not_after, signature,
			at)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
		orgID, name, signature.KeyID, person, notAfter, encoded, tx.Now)
	if err != nil {
		return fmt.Errorf("sign %s: %w", name, err)
	}
	if tag.RowsAffected() == 0 {
		return nil
	}
	return audit.Record(ctx, tx, s.Entry.auditEntry(actor, "whitelist.signed", map[string]any{
		"with": signature.KeyID, "approvals": len(s.SignedBy) + 1, "required": s.People,
	}))
}
