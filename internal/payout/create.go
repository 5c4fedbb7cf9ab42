package payout

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	UseDecimal     bool             // amounts are in whole tokens
	Mode           contenthash.Mode // "": STRICT
	IdempotencyKey *string          // nil: every call makes another batch
	Actor          audit.Actor
}

// ProblemsDetail names the problems of all rows in the details of the fault of Create.
const ProblemsDetail = "problems"

// Create makes a batch as a draft. All rows are read. Those that cannot be read are kept with every problem, see
// BadRows; none of them is ever paid. A list of which no row can be read makes no batch. A known key returns its
// batch as it is now. Errors: faults INVALID_REQUEST, with the problems in its details, and IDEMPOTENCY_CONFLICT.
// Rules BP-1, BP-4 and BP-7.
func (s *Service) Create(ctx context.Context, org string, r CreateRequest) (b Batch, err error) {
	if r.IdempotencyKey != nil && !request.IsKey(*r.IdempotencyKey) {
		return b, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"An idempotency key has to have 1 to %d printable ASCII characters and no space.", request.KeyBytesMax).
			WithParam("idempotencyKey")
	}
	mode := cmp.Or(r.Mode, contenthash.Strict)
	if !slices.Contains(contenthash.Modes, mode) {
		return b, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"mode has to be STRICT or PARTIAL.").
			WithAdvice("With STRICT every row is paid or none; with PARTIAL rows that cannot be paid are left out.").
			WithParam("mode")
	}
	items, problems, err := s.readList(ctx, org, r.Lines, r.UseDecimal)
	if err != nil {
		return b, fmt.Errorf("make a batch of %s: %w", org, err)
	}
	if len(items) == 0 {
		return b, newProblems(problems)
	}
	d := draft{
		mode: mode, items: items, bad: newBadRows(r.Lines, problems), columns: rowfile.NamedColumns(r.Lines),
		isDecimal: r.UseDecimal, actor: r.Actor,
	}
	listHash := contenthash.ComputeListHash(contentRows(items))
	d.digest = listHash[:]
	if mode != contenthash.Strict || len(d.bad) > 0 {
		words := []string{"coffer-batch-request-1", string(mode), string(listHash[:])}
		for _, row := range d.bad {
			words = append(words, strconv.Itoa(row.Position))
			words = append(words, r.Lines[row.Position-1].Values()...)
		}
		d.digest = request.Digest(words...)
	}
	return s.insertDraft(ctx, org, r.IdempotencyKey, d)
}

// readList returns the rows of a list that can be read, numbered from 1, and the problems of the others.
func (s *Service) readList(
	ctx context.Context, org string, lines []rowfile.Line, isDecimal bool,
) (items []Item, problems []rowfile.Problem, err error) {
	var mints mint.Catalogue
	load := func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	}
	if org == "" {
		err = s.DB.ReadSystem(ctx, load)
	} else {
		err = s.DB.ReadOrg(ctx, org, load)
	}
	if err != nil {
		return nil, nil, err
	}
	rows, problems := rowfile.Check(lines, mints, isDecimal)
	items, misaddressed := s.newItems(rows)
	problems = append(problems, misaddressed...)
	slices.SortStableFunc(problems, func(a, b rowfile.Problem) int { return a.Row - b.Row })
	return items, problems, nil
}

// draft is what a new batch is made of.
type draft struct {
	mode      contenthash.Mode
	items     []Item
	bad       []BadRow
	columns   []string
	isDecimal bool
	retryOf   string
	digest    []byte // of the caller's parameters
	actor     audit.Actor
}

