package contenthash

import (
	"errors"
	"fmt"
)

// RowProof proves that a batch has a row. Its JSON is for payees: VerifyRow needs nothing else, so a payee verifies
// it without the service. The proof shows the totals of the batch and nothing of any other row.
type RowProof struct {
	ContentHash Hash   `json:"contentHash"`
	Header      Header `json:"header"`
	Row         Row    `json:"row"`  // with its salt
	Path        []Hash `json:"path"` // from the leaf to the root
}

// NewRowProof returns the proof of the row with an index, which counts from 0.
func NewRowProof(h Header, rows []Row, index int) RowProof {
	leaves := make([]Hash, 0, len(rows))
	for _, r := range rows {
		leaves = append(leaves, r.ComputeLeaf())
	}
	return RowProof{ContentHash: h.ComputeHash(), Header: h, Row: rows[index], Path: ComputePath(leaves, index)}
}

// Errors of VerifyRow and VerifyList.
var (
	// ErrHeader says that a header is not that of the content hash.
	ErrHeader = errors.New("the header does not have this content hash")
	// ErrPath says that a row does not lead to the root.
	ErrPath = errors.New("the row is not in the batch with this content hash")
	// ErrList says that rows are not those of the header.
	ErrList = errors.New("the rows are not those of the batch with this content hash")
)

// VerifyRow checks that the batch with the content hash has the row. Whether the batch pays it, is said by the
// row's IsIncluded. Errors: ErrHeader and ErrPath. Rule BP-14.
func (p RowProof) VerifyRow() error {
	if p.Header.ComputeHash() != p.ContentHash {
		return ErrHeader
	}
	if len(p.Row.Salt) != SaltBytes {
		return ErrPath
	}
	root, isPath := ComputeRootFrom(p.Row.ComputeLeaf(), p.Row.Number-1, p.Header.Rows, p.Path)
	if !isPath || root != p.Header.Root {
		return ErrPath
	}
	return nil
}

// List is a batch with all its rows and salts: who keeps one can recompute what people approved.
type List struct {
	ContentHash Hash   `json:"contentHash"`
	Header      Header `json:"header"`
	Rows        []Row  `json:"rows"`
}

// VerifyList recomputes the header and the content hash from the rows. Error: ErrList, also where the rows are no
// list at all.
func (l List) VerifyList() error {
	h := l.Header
	sealed, err := Seal(h.OrgID, h.BatchID, h.Mode, h.MadeBy, l.Rows)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrList, err)
	}
	if sealed.ComputeHash() != l.ContentHash || h.ComputeHash() != l.ContentHash {
		return ErrList
	}
	return nil
}
