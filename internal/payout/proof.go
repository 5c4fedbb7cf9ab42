package payout

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Proof is what people approved of the batch of a row, with the proof of the row.
type Proof struct {
	Grant     signer.BatchGrant
	Approvals []signer.Approval
	Required  int
}

// LoadProofs returns the proofs of some rows of a batch, in the order in which they are named, made from what the
// database has. Whether they prove anything is decided by the signer: of rows that were changed they lead to a hash
// that no one approved. How many approvals a batch needs is what its MAC says: a smaller number proves nothing.
//
// One call reads and hashes all rows of the batch once, whatever the number of rows that it is for. Nothing is kept
// for a later call, so a row that is changed between two calls is seen by the second one. Rule BP-30.
func (s *Service) LoadProofs(
	ctx context.Context, tx pg.Tx, org, batchID string, numbers ...int,
) (proofs []Proof, err error) {
	b, err := readBatch(ctx, tx, org, batchID)
	if err != nil {
		return nil, err
	}
	if !s.GrantKey.VerifyBatchRequest(b.ContentHash, b.Required, b.mac) {
		return nil, fmt.Errorf("the content of batch %s, or the %d approvals that it needs, were changed in the "+
			"database: nothing of it is granted; find out who changed it, and cancel it", batchID, b.Required)
	}
	items, err := loadApprovedItems(ctx, tx, batchID)
	if err != nil {
		return nil, err
	}
	approvals, err := loadApprovals(ctx, tx, batchID)
	if err != nil {
		return nil, err
	}
	for n := range approvals { // the signer refuses a payment with a signature that ended, whatever else signed it
		if !approver.HasTimeLeft(approvals[n].Signature, tx.Now, 0) {
			approvals[n].Signature = nil
		}
	}
	leaves := make([]contenthash.Hash, 0, len(items))
	for _, i := range items {
		leaves = append(leaves, i.ComputeLeaf())
	}
	tree := contenthash.NewTree(leaves)
	for _, n := range numbers {
		if n < 1 || n > len(items) {
			return nil, fmt.Errorf("batch %s has no row %d", batchID, n)
		}
		proofs = append(proofs, Proof{
			Grant:     signer.NewBatchGrant(b.Header, items[n-1].Row, tree.Path(n-1)),
			Approvals: approvals, Required: b.Required,
		})
	}
	return proofs, nil
}