// insertDraft writes a draft with its rows, or returns the one that has the key.
func (s *Service) insertDraft(ctx context.Context, org string, key *string, d draft) (b Batch, err error) {
	b = Batch{
		ID: id.New(batchPrefix, s.DB.Clock()()), OrgID: org, Version: 1, Status: Draft,
		IdempotencyKey: key, Maker: d.actor, BadRows: len(d.bad), UsesDecimal: d.isDecimal, Columns: d.columns,
		RetryOf: d.retryOf, digest: d.digest,
	}
	if key != nil {
		b.ID = id.Derive(batchPrefix, org, *key)
		earlier, isKnown, err := s.findKnown(ctx, org, b)
		if err != nil || isKnown {
			return earlier, err
		}
	}
	if b.Header, err = contenthash.Seal(org, b.ID, d.mode, actorName(d.actor), contentRows(d.items)); err != nil {
		return Batch{},
			newProblems([]rowfile.Problem{{Message: "The sum of the rows is larger than the largest possible amount."}})
	}
	b.ContentHash = b.Header.ComputeHash()
	b.Counts = Counts{Bad: len(d.bad), Included: len(d.items), Waiting: len(d.items)}
	err = s.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		b.CreatedAt = tx.Now
		if err := insertBatch(ctx, tx, b, d); err != nil {
			return err
		}
		detail := map[string]any{
			"contentHash": b.ContentHash, "mode": d.mode, "rows": b.Header.Rows, "badRows": len(d.bad),
			"totals": b.Header.Totals,
		}
		if d.retryOf != "" {
			detail["retryOf"] = d.retryOf
		}
		return audit.Record(ctx, tx, newEntry(b, d.actor, "created", detail))
	})
	if key != nil && (pg.ViolatesConstraint(err, "payout_batches_pkey") ||
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
	if _, problems, err = s.readList(ctx, "", lines, isDecimal); err != nil {
		return nil, fmt.Errorf("check a list: %w", err)
	}
	return problems, nil
}

// newProblems returns the answer to a list with rows that cannot be paid.
func newProblems(problems []rowfile.Problem) error {
	if len(problems) == 0 {
		problems = []rowfile.Problem{{Message: "The list has no rows."}}
	}
	bad := map[int]bool{}
	for _, p := range problems {
		bad[p.Row] = true
	}
	first := problems[0].Message
	if problems[0].Row > 0 {
		first = fmt.Sprintf("Row %d: %s", problems[0].Row, first)
	}
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"None of the %d rows of the list can be paid as it is written. %s", len(bad), first).
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
		items = append(items, Item{Line: r.Line, Position: r.Number, Row: contenthash.Row{
			Number: len(items) + 1, Salt: salt, MintID: r.Mint.ID, Chain: r.Mint.Chain, Contract: r.Mint.Contract,
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
func insertBatch(ctx context.Context, tx pg.Tx, b Batch, d draft) error {
	header, err := json.Marshal(b.Header)
	if err != nil {
		return fmt.Errorf("write the header of batch %s: %w", b.ID, err)
	}
	listHash := contenthash.ComputeListHash(contentRows(d.items))
	var keyHash *string
	if b.IdempotencyKey != nil {
		sum := sha256.Sum256([]byte(*b.IdempotencyKey))
		keyHash = new(hex.EncodeToString(sum[:]))
	}
	queue := &pgx.Batch{}
	queue.Queue(`
		INSERT INTO payout_batches (batch_id, org_id, version, mode, row_count, content_hash, list_hash, header,
			idempotency_key, idempotency_key_hash, request_digest, maker_kind, maker_id, created_at, status, updated_at,
			list_columns, is_decimal, bad_count, retry_of)
		VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'DRAFT', $13, $14, $15, $16,
			nullif($17, ''))`,
		b.ID, b.OrgID, b.Header.Mode, b.Header.Rows, b.ContentHash[:], listHash[:], string(header), b.IdempotencyKey,
		keyHash, b.digest, b.Maker.Kind, b.Maker.ID, tx.Now, b.Columns, b.UsesDecimal, b.BadRows, b.RetryOf)
	for _, i := range d.items {
		queue.Queue(`
			INSERT INTO payout_items (batch_id, row_no, org_id, line, salt, mint_id, chain, contract, to_address,
				amount,
				customer_id, reference)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
			b.ID, i.Number, b.OrgID, i.Line, i.Salt, i.MintID, i.Chain, i.Contract, i.ToAddress, i.Amount, i.CustomerID,
			i.Reference)
	}
	for _, row := range d.bad {
		queue.Queue(`
			INSERT INTO payout_bad_rows (batch_id, position, org_id, line, fields, problems)
			VALUES ($1, $2, $3, $4, $5, $6)`,
			b.ID, row.Position, b.OrgID, row.Line, row.Fields.Values(), row.Problems)
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
