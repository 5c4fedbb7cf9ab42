// Package event stores the events of which organizations are notified. A Recorder writes an event in
// the transaction of the change that it announces, with its data frozen. The Sequencer numbers
// committed events afterwards and freezes the body that is signed and sent; the first events of a
// group of transfers have both from the beginning. ReadFeed returns the same bytes.
//
// The package rules out:
//   - an event without its change or a change without its event (they are one transaction)
//   - a body that changes once it has a sequence number (the table refuses it)
//   - a gap in an organization's sequence (the number, the counter and the deliveries are one
//     transaction)
//   - a writer that waits for the writer of another organization or resource, but for groups of one
//     organization, which number their events and wait for one COMMIT
//
// A crash leaves events without a sequence number, which the next step of any process numbers.
package event

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// APIVersion is the date of the API version that payloads follow.
const APIVersion = "2026-01-31"

// Type names the kind of an event.
type Type = webhook.Type

// The events of the interface, and Coffer's extensions.
const (
	CustomerDeposit                  = webhook.CustomerDeposit
	CustomerDepositApproved          = webhook.CustomerDepositApproved
	CustomerDepositRejected          = webhook.CustomerDepositRejected
	CustomerDepositRedirected        = webhook.CustomerDepositRedirected
	CustomerWithdrawAwaitingApproval = webhook.CustomerWithdrawAwaitingApproval
	CustomerWithdraw                 = webhook.CustomerWithdraw
	CustomerSwapFailed               = webhook.CustomerSwapFailed

	CustomerDepositReversed   = webhook.CustomerDepositReversed
	CustomerWithdrawBlocked   = webhook.CustomerWithdrawBlocked
	CustomerWithdrawApproved  = webhook.CustomerWithdrawApproved
	CustomerWithdrawRejected  = webhook.CustomerWithdrawRejected
	CustomerWithdrawCancelled = webhook.CustomerWithdrawCancelled
	CustomerWithdrawFailed    = webhook.CustomerWithdrawFailed
	CustomerWithdrawCompleted = webhook.CustomerWithdrawCompleted

	CustomerDepositSeen = webhook.CustomerDepositSeen

	OrganizationDeposit         = webhook.OrganizationDeposit
	OrganizationDepositReversed = webhook.OrganizationDepositReversed

	OrganizationWithdraw                 = webhook.OrganizationWithdraw
	OrganizationWithdrawAwaitingApproval = webhook.OrganizationWithdrawAwaitingApproval
	OrganizationWithdrawBlocked          = webhook.OrganizationWithdrawBlocked
	OrganizationWithdrawApproved         = webhook.OrganizationWithdrawApproved
	OrganizationWithdrawRejected         = webhook.OrganizationWithdrawRejected
	OrganizationWithdrawCancelled        = webhook.OrganizationWithdrawCancelled
	OrganizationWithdrawFailed           = webhook.OrganizationWithdrawFailed
	OrganizationWithdrawCompleted        = webhook.OrganizationWithdrawCompleted

	CustomerSwapRefunded = webhook.CustomerSwapRefunded
	CustomerSwapDelayed  = webhook.CustomerSwapDelayed

	OrganizationSwapCompleted = webhook.OrganizationSwapCompleted
	OrganizationSwapFailed    = webhook.OrganizationSwapFailed

	TransferCompleted = webhook.TransferCompleted

	CheckoutProcessing = webhook.CheckoutProcessing
	CheckoutCompleted  = webhook.CheckoutCompleted
	CheckoutExpired    = webhook.CheckoutExpired
	CheckoutException  = webhook.CheckoutException
	CheckoutRefunded   = webhook.CheckoutRefunded

	InvoiceIssued    = webhook.InvoiceIssued
	CreditNoteIssued = webhook.CreditNoteIssued

	BatchPayoutAwaitingApproval = webhook.BatchPayoutAwaitingApproval
	BatchPayoutProcessing       = webhook.BatchPayoutProcessing
	BatchPayoutCompleted        = webhook.BatchPayoutCompleted
	BatchPayoutRejected         = webhook.BatchPayoutRejected
	BatchPayoutFailed           = webhook.BatchPayoutFailed
)

