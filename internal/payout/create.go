package payout

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
)

// CreateRequest asks for a batch.
type CreateRequest struct {
	Lines          []rowfile.Line
	UseDecimal     bool    // amounts are in whole tokens
	IdempotencyKey *string // nil: every call makes another batch
	Actor          audit.Actor
}

// ProblemsDetail names the problems of all rows in the details of the fault of Create.
const ProblemsDetail = "problems"

// Create makes a batch as a draft. All rows are read, and one answer has every problem of every row; with one,
// nothing is written. A known key returns its batch as it is now. Errors: faults INVALID_REQUEST, with the problems
// in its details, and IDEMPOTENCY_CONFLICT. Rules BP-1 and BP-4.
func (s *Service) Create(ctx context.Context, org string, r CreateRequest) (b Batch, err error) {
	if r.IdempotencyKey != nil && !request.IsKey(*r.IdempotencyKey) {
		return b, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"An idempotency key has to have 1 to %d printable ASCII characters and no space.", request.KeyBytesMax).
			WithParam("idempotencyKey")
	}
	var mints mint.Catalogue
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return b, fmt.Errorf("make a batch of %s: %w", org, err)
	}
	rows, problems := rowfile.Check(r.Lines, mints, r.UseDecimal)
	items, misaddressed := s.newItems(rows)
	if problems = append(problems, misaddressed...); len(problems) > 0 {
		return b, newProblems(problems)
	}
	digest := contenthash.ComputeListHash(contentRows(items))
	b = Batch{
		ID: id.New(batchPrefix, s.DB.Clock()()), OrgID: org, Version: 1, Status: Draft,
		IdempotencyKey: r.IdempotencyKey,
		Maker:          r.Actor, digest: digest[:],
	}
	if r.IdempotencyKey != nil {
		b.ID = id.Derive(batchPrefix, org, *r.IdempotencyKey)
		earlier, isKnown, err := s.findKnown(ctx, org, b)
		if err != nil || isKnown {
			return earlier, err
		}
	}
	if b.Header, err = contenthash.Seal(org, b.ID, contenthash.Strict, actorName(r.Actor),
		contentRows(items)); err != nil {
		return b,
			newProblems([]rowfile.Problem{{Message: "The sum of the rows is larger than the largest possible amount."}})
	}
	b.ContentHash = b.Header.ComputeHash()
	err = s.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		b.CreatedAt = tx.Now
		if err := insertBatch(ctx, tx, b, items); err != nil {
			return err
		}
		return audit.Record(ctx, tx, newEntry(b, r.Actor, "created", map[string]any{
			"contentHash": b.ContentHash, "rows": b.Header.Rows, "totals": b.Header.Totals,
		}))
	})
	if b.IdempotencyKey != nil && (pg.ViolatesConstraint(err, "payout_batches_pkey") ||
		pg.ViolatesConstraint(err, "payout_batches_key_unique") || errors.Is(err, pg.ErrCommitUnknown)) {
		if earlier, isKnown, lookErr := s.findKnown(ctx, org, b); lookErr != nil || isKnown {
			return earlier, lookErr
		}
	}
	if err != nil {
		return Batch{}, fmt.Errorf("make batch %s: %w", b.ID, err)
	}
	return b, nil
}

// findKnown returns the batch that has the key of a new one.
func (s *Service) findKnown(ctx context.Context, org string, b Batch) (earlier Batch, isKnown bool, err error) {
	earlier, err = s.ByID(ctx, org, b.ID)
	switch {
	case fault.HasCode(err, fault.CodeNotFound):
		return Batch{}, false, nil
	case err != nil:
		return Batch{}, false, err
	case string(earlier.digest) != string(b.digest):
		return Batch{}, false, fault.New(fault.Conflict, fault.IdempotencyConflict, fault.NothingWritten,
			"This idempotencyKey belongs to %s, a batch payout of another list.", earlier.ID).
			WithAdvice("Repeat the original list to see that batch, or use a new key for a new one.").
			WithParam("idempotencyKey").WithExtra("existingId", earlier.ID)
	}
	return earlier, true, nil
}

// Check says what is wrong with the rows of a list, as Create would, and writes nothing. Rule BP-1.
func (s *Service) Check(
	ctx context.Context, lines []rowfile.Line, isDecimal bool,
) (problems []rowfile.Problem, err error) {
	var mints mint.Catalogue
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check a list: %w", err)
	}
	rows, problems := rowfile.Check(lines, mints, isDecimal)
	_, misaddressed := s.newItems(rows)
	return append(problems, misaddressed...), nil
}

