package signer

import (
	"crypto/hmac"
	"strconv"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/id"
)

// BatchProduct is the product whose balance pays batches.
const BatchProduct = "BATCH_PAYOUT"

// BatchRow identifies the row of a batch payout that a payment makes. It goes to an address that no endorsement
// names: people approved the content hash, and the grant proves that it covers this payment.
type BatchRow struct {
	BatchID string `json:"batchId"`
	Row     int    `json:"row"` // from 1
	// ContentHash is what people approved. The journal has it, so that anyone who has the approved list can compare
	// the payments of the journal with it.
	ContentHash contenthash.Hash `json:"contentHash"`
}

// Equal reports whether two rows are the same. Either may be nil.
func (r *BatchRow) Equal(o *BatchRow) bool {
	if r == nil || o == nil {
		return r == o
	}
	return *r == *o
}

// words returns the fields as a digest covers them.
func (r BatchRow) words() []string {
	return []string{r.BatchID, strconv.Itoa(r.Row), r.ContentHash.String()}
}

// BatchGrant proves that a payment is a row of what people approved. All fields of the row that it lacks are those of
// the payment itself.
type BatchGrant struct {
	Header     contenthash.Header `json:"header"`
	Salt       []byte             `json:"salt"`
	CustomerID string             `json:"customerId,omitempty"`
	Reference  string             `json:"reference,omitempty"`
	Path       []contenthash.Hash `json:"path"` // from the leaf to the root
}

// NewBatchGrant returns the proof of a row of a batch.
func NewBatchGrant(h contenthash.Header, row contenthash.Row, path []contenthash.Hash) BatchGrant {
	return BatchGrant{Header: h, Salt: row.Salt, CustomerID: row.CustomerID, Reference: row.Reference, Path: path}
}

const (
	batchApprovalVersion = "coffer-batch-approval-1"
	batchGrantVersion    = "coffer-batch-grant-1"
	batchRequestVersion  = "coffer-batch-request-1"
)

// BatchWithdrawalID returns the id of the withdrawal of a row. It follows from the row, so a row has one payment in
// every process and in every restored database.
func BatchWithdrawalID(org, batchID string, row int) string {
	return id.Derive("wd", org, batchID, strconv.Itoa(row))
}

// MakeBatchApproval binds a person's approval to a batch.
func (k *GrantKey) MakeBatchApproval(hash contenthash.Hash, approver string) Approval {
	return Approval{Approver: approver, MAC: k.computeMAC(batchApprovalVersion, hash.String(), approver)}
}

// BatchRequestMAC binds the row of a submitted batch to its content and to the approvals that it needed then.
func (k *GrantKey) BatchRequestMAC(hash contenthash.Hash, required int) []byte {
	return k.computeMAC(batchRequestVersion, hash.String(), strconv.Itoa(required))
}

// VerifyBatchRequest reports whether the batch was submitted with this content and this number of approvals.
func (k *GrantKey) VerifyBatchRequest(hash contenthash.Hash, required int, mac []byte) bool {
	return k == nil || hmac.Equal(k.BatchRequestMAC(hash, required), mac)
}

// MakeBatchGrant makes the grant of a row; the approvals are those of MakeBatchApproval. Without a key it returns
// nil.
func (k *GrantKey) MakeBatchGrant(t Terms, b BatchGrant, required int, approvals []Approval) *Grant {
	if k == nil {
		return nil
	}
	g := &Grant{
		FeeMode: t.FeeMode, Memo: t.Memo, Required: required, Approvals: approvals, Batch: &b, MadeBy: t.MadeBy,
	}
	g.MAC = k.grantMAC(t, money.Zero, g)
	return g
}

// IsUnapproved reports whether an intent pays a row of a batch that needed no person. Only the policy of the signer
// says how much of an asset such rows may take. A record of the journal has the same answer as the intent that it
// admits. Rule BP-60.
func (intent Intent) IsUnapproved() bool {
	g := intent.Grant
	return intent.Batch != nil && g != nil && (g.IsUnapproved || g.Batch != nil && g.Required < 1)
}

// RecordGrant leaves of the grant what the journal has of it, with the signatures of people. It returns what the header
// says that the batch pays of the mint, if no person approved the batch.
func (intent *Intent) RecordGrant(consents ...Consent) (inBatch money.Amount) {
	if intent.IsUnapproved() && intent.Grant.Batch != nil {
		inBatch = intent.Grant.Batch.Header.TotalOf(intent.MintID)
	}
	intent.Grant = intent.Grant.Recorded(consents...)
	return inBatch
}

// checkBatch refuses the payment of a row that is not what people approved. It builds the row from the fields that
// are paid, so none of them can differ from what was approved. How much may be paid without a person is in package
// limits, because that needs the policy and the journal. Rules BP-3 and BP-33.
func checkBatch(intent Intent) *Refusal {
	refuse := func(format string, args ...any) *Refusal {
		return Refuse(RefusedGrant, "%s %s "+format, append([]any{intent.Kind().Noun, intent.ID}, args...)...)
	}
	g, row := intent.Grant, intent.Batch
	switch {
	case g.Batch == nil && row == nil:
		return nil
	case row == nil:
		return refuse("is no row of a batch, and its grant is that of one")
	case g.Batch == nil:
		return refuse("is row %d of batch %s, and its grant does not prove it", row.Row, row.BatchID)
	}
	h := g.Batch.Header
	leaf := contenthash.Row{
		Number: row.Row, Salt: g.Batch.Salt, MintID: intent.MintID, Chain: intent.Chain, Contract: intent.Contract,
		ToAddress: intent.To, Amount: intent.Amount, Memo: g.Memo, CustomerID: g.Batch.CustomerID,
		Reference: g.Batch.Reference, IsIncluded: true,
	}.ComputeLeaf()
	root, isPath := contenthash.ComputeRootFrom(leaf, row.Row-1, h.Rows, g.Batch.Path)
	switch {
	case h.OrgID != intent.From.OrgID || h.BatchID != row.BatchID:
		return refuse("is row %d of batch %s, and people approved batch %.80q of %.80q", row.Row, row.BatchID,
			h.BatchID, h.OrgID)
	case h.ComputeHash() != row.ContentHash:
		return refuse("names another content of batch %s than its grant", row.BatchID)
	case !isPath || root != h.Root:
		return refuse("is not row %d of batch %s as people approved it: %v to %s is not what the approved list says",
			row.Row, row.BatchID, intent.Amount, intent.To)
	case intent.ID != BatchWithdrawalID(intent.From.OrgID, row.BatchID, row.Row):
		return refuse("has not the id of row %d of batch %s", row.Row, row.BatchID)
	case !intent.FeeDeducted.IsZero():
		return refuse("deducts a fee, and people approved what the payee receives")
	case g.Required < 1 && h.TotalOf(intent.MintID).Less(intent.Amount):
		return refuse("is of a batch that no person approved, and is more than all that the batch pays of mint %d",
			intent.MintID)
	}
	for _, a := range g.Approvals {
		if a.Approver == h.MadeBy {
			return refuse("has an approval by %.80q, who made the batch", a.Approver)
		}
	}
	return nil
}

// IsWellFormed reports whether a batch can have such a row.
func (r BatchRow) IsWellFormed() bool { return r.Row >= 1 && r.Row <= contenthash.RowsMax }