// extension says of every known type whether it is an extension.
var extension = map[Type]bool{
	CustomerDeposit: false, CustomerDepositApproved: false, CustomerDepositRejected: false,
	CustomerDepositRedirected: false, CustomerWithdrawAwaitingApproval: false,
	CustomerWithdraw: false, CustomerSwapFailed: false,

	CustomerDepositReversed: true, CustomerWithdrawBlocked: true, CustomerWithdrawApproved: true,
	CustomerWithdrawRejected: true, CustomerWithdrawCancelled: true, CustomerWithdrawFailed: true,
	CustomerWithdrawCompleted: true,

	CustomerDepositSeen: true,

	OrganizationDeposit: true, OrganizationDepositReversed: true,

	OrganizationWithdraw: true, OrganizationWithdrawAwaitingApproval: true, OrganizationWithdrawBlocked: true,
	OrganizationWithdrawApproved: true, OrganizationWithdrawRejected: true, OrganizationWithdrawCancelled: true,
	OrganizationWithdrawFailed: true, OrganizationWithdrawCompleted: true,

	CustomerSwapRefunded: true, CustomerSwapDelayed: true,

	OrganizationSwapCompleted: true, OrganizationSwapFailed: true,

	TransferCompleted: true,

	CheckoutProcessing: true, CheckoutCompleted: true, CheckoutExpired: true, CheckoutException: true,
	CheckoutRefunded: true,

	InvoiceIssued: true, CreditNoteIssued: true,

	BatchPayoutAwaitingApproval: true, BatchPayoutProcessing: true, BatchPayoutCompleted: true,
	BatchPayoutRejected: true, BatchPayoutFailed: true,
}

// AllTypes lists every type, sorted.
func AllTypes() []Type {
	types := make([]Type, 0, len(extension))
	for t := range extension {
		types = append(types, t)
	}
	slices.Sort(types)
	return types
}

// IsKnown reports whether t is a known type.
func IsKnown(t Type) bool {
	_, ok := extension[t]
	return ok
}

// IsExtension reports whether only a receiver that names the type gets it.
func IsExtension(t Type) bool { return extension[t] }

// EveryType stands for every type, also for those that later versions add. No event has it as its
// type.
const EveryType Type = "*"

// IsWanted reports whether a receiver that named these types gets t. A receiver that named none
// gets the events of the interface, so no receiver gets an extension that it did not ask for.
// Rule EVT-7.
func IsWanted(named []Type, t Type) bool {
	if len(named) == 0 {
		return !IsExtension(t)
	}
	return slices.Contains(named, t) || slices.Contains(named, EveryType)
}

// Event is a notification about a resource.
type Event struct {
	OrgID        string
	Type         Type
	ResourceKind string // deposit, withdrawal
	ResourceID   string
	CustomerID   string // "" if it concerns no customer
	Chain        string // "" if it concerns no chain
	Data         any    // the struct of the feature that records it, such as a deposit.Deposit

	// FoundAgain marks what a database restored from a backup finds again under the same resource
	// id. The event's id then follows from the resource, the type and the number of earlier events
	// of that type. A consumer that remembers ids drops the second event.
	FoundAgain bool
}

// Recorder records events. A feature has one and hands it its own structs, so it knows no object
// that leaves the installation. It is safe for concurrent use.
type Recorder struct {
	// ObjectOf returns the object that an event of this type carries, made from the Data of the
	// event. It is pure. An error says that no such object can be made, which is a bug. Package wire
	// has the only one of the service.
	ObjectOf func(t Type, data any) (object any, err error)
	// Environment is webhook.Live or webhook.Test, as that of the Sequencer. Without it the Sequencer numbers every
	// event.
	Environment string
}

// freezeData returns the bytes of an event's data, which never change any more.
func (r Recorder) freezeData(e Event) ([]byte, error) {
	if !IsKnown(e.Type) {
		return nil, fmt.Errorf("record an event of %s: type %q is unknown", e.ResourceID, e.Type)
	}
	object, err := r.ObjectOf(e.Type, e.Data)
	if err != nil {
		return nil, fmt.Errorf("record %s of %s: %w", e.Type, e.ResourceID, err)
	}
	data, err := encodeJSON(object)
	if err != nil {
		return nil, fmt.Errorf("record %s of %s: %w", e.Type, e.ResourceID, err)
	}
	return data, nil
}

