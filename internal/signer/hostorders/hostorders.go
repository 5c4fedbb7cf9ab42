// Package hostorders keeps what a person decided at the signer's own host about approvers: which passkeys are founded,
// and which end although a rule needs them.
//
// The decisions are lines of a file beside the journal. The running signer reads it when such a request comes, so it
// need not be stopped. No call of the port writes it: who may write there has the host, and everything.
package hostorders

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/syntax"
)

// Order is one decision.
type Order struct {
	OrgID string `json:"orgId"`
	// Email, Right and Fingerprint found a passkey: the person at the host compared the fingerprint with its owner.
	Email       string       `json:"email,omitempty"`
	Right       signer.Right `json:"right,omitempty"`
	Fingerprint string       `json:"fingerprint,omitempty"`
	// RetiredID is the enrolment of a passkey that ends.
	RetiredID string `json:"retiredId,omitempty"`
	DecidedAt string `json:"at"`
	Reason    string `json:"because"`
}

// linesMax bounds what is read: a person types each line.
const linesMax = 10_000

// Path returns the file beside a journal.
func Path(journal string) string { return journal + ".approvers" }

// Append adds a decision to the file of a journal and waits until it is on disk. It refuses one that is malformed.
func Append(journal string, order Order, now time.Time) error {
	refusal := syntax.CheckReason(order.Reason)
	switch {
	case refusal != nil:
	case order.RetiredID != "":
		refusal = syntax.CheckIDs(order.OrgID, order.RetiredID)
	default:
		refusal = syntax.CheckFounding(order.OrgID, order.Email, order.Right, order.Fingerprint)
	}
	if refusal != nil {
		return fmt.Errorf("nothing was decided about approvers: %s", refusal.Message)
	}
	order.DecidedAt = signer.FormatTime(now)
	line, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("write a decision about approvers: %w", err)
	}
	file, err := os.OpenFile(Path(journal), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write a decision about approvers: %w", err)
	}
	_, err = file.Write(append(line, '\n'))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write a decision about approvers: %w", err)
	}
	return nil
}

// Read returns the decisions of a journal's file; none if there is no file. A line that cannot be read is an error,
// because a torn one may be a decision.
func Read(journal string) (orders []Order, err error) {
	file, err := os.Open(Path(journal))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the decisions about approvers: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var order Order
		if err := json.Unmarshal(lines.Bytes(), &order, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("%s: line %d is no decision: %w", Path(journal), len(orders)+1, err)
		}
		if orders = append(orders, order); len(orders) > linesMax {
			return nil, fmt.Errorf("%s has more than %d lines", Path(journal), linesMax)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the decisions about approvers: %w", err)
	}
	return orders, nil
}

// IsFounded reports whether a passkey was founded.
func IsFounded(orders []Order, e signer.EnrolRequest, installation string) bool {
	for _, o := range orders {
		if o.Fingerprint != "" && o.OrgID == e.OrgID && o.Email == e.Email && o.Right == e.Right &&
			o.Fingerprint == e.Fingerprint(installation) {
			return true
		}
	}
	return false
}

// IsRetired reports whether a person ended a passkey.
func IsRetired(orders []Order, r signer.Retirement) bool {
	for _, o := range orders {
		if o.RetiredID != "" && o.OrgID == r.OrgID && o.RetiredID == r.ID {
			return true
		}
	}
	return false
}
