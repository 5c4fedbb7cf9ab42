// Package contenthash computes what people approve of a batch payout: one hash over every row.
//
// The rows are the leaves of a Merkle tree as RFC 6962 defines it, and the content hash covers the root together
// with the header of the batch: organization, batch, mode, maker, counts and totals. A row is proven by the hashes
// of its audit path. So the signer, which pays one row at a time and has no database, recomputes the approved hash
// from the fields that it is about to pay, and a payee can verify that a batch contained a payment. Each row has a
// random salt, so a proof of one row says nothing about the rows beside it.
//
// The package is pure. It knows no state of a batch and no key, and it decides nothing: who approved a hash, and
// whether that suffices, is decided by package signer.
package contenthash

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Versions are hashed first, so that no hash of one kind is ever one of another kind.
const (
	rowVersion   = "coffer-batch-row-1"
	batchVersion = "coffer-batch-1"
	listVersion  = "coffer-batch-list-1"
)

const (
	// SaltBytes is the length of a row's salt.
	SaltBytes = 16
	// RowsMax is the greatest number of rows of a batch.
	RowsMax = 5000
	// PathMax is the length of the longest audit path in a tree of RowsMax rows.
	PathMax = 13
	// textPrefix stands before a hash in its text.
	textPrefix = "sha256:"
)

// Mode says what becomes of a batch of which a row cannot be paid.
type Mode string

// The modes.
const (
	Strict  Mode = "STRICT"  // every row is paid, or none
	Partial Mode = "PARTIAL" // rows that cannot be paid are left out
)

// Modes are all modes.
var Modes = []Mode{Strict, Partial}

// Hash is the hash of a leaf, of a node or of a batch.
type Hash [sha256.Size]byte

// String returns the text of a hash, as people see and approve it.
func (h Hash) String() string { return textPrefix + hex.EncodeToString(h[:]) }

// ErrSyntax says that a text is no hash.
var ErrSyntax = errors.New("a hash is written as sha256: and 64 hexadecimal digits in lower case")

// Parse reads the text of a hash in the form of String, and no other.
func Parse(text string) (h Hash, err error) {
	if len(text) != len(textPrefix)+2*sha256.Size || text[:len(textPrefix)] != textPrefix {
		return h, ErrSyntax
	}
	if _, err := hex.Decode(h[:], []byte(text[len(textPrefix):])); err != nil || h.String() != text {
		return Hash{}, ErrSyntax
	}
	return h, nil
}

// MarshalText returns the text of a hash.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads the text of a hash.
func (h *Hash) UnmarshalText(text []byte) (err error) {
	*h, err = Parse(string(text))
	return err
}

// Row is one row of a batch, in the form in which it is paid.
type Row struct {
	Number     int           `json:"row"`  // from 1, in the order of the input
	Salt       []byte        `json:"salt"` // SaltBytes random bytes
	MintID     int           `json:"mintId"`
	Chain      chain.Name    `json:"chain"`
	Contract   chain.Address `json:"contract"`  // "" for the native coin
	ToAddress  chain.Address `json:"toAddress"` // in its canonical form
	Amount     money.Amount  `json:"amount"`    // atomic units
	Memo       string        `json:"memo"`
	CustomerID string        `json:"customerId"` // a label of the caller
	Reference  string        `json:"reference"`
	IsIncluded bool          `json:"included"` // false: the batch shows the row and does not pay it
}

// ComputeLeaf returns the hash of a row as a leaf of the tree.
func (r Row) ComputeLeaf() Hash {
	return hashLeaf(encodeWords(
		rowVersion, strconv.Itoa(r.Number), string(r.Salt), strconv.Itoa(r.MintID), string(r.Chain), string(r.Contract),
		string(r.ToAddress), r.Amount.String(), r.Memo, r.CustomerID, r.Reference, strconv.FormatBool(r.IsIncluded)))
}

// Total is what the included rows pay of one mint.
type Total struct {
	MintID int          `json:"mintId"`
	Amount money.Amount `json:"amount"`
}

