package report

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// AttentionCause says why an operator has to look.
type AttentionCause string

// The causes, the most urgent first.
const (
	BooksBroken       AttentionCause = "BOOKS_BROKEN"       // the checker froze everything
	AuditContradicted AttentionCause = "AUDIT_CONTRADICTED" // the log differs from what the signer signed
	FinalityBroken    AttentionCause = "FINALITY_BROKEN"    // a chain replaced final blocks
	ProgramFroze      AttentionCause = "PROGRAM_FROZE"      // other freezes of the program
	OrderStuck        AttentionCause = "ORDER_STUCK"        // its final transaction does not show its payment
	ResolutionStuck   AttentionCause = "RESOLUTION_STUCK"   // of a flagged deposit
	WhitelistRefused  AttentionCause = "WHITELIST_REFUSED"  // the signer refuses an entry
	GasMissing        AttentionCause = "GAS_MISSING"        // orders wait for gas
	SignerWaits       AttentionCause = "SIGNER_WAITS"       // orders wait for the signer or its clock
	SwapSuspended     AttentionCause = "SWAP_PROVIDER_SUSPENDED"
	StrayArrival      AttentionCause = "STRAY_ARRIVAL"     // of a swap; no one has decided about it
	SwapClaimLate     AttentionCause = "SWAP_CLAIM_LATE"   // a provider has had a payment for more than a day
	MintQuarantined   AttentionCause = "MINT_QUARANTINED"  //
	ChangeAwaits      AttentionCause = "CHANGE_AWAITS"     // a change request
	DepositFlagged    AttentionCause = "DEPOSIT_FLAGGED"   //
	EndpointDisabled  AttentionCause = "ENDPOINT_DISABLED" // by failures
	JobGivenUp        AttentionCause = "JOB_GIVEN_UP"      // in the last day
	MailGivenUp       AttentionCause = "MAIL_GIVEN_UP"     // in the last day
	SenderRisky       AttentionCause = "SENDER_RISKY"      // found in the last day, after its deposits were credited
	OperatorFreezes   AttentionCause = "OPERATOR_FREEZES"  // that operators made, and that still stop payments
)

// AttentionCauses are all causes, the most urgent first.
var AttentionCauses = []AttentionCause{
	BooksBroken, AuditContradicted, FinalityBroken, ProgramFroze, OrderStuck, ResolutionStuck, WhitelistRefused,
	GasMissing, SignerWaits, SwapSuspended, StrayArrival, SwapClaimLate, MintQuarantined,
	ChangeAwaits, DepositFlagged, EndpointDisabled, JobGivenUp, MailGivenUp,
	SenderRisky, OperatorFreezes,
}

// Attention is a cause with what it concerns.
type Attention struct {
	Cause    AttentionCause
	Count    int
	OldestAt *time.Time // nil where no time is known
}

// signerReasons are why an order waits for the signer: it does not answer, its clock differs, or its limit of
// fees of a day is used up.
var signerReasons = []dispatch.WaitReason{dispatch.WaitSigner, dispatch.WaitClock, dispatch.WaitFeeLimit}

// ListAttention returns what needs an operator, the most urgent first, in a transaction of the system. A
// cause that concerns nothing is left out. Rules PAGE-45 and PAGE-73.
func ListAttention(ctx context.Context, tx pg.Tx) ([]Attention, error) {
	rows, err := tx.Query(ctx, `
		SELECT cause, count, oldest FROM (
			SELECT CASE source WHEN 'VERIFY' THEN 'BOOKS_BROKEN' WHEN 'FINALITY' THEN 'FINALITY_BROKEN'
					WHEN 'OPERATOR' THEN 'OPERATOR_FREEZES' ELSE 'PROGRAM_FROZE' END AS cause,
				count(*) AS count, min(created_at) AS oldest
			FROM freezes WHERE lifted_at IS NULL AND source <> 'ORGANIZATION' GROUP BY 1
			UNION ALL
			SELECT 'AUDIT_CONTRADICTED', count(*), NULL
			FROM (SELECT position, hash, chain_id FROM audit_anchors ORDER BY number DESC LIMIT 1) a
			WHERE a.position > 0 AND NOT EXISTS (SELECT FROM audit_chain c
				WHERE c.chain_id = a.chain_id AND encode(`+audit.HashAt("a.position")+`, 'hex') = a.hash)
			UNION ALL
			SELECT 'ORDER_STUCK', count(*), min(created_at) FROM dispatch_orders WHERE status = 'STUCK'
			UNION ALL
			SELECT CASE WHEN waiting_for = ANY($3::text[]) THEN 'GAS_MISSING' ELSE 'SIGNER_WAITS' END, count(*),
				min(created_at)
			FROM dispatch_orders
			WHERE status = 'QUEUED' AND waiting_for = ANY($3::text[] || $4::text[]) GROUP BY 1
			UNION ALL
			SELECT CASE status WHEN 'FLAGGED' THEN 'DEPOSIT_FLAGGED' ELSE 'RESOLUTION_STUCK' END, count(*),
				min(created_at)
			FROM deposits WHERE status IN ('FLAGGED', 'RESOLUTION_STUCK')
				AND purpose NOT IN ('TREASURY', 'CHANGE') GROUP BY 1
			UNION ALL
			SELECT 'WHITELIST_REFUSED', count(*), min(created_at) FROM whitelisted_addresses
			WHERE removed_at IS NULL AND refusal IS NOT NULL
			UNION ALL
			SELECT 'SWAP_PROVIDER_SUSPENDED', count(*), min(since) FROM swap_providers WHERE state = 'SUSPENDED'
			UNION ALL
			SELECT 'STRAY_ARRIVAL', count(*), min(created_at) FROM swap_arrivals
			WHERE role = 'STRAY' AND decision IS NULL
			UNION ALL
			SELECT 'SWAP_CLAIM_LATE', count(*), min(paid_at) FROM swaps
			WHERE paid_at < $1::timestamptz - interval '24 hours' AND amount_out IS NULL
				AND refunded + short < amount_in
			UNION ALL
			SELECT 'MINT_QUARANTINED', count(*), min(quarantined_at) FROM mints WHERE quarantined_at IS NOT NULL
			UNION ALL
			SELECT 'CHANGE_AWAITS', count(*), min(created_at) FROM change_requests
			WHERE status = 'PENDING' AND expires_at > $1::timestamptz
			UNION ALL
			SELECT 'ENDPOINT_DISABLED', count(*), min(failing_since) FROM webhook_endpoints
			WHERE deleted_at IS NULL AND status = 'DISABLED_BY_FAILURE'
			UNION ALL
			SELECT 'JOB_GIVEN_UP', count(*), min(finalized_at) FROM river_job
			WHERE state = 'discarded' AND finalized_at > $1::timestamptz - interval '24 hours'
			UNION ALL
			SELECT 'MAIL_GIVEN_UP', count(*), min(ended_at) FROM mails
			WHERE status = 'GIVEN_UP' AND ended_at > $1::timestamptz - interval '24 hours'
			UNION ALL
			SELECT 'SENDER_RISKY', count(*), min(at) FROM sender_verdicts
			WHERE alert AND at > $1::timestamptz - interval '24 hours') found
		WHERE count > 0 ORDER BY array_position($2::text[], cause)`, tx.Now, AttentionCauses,
		dispatch.ReasonsOf(dispatch.RemedyTopUp), signerReasons)
	if err != nil {
		return nil, fmt.Errorf("read what needs an operator: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Attention])
	if err != nil {
		return nil, fmt.Errorf("read what needs an operator: %w", err)
	}
	return found, nil
}