// Record writes the event in the caller's transaction and returns its id.
//
// The caller holds the lock of the resource's row, or has just inserted it. That lock gives the
// event its position among the events of its resource. Call Record once the change is complete,
// with the object as it reads after the commit. Rule EVT-1.
func (r Recorder) Record(ctx context.Context, tx pg.Tx, e Event) (string, error) {
	data, err := r.freezeData(e)
	if err != nil {
		return "", err
	}
	eventID := id.New("evt", tx.Now)
	if e.FoundAgain {
		var recorded int
		err := tx.QueryRow(ctx, `SELECT count(*) FROM events WHERE org_id = $1 AND resource_id = $2 AND type = $3`,
			e.OrgID, e.ResourceID, string(e.Type)).Scan(&recorded)
		if err != nil {
			return "", fmt.Errorf("record %s of %s: %w", e.Type, e.ResourceID, err)
		}
		eventID = id.Derive("evt", e.OrgID, e.ResourceID, string(e.Type), strconv.Itoa(recorded))
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq,
		                    customer_id, chain, data, created_at)
		SELECT $1, $2, $3, $4, $5, coalesce(max(resource_seq), 0) + 1, nullif($6, ''), nullif($7, ''), $8, $9
		FROM events WHERE org_id = $2 AND resource_id = $5`,
		eventID, e.OrgID, string(e.Type), e.ResourceKind, e.ResourceID, e.CustomerID, e.Chain, data, tx.Now)
	if err != nil {
		return "", fmt.Errorf("record %s of %s: %w", e.Type, e.ResourceID, err)
	}
	failpoint.Hit("K01")
	return eventID, nil
}

// QueueFirst adds to a batch the first events of resources that the same transaction creates, one
// event each. now is the time of the transaction. An event gets the same position as Record would
// give it. A resource that already has an event makes the batch fail. It returns an error for an
// event that cannot be encoded or has an unknown type.
func (r Recorder) QueueFirst(b *pgx.Batch, now time.Time, events ...Event) error {
	f, err := r.freezeFirst(now, events)
	if err != nil {
		return err
	}
	b.Queue(`
		INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq,
		                    customer_id, chain, data, created_at)
		SELECT e.event_id, e.org_id, e.type, e.resource_kind, e.resource_id, 1, nullif(e.customer_id, ''), nullif(e.chain, ''), e.data, $9
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[])
			AS e (event_id, org_id, type, resource_kind, resource_id, customer_id, chain, data)
		ORDER BY e.event_id`, f.ids, f.orgs, f.types, f.kinds, f.resources, f.customers, f.chains, f.data, now)
	return nil
}

// QueueNumberedFirst does what QueueFirst does for events of one organization, which get their numbers and their
// deliveries with it. It is for groups that are written together, and is the last statement that is sent with the
// COMMIT: from it on, the organization's counter is locked. A single step keeps to Record or QueueFirst, so that none
// waits for the fsync of another. Rule EVT-17.
func (r Recorder) QueueNumberedFirst(b *pgx.Batch, now time.Time, org string, events ...Event) error {
	if r.Environment == "" {
		return r.QueueFirst(b, now, events...)
	}
	f, err := r.freezeFirst(now, events)
	if err != nil {
		return err
	}
	extensions, heads := make([]bool, len(events)), make([][]byte, len(events))
	for i, e := range events {
		if e.OrgID != org {
			return fmt.Errorf("record %s of %s: it is of %s and the group of %s", e.Type, e.ResourceID, e.OrgID, org)
		}
		extensions[i] = IsExtension(e.Type)
		if heads[i], err = envelopeHead(r.Environment, f.ids[i], org, e.Type, now); err != nil {
			return err
		}
	}
	b.Queue(`SELECT events_record_first($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		org, now, f.ids, f.types, extensions, f.kinds, f.resources, f.customers, f.chains, heads, f.data)
	return nil
}

// firstEvents are the columns of first events.
type firstEvents struct {
	ids, orgs, types, kinds, resources, customers, chains []string
	data                                                  [][]byte
}

func (r Recorder) freezeFirst(now time.Time, events []Event) (f firstEvents, err error) {
	for _, e := range events {
		data, err := r.freezeData(e)
		if err != nil {
			return f, err
		}
		f.ids, f.orgs = append(f.ids, id.New("evt", now)), append(f.orgs, e.OrgID)
		f.types = append(f.types, string(e.Type))
		f.kinds, f.resources = append(f.kinds, e.ResourceKind), append(f.resources, e.ResourceID)
		f.customers, f.chains = append(f.customers, e.CustomerID), append(f.chains, e.Chain)
		f.data = append(f.data, data)
	}
	return f, nil
}

// encodeJSON encodes JSON as it is sent: compact, with &, < and > unescaped.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