// Header is what all rows of a batch have in common. Together with the root of the tree it is what people approve.
type Header struct {
	OrgID    string  `json:"orgId"`
	BatchID  string  `json:"batchId"`
	Mode     Mode    `json:"mode"`
	MadeBy   string  `json:"madeBy"` // kind and id of the maker, who never approves
	Rows     int     `json:"rows"`
	Included int     `json:"included"`
	Totals   []Total `json:"totals"` // by mint, in ascending order
	Root     Hash    `json:"root"`
}

// ComputeHash returns the content hash of a batch. Rule BP-2.
func (h Header) ComputeHash() Hash {
	words := []string{
		batchVersion, h.OrgID, h.BatchID, string(h.Mode), h.MadeBy, strconv.Itoa(h.Rows), strconv.Itoa(h.Included),
		strconv.Itoa(len(h.Totals)),
	}
	for _, t := range h.Totals {
		words = append(words, strconv.Itoa(t.MintID), t.Amount.String())
	}
	return sha256.Sum256(encodeWords(append(words, string(h.Root[:]))...))
}

// TotalOf returns what the included rows pay of a mint, or zero.
func (h Header) TotalOf(mintID int) money.Amount {
	for _, t := range h.Totals {
		if t.MintID == mintID {
			return t.Amount
		}
	}
	return money.Zero
}

// Errors of Seal.
var (
	// ErrRows says that rows are no list of a batch: there are none or too many, or their numbers have gaps.
	ErrRows = errors.New("the rows of a batch are numbered from 1 without gaps")
	// ErrSalt says that a row has no salt.
	ErrSalt = fmt.Errorf("every row of a batch has a salt of %d bytes", SaltBytes)
)

// Seal returns the header of a batch: its counts, totals and root follow from the rows, which are in the order of
// their numbers. Errors: ErrRows, ErrSalt, and money.ErrRange for a sum above the largest amount.
func Seal(orgID, batchID string, mode Mode, madeBy string, rows []Row) (Header, error) {
	h := Header{OrgID: orgID, BatchID: batchID, Mode: mode, MadeBy: madeBy, Rows: len(rows)}
	if len(rows) == 0 || len(rows) > RowsMax {
		return Header{}, ErrRows
	}
	leaves, sums := make([]Hash, 0, len(rows)), map[int]money.Amount{}
	for i, r := range rows {
		switch {
		case r.Number != i+1:
			return Header{}, ErrRows
		case len(r.Salt) != SaltBytes:
			return Header{}, ErrSalt
		}
		leaves = append(leaves, r.ComputeLeaf())
		if !r.IsIncluded {
			continue
		}
		sum, err := sums[r.MintID].Add(r.Amount)
		if err != nil {
			return Header{}, fmt.Errorf("add row %d: %w", r.Number, err)
		}
		sums[r.MintID] = sum
		h.Included++
	}
	for mintID, sum := range sums {
		h.Totals = append(h.Totals, Total{MintID: mintID, Amount: sum})
	}
	slices.SortFunc(h.Totals, func(a, b Total) int { return a.MintID - b.MintID })
	h.Root = ComputeRoot(leaves)
	return h, nil
}

// ComputeListHash returns a hash over what rows pay, whatever their order, numbers and salts are. It finds a list
// that is uploaded a second time. It is never shown, because without salts it could be guessed.
func ComputeListHash(rows []Row) Hash {
	lines := make([]string, 0, len(rows))
	for _, r := range rows {
		lines = append(lines, string(encodeWords(
			strconv.Itoa(r.MintID), string(r.ToAddress), r.Amount.String(), r.Memo, r.CustomerID, r.Reference)))
	}
	slices.Sort(lines)
	return sha256.Sum256(encodeWords(append([]string{listVersion}, lines...)...))
}

// encodeWords returns every word preceded by its length, so that no two lists of words have the same bytes.
func encodeWords(words ...string) []byte {
	var b []byte
	for _, w := range words {
		b = fmt.Appendf(b, "%d:%s", len(w), w)
	}
	return b
}
