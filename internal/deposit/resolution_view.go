package deposit

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/money"
)

// Resolution is how a flagged deposit was decided, and the transfer that carried it out.
type Resolution struct {
	Decision      string
	Reason        *string
	Reference     *string
	Note          *string
	DecidedAt     time.Time
	DecidedBy     audit.Actor
	DecidedByName *string
	ToAddress     *chain.Address
	TxHash        *chain.TxHash
	Amount        *money.Amount
	NetworkFee    *money.Amount
}

// ResolutionAttempt is an attempt that failed before anything reached the chain.
type ResolutionAttempt struct {
	EndedAt                 time.Time
	Action, Reason, Message string
}

// resolutionJSON selects a row of deposit_resolutions as a resolutionRecord.
const resolutionJSON = `jsonb_build_object('decision', r.decision, 'reason', r.reason, 'reference', r.reference, 'note', r.note, 'decidedAt', r.decided_at,
	'kind', r.decided_by_kind, 'by', r.decided_by, 'name', r.decided_by_name, 'to', r.to_address, 'sent', r.sent::text, 'txHash', r.tx_hash,
	'fee', CASE WHEN r.fee_kept > 0 THEN r.fee_kept ELSE r.network_fee END::text, 'endedAt', r.ended_at, 'failure', r.failure, 'message', r.failure_message)`

// resolutionRecord is a row of deposit_resolutions as resolutionJSON selects it.
type resolutionRecord struct {
	Decision  string         `json:"decision"`
	Reason    *string        `json:"reason"`
	Reference *string        `json:"reference"`
	Note      *string        `json:"note"`
	DecidedAt time.Time      `json:"decidedAt"`
	ActorKind string         `json:"kind"`
	ActorID   string         `json:"by"`
	ActorName *string        `json:"name"`
	ToAddress *chain.Address `json:"to"`
	Sent      *money.Amount  `json:"sent"`
	TxHash    *chain.TxHash  `json:"txHash"`
	Fee       *money.Amount  `json:"fee"`
	EndedAt   time.Time      `json:"endedAt"`
	Failure   *string        `json:"failure"`
	Message   *string        `json:"message"`
}

// attemptedActions maps a decision to the name of the action in a failed attempt.
var attemptedActions = map[string]string{"REJECTED": "REJECT", "REDIRECTED": "REDIRECT"}

// addResolution adds how a flagged deposit was decided, and the failed attempts.
func (s depositView) addResolution(d *Deposit) error {
	if len(s.resolution) > 0 {
		var r resolutionRecord
		if err := json.Unmarshal(s.resolution, &r); err != nil {
			return fmt.Errorf("read its resolution: %w", err)
		}
		d.Resolution = &Resolution{
			Decision: r.Decision, Reason: r.Reason, Reference: r.Reference, Note: r.Note, DecidedAt: r.DecidedAt,
			DecidedBy: audit.Actor{Kind: r.ActorKind, ID: r.ActorID}, DecidedByName: r.ActorName,
			ToAddress: r.ToAddress, TxHash: r.TxHash, Amount: r.Sent, NetworkFee: r.Fee,
		}
	}
	if len(s.attempts) > 0 {
		var attempts []resolutionRecord
		if err := json.Unmarshal(s.attempts, &attempts); err != nil {
			return fmt.Errorf("read its earlier resolution attempts: %w", err)
		}
		for _, a := range attempts {
			d.ResolutionAttempts = append(d.ResolutionAttempts, ResolutionAttempt{
				EndedAt: a.EndedAt, Action: attemptedActions[a.Decision], Reason: *a.Failure, Message: *a.Message,
			})
		}
	}
	return nil
}