// newProblems returns the answer to a list with rows that cannot be paid.
func newProblems(problems []rowfile.Problem) error {
	bad := map[int]bool{}
	for _, p := range problems {
		bad[p.Row] = true
	}
	first := problems[0].Message
	if problems[0].Row > 0 {
		first = fmt.Sprintf("Row %d: %s", problems[0].Row, first)
	}
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"%d rows of the list cannot be paid as they are written. %s", len(bad), first).
		WithAdvice("Correct every row that details.problems names, and send the whole list again.").
		WithDetail(ProblemsDetail, problems)
}

// newItems returns the rows with their salts and with addresses in their canonical form, and what is wrong with the
// addresses.
func (s *Service) newItems(rows []rowfile.Row) (items []Item, problems []rowfile.Problem) {
	for _, r := range rows {
		address, problem := s.parseAddress(r.Mint, r.ToAddress)
		if problem != "" {
			problems = append(problems, rowfile.Problem{
				Row: r.Number, Line: r.Line, Column: "toAddress",
				Message: problem,
			})
			continue
		}
		salt := make([]byte, contenthash.SaltBytes)
		_, _ = rand.Read(salt) // it never fails
		items = append(items, Item{Line: r.Line, Row: contenthash.Row{
			Number: r.Number, Salt: salt, MintID: r.Mint.ID, Chain: r.Mint.Chain, Contract: r.Mint.Contract,
			ToAddress: address,
			Amount:    r.Amount, Memo: r.Memo, CustomerID: r.CustomerID, Reference: r.Reference, IsIncluded: true,
		}})
	}
	return items, problems
}

func (s *Service) parseAddress(m mint.Mint, text string) (address chain.Address, problem string) {
	codec := s.Chains.AddressCodec(m.Chain.Family())
	if _, isRunning := s.Chains[m.Chain]; !isRunning || codec == nil {
		return "", fmt.Sprintf("%s does not run on this installation.", m.Chain)
	}
	address, err := codec.Parse(text)
	if err != nil {
		return "", fmt.Sprintf("%q is not an address on %s: %v.", text, m.Chain, err)
	}
	return address, ""
}

// insertBatch writes a batch and its rows.
func insertBatch(ctx context.Context, tx pg.Tx, b Batch, items []Item) error {
	header, err := json.Marshal(b.Header)
	if err != nil {
		return fmt.Errorf("write the header of batch %s: %w", b.ID, err)
	}
	var keyHash *string
	if b.IdempotencyKey != nil {
		sum := sha256.Sum256([]byte(*b.IdempotencyKey))
		keyHash = new(hex.EncodeToString(sum[:]))
	}
	queue := &pgx.Batch{}
	queue.Queue(`
		INSERT INTO payout_batches (batch_id, org_id, version, mode, row_count, content_hash, list_hash, header,
			idempotency_key, idempotency_key_hash, request_digest, maker_kind, maker_id, created_at, status, updated_at)
		VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9, $6, $10, $11, $12, 'DRAFT', $12)`,
		b.ID, b.OrgID, b.Header.Mode, b.Header.Rows, b.ContentHash[:], b.digest, string(header), b.IdempotencyKey,
		keyHash,
		b.Maker.Kind, b.Maker.ID, tx.Now)
	for _, i := range items {
		queue.Queue(`
			INSERT INTO payout_items (batch_id, row_no, org_id, line, salt, mint_id, chain, contract, to_address,
				amount,
				customer_id, reference)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
			b.ID, i.Number, b.OrgID, i.Line, i.Salt, i.MintID, i.Chain, i.Contract, i.ToAddress, i.Amount, i.CustomerID,
			i.Reference)
	}
	if err := tx.SendBatch(ctx, queue).Close(); err != nil {
		return fmt.Errorf("insert batch %s: %w", b.ID, err)
	}
	return nil
}

// newEntry returns the audit entry of a change.
func newEntry(b Batch, actor audit.Actor, verb string, detail map[string]any) audit.Entry {
	return audit.Entry{
		OrgID: b.OrgID, Actor: actor, Action: "payout." + strings.ToLower(verb), ResourceKind: "BATCH_PAYOUT",
		ResourceID: b.ID, Detail: detail,
	}
}
