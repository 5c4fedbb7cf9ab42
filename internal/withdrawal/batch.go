package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/signer"
)

// batchActor is the actor of withdrawals that pay rows of batches: people approved the batch, and the worker asks.
var batchActor = audit.System("payout")

// BatchRequest asks for the payment of a row of an approved batch, out of what is held for batches.
type BatchRequest struct {
	Row       signer.BatchRow
	MintID    int
	Amount    money.Amount
	ToAddress string
	Reference string // "" for none
	// IsUnapproved says that the batch needed no person, so no approval stands for one that the threshold asks for.
	IsUnapproved bool
}

// key returns the idempotency key of a row. It has a space, so no caller can take it. A row has one withdrawal, in
// every process and in a restored database: the signer admits one intent with a key.
func (r BatchRequest) key() string { return batchKey(r.Row) }

func batchKey(row signer.BatchRow) string {
	return "batch " + row.BatchID + ":" + strconv.Itoa(row.Row)
}

// BatchProof is what people approved of the batch of a row, and the proof that the row is in it.
type BatchProof struct {
	Grant     signer.BatchGrant
	Approvals []signer.Approval
	Required  int
}

// BatchBook proves that rows are what people approved. The payments of rows have these proofs as grants.
type BatchBook interface {
	// LoadProofs returns the proofs of rows of one batch, in the order in which they are named, as the transaction
	// sees the batch.
	LoadProofs(ctx context.Context, tx pg.Tx, org, batchID string, rows ...int) ([]BatchProof, error)
}

// batchID returns the batch of which a withdrawal pays a row, or "", and batchRow the number of the row, or nil.
func (r storedWithdrawal) batchID() string {
	if r.batch == nil {
		return ""
	}
	return r.batch.BatchID
}

func (r storedWithdrawal) batchRow() *int {
	if r.batch == nil {
		return nil
	}
	return &r.batch.Row
}

// newBatchRequest returns the request of a row's payment.
func newBatchRequest(r BatchRequest) Request {
	key := r.key()
	asked := Request{
		MintID: r.MintID, Amount: r.Amount.String(), ToAddress: r.ToAddress, IdempotencyKey: &key, Actor: batchActor,
		owner: ledger.BatchOwner(), batch: &r,
	}
	if r.Reference != "" {
		asked.Reference = &r.Reference
	}
	return asked
}

// RequestBatchRow accepts the payment of a row, with the gates of a withdrawal of the organization's own money except
// for the whitelist. The approvals of the batch, if it needed any, stand for those that the threshold asks for; every
// other reason holds the row for people. A row that is known has its withdrawal, which may be one that screening
// blocked. Errors: the faults of RequestOrganization. Rule BP-5.
func (s *Service) RequestBatchRow(ctx context.Context, org string, r BatchRequest) (w Withdrawal, err error) {
	w, _, err = s.Request(ctx, org, newBatchRequest(r))
	return w, err
}

// CheckBatchRow says what would become of the payment of a row now, and writes nothing. The sentence says why the row
// cannot be paid; it is "" for one that can. An error, also a fault UNAVAILABLE, says nothing about the row.
func (s *Service) CheckBatchRow(ctx context.Context, org string, r BatchRequest) (refused string, err error) {
	p, err := s.Preview(ctx, org, newBatchRequest(r))
	var f *fault.Fault
	switch {
	case errors.As(err, &f) && f.Kind != fault.Unavailable:
		return f.Reason, nil
	case err != nil:
		return "", err
	case p.WouldBe == Blocked:
		return "Screening refuses the address.", nil
	}
	return "", nil
}

// parseBatchRow parses the request of a row's payment.
func parseBatchRow(r Request, mints mint.Catalogue, chains chain.Chains) (p parsed, err error) {
	p = parsed{owner: r.owner}
	if p.mint, err = request.ParseMint(r.MintID, mints, fault.NothingHeld); err != nil {
		return p, err
	}
	if p.amount, err = request.ParseAmount(r.Amount, false, p.mint, fault.NothingHeld); err != nil {
		return p, err
	}
	if p.destination, p.chainRuns, err = parseAddress(r.ToAddress, p.mint, chains); err != nil {
		return p, err
	}
	p.digest = batchDigest(r.batch.Row, p.mint.ID, p.destination, p.amount)
	p.restorableDigest = p.digest
	return p, nil
}

// batchDigest hashes what makes the payment of a row another one; the signer's journal knows all of it.
func batchDigest(row signer.BatchRow, mintID int, address chain.Address, amount money.Amount) []byte {
	return request.Digest("coffer-batch-row-1", row.BatchID, strconv.Itoa(row.Row), row.ContentHash.String(),
		fmt.Sprint(mintID), string(address), amount.String())
}

// loadRowProofs returns the proofs of the rows of batches among withdrawals. The signer pays a row under the proof of
// its batch.
func (s *Service) loadRowProofs(
	ctx context.Context, tx pg.Tx, org string, rows []storedWithdrawal,
) (map[signer.BatchRow]BatchProof, error) {
	wanted := map[string][]signer.BatchRow{}
	for _, row := range rows {
		if row.batch != nil {
			wanted[row.batch.BatchID] = append(wanted[row.batch.BatchID], *row.batch)
		}
	}
	if len(wanted) > 0 && s.Batches == nil {
		return nil, errors.New("a withdrawal pays a row of a batch, and nothing proves rows")
	}
	proofs := map[signer.BatchRow]BatchProof{}
	for batchID, batchRows := range wanted {
		numbers := make([]int, 0, len(batchRows))
		for _, row := range batchRows {
			numbers = append(numbers, row.Row)
		}
		found, err := s.Batches.LoadProofs(ctx, tx, org, batchID, numbers...)
		if err != nil {
			return nil, fmt.Errorf("prove rows of batch %s: %w", batchID, err)
		}
		for i, row := range batchRows {
			proofs[row] = found[i]
		}
	}
	return proofs, nil
}

func (s *Service) makeBatchGrant(org string, row storedWithdrawal, m mint.Mint, proof BatchProof) *signer.Grant {
	return s.GrantKey.MakeBatchGrant(row.signedTerms(org, m), proof.Grant, proof.Required, proof.Approvals)
}

// isHeldForRow reports whether the backup holds the amount of a row that the signer's journal pays: its batch is
// being paid, and the row has neither a withdrawal nor a refusal. A backup may lack the batch, or know an earlier
// or a later state of it. Then the payment takes the balance of the product, and the id of the row's withdrawal
// keeps it from being paid again.
func isHeldForRow(ctx context.Context, tx pg.Tx, o dispatch.RestoredOrder) (isHeld bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM payout_batches b JOIN payout_items i USING (batch_id)
			WHERE b.org_id = $1 AND b.batch_id = $2 AND b.status = 'PROCESSING' AND b.content_hash = $3
				AND i.row_no = $4
				AND (i.mint_id, i.amount, i.to_address) = ($5, $6, $7) AND i.refused IS NULL AND NOT EXISTS (
					SELECT FROM withdrawals w WHERE w.batch_id = i.batch_id AND w.batch_row = i.row_no))`,
		o.OrgID, o.Batch.BatchID, o.Batch.ContentHash[:], o.Batch.Row, o.MintID, o.Amount, o.To).Scan(&isHeld)
	if err != nil {
		return false, fmt.Errorf("look up row %d of batch %s: %w", o.Batch.Row, o.Batch.BatchID, err)
	}
	return isHeld, nil
}
