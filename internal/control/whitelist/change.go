package whitelist

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Outcome is the result of a request for an entry.
type Outcome struct {
	// Entry is the row, which FinishEntry endorses; nil while a second operator has to agree.
	Entry *Entry
	// PendingChange is the change request for the second operator, or nil.
	PendingChange *changerequest.Request
	// Request has the form in which it is stored.
	Request EntryRequest
}

// RequestEntry adds an entry, or creates a change request where dual control is on, in a system
// transaction. After the commit the caller calls FinishEntry. Faults:
//
//   - NOT_FOUND,
//   - INVALID_ADDRESS,
//   - DESTINATION_NOT_ALLOWED for an address that may not be paid,
//   - INVALID_STATE for an address that is on the whitelist already,
//   - those of changerequest.CreateRequest.
//
// Rule OP-11.
func (b *Service) RequestEntry(
	ctx context.Context, tx pg.Tx, operatorKey operator.Key, rule changerequest.Rule, orgID string, w EntryRequest,
) (Outcome, error) {
	e, err := b.checkRequest(ctx, tx, orgID, w)
	if err != nil {
		return Outcome{}, err
	}
	outcome := Outcome{Request: EntryRequest{string(e.Chain), string(e.Address), e.Label}}
	needsSecond, err := rule.IsActive(ctx, tx, identity.AddWhitelistEntry)
	if err != nil {
		return Outcome{}, err
	}
	if needsSecond {
		wanted := changerequest.Values{}
		for name, text := range map[string]string{
			"chain": string(e.Chain), "address": string(e.Address), "label": e.Label,
		} {
			if wanted[name], err = json.Marshal(text); err != nil {
				return Outcome{}, fmt.Errorf("write %s of an address for %s: %w", name, orgID, err)
			}
		}
		r, err := changerequest.CreateRequest(
			ctx, tx, operatorKey, orgID, changerequest.WhitelistedAddress, changerequest.Values{}, wanted,
		)
		outcome.PendingChange = &r
		return outcome, err
	}
	e, err = b.insertEntry(ctx, tx, operatorKey, e)
	outcome.Entry = &e
	return outcome, err
}

// ApplyApproved returns the function that adds the entry of an approved change request. The request
// is checked again, and the cooling-off starts now.
func (b *Service) ApplyApproved(
	operatorKey operator.Key,
) func(ctx context.Context, tx pg.Tx, r changerequest.Request) error {
	return func(ctx context.Context, tx pg.Tx, r changerequest.Request) error {
		var w EntryRequest
		for name, target := range map[string]*string{"chain": &w.Chain, "address": &w.Address, "label": &w.Label} {
			if err := json.Unmarshal(r.Wanted[name], target); err != nil {
				return fmt.Errorf("read %s of %s: %w", name, r.ID, err)
			}
		}
		e, err := b.checkRequest(ctx, tx, r.OrgID, w)
		if err != nil {
			return err
		}
		e.ChangeID = r.ID
		_, err = b.insertEntry(ctx, tx, operatorKey, e)
		return err
	}
}

// checkRequest validates a request; it parses the address as a withdrawal parses its destination.
func (b *Service) checkRequest(ctx context.Context, tx pg.Tx, orgID string, w EntryRequest) (Entry, error) {
	if _, err := org.ByID(ctx, tx, orgID); err != nil {
		return Entry{}, err
	}
	e := Entry{OrgID: orgID, Chain: chain.Name(w.Chain)}
	ch, isRunning := b.conf.Chains[e.Chain]
	if !isRunning || ch.AddressCodec == nil {
		return e, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The chain does not run on this installation.").
			WithStep(fault.ListMints).WithParam("chain")
	}
	var err error
	if len(w.Address) > addressBytesMax {
		return e, fault.New(fault.Invalid, fault.InvalidAddress, fault.NothingWritten,
			"An address may have at most %d characters.", addressBytesMax).
			WithAdvice("Check it with its owner.").WithParam("address")
	}
	if e.Address, err = ch.AddressCodec.Parse(w.Address); err != nil {
		return e, fault.New(fault.Invalid, fault.InvalidAddress, fault.NothingWritten,
			"This is not an address on %s: %v.", e.Chain, err).
			WithAdvice("Check it with its owner.").WithParam("address")
	}
	if e.Label, err = parseLabel(w.Label); err != nil {
		return e, err
	}
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return e, err
	}
	wallets, err := wallet.ByAddresses(ctx, tx, e.Chain.Family(), []chain.Address{e.Address})
	if err != nil {
		return e, err
	}
	payee := wallet.PayeeCheck{
		IsUnspendable: ch.AddressCodec.IsUnspendable(e.Address), IsOwn: len(wallets) > 0,
		IsTokenContract: mints.IsContract(e.Chain.Family(), e.Address),
	}
	if reason := payee.RefusalReason(); reason != "" {
		return e, fault.New(fault.Unprocessable, fault.DestinationNotAllowed, fault.NothingWritten,
			"Payments to this address are not allowed: %s.", reason).
			WithAdvice("Give an address of the organization outside this service.").WithParam("address")
	}
	// A later transaction sees the new row. An earlier one has decided without it.
	if err := pg.LockExclusive(ctx, tx, lockName(orgID)); err != nil {
		return e, err
	}
	var existingID string
	var entryCount int
	err = tx.QueryRow(ctx, `
		SELECT count(*), coalesce(max(whitelisted_address_id) FILTER (WHERE chain = $2 AND address = $3), '')
		FROM whitelisted_addresses WHERE org_id = $1 AND removed_at IS NULL`,
		orgID, e.Chain, e.Address).Scan(&entryCount, &existingID)
	if err != nil {
		return e, fmt.Errorf("look for the whitelisted addresses of %s: %w", orgID, err)
	}
	switch {
	case existingID != "":
		return e, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"This address is already on the organization's whitelist.").
			WithAdvice("Remove it first if you want to give it another label.").
			WithParam("address").WithDetail("whitelistedAddressId", existingID)
	case entryCount >= entriesMax:
		return e, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"An organization may have at most %d whitelisted addresses.", entriesMax).
			WithAdvice("Remove some that are not needed.")
	}
	return e, nil
}

func (b *Service) insertEntry(ctx context.Context, tx pg.Tx, operatorKey operator.Key, e Entry) (Entry, error) {
	now := tx.Now.Truncate(time.Microsecond)
	e.ID, e.CreatedAt, e.CreatedBy = id.New(idPrefix, now), now, operatorKey.ID
	e.NotBefore = now.Add(b.conf.CoolingOff)
	e.UsableFrom = e.NotBefore
	e.mac = b.conf.GrantKey.EndorsementMAC(e.endorsement())
	_, err := tx.Exec(ctx, `
		INSERT INTO whitelisted_addresses (whitelisted_address_id, org_id, chain, address, label, created_at, created_by, change_id, not_before, request_mac)
		VALUES ($1, $2, $3, $4, $5, $6, $7, nullif($8, ''), $9, $10)`,
		e.ID, e.OrgID, e.Chain, e.Address, e.Label, e.CreatedAt, e.CreatedBy, e.ChangeID, e.NotBefore, e.mac)
	if err != nil {
		return e, fmt.Errorf("add an address to the whitelist of %s: %w", e.OrgID, err)
	}
	detail := map[string]any{"notBefore": e.NotBefore.UTC().Format(time.RFC3339Nano)}
	if e.ChangeID != "" {
		detail["changeRequest"] = e.ChangeID
	}
	return e, audit.Record(ctx, tx, e.auditEntry(operatorKey.Actor(), "whitelist.added", detail))
}

// EntryOfChange returns the id of the entry that a change request added, in a system transaction.
// Error: NOT_FOUND.
func EntryOfChange(ctx context.Context, tx pg.Tx, changeID string) (string, error) {
	var name string
	if err := tx.QueryRow(
		ctx, `SELECT coalesce(max(whitelisted_address_id), '') FROM whitelisted_addresses WHERE change_id = $1`,
		changeID,
	).Scan(&name); err != nil {
		return "", fmt.Errorf("look for the whitelist entry of %s: %w", changeID, err)
	}
	if name == "" {
		return "", fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This request added no address.")
	}
	return name, nil
}

// Remove takes an entry off the whitelist, in a system transaction. It waits for the transactions
// that are choosing the entry; later ones are refused. A second call changes nothing. After the
// commit the caller calls FinishEntry. Error: NOT_FOUND. Rule OP-11.
func (b *Service) Remove(ctx context.Context, tx pg.Tx, operatorKey operator.Key, orgID, name string) (Entry, error) {
	if err := pg.LockExclusive(ctx, tx, lockName(orgID)); err != nil {
		return Entry{}, err
	}
	e, err := ByID(ctx, tx, orgID, name)
	if err != nil || e.RemovedAt != nil {
		return e, err
	}
	tag, err := tx.Exec(ctx, `
		UPDATE whitelisted_addresses SET removed_at = $2, removed_by = $3
		WHERE whitelisted_address_id = $1 AND removed_at IS NULL`, name, tx.Now, operatorKey.ID)
	if err != nil {
		return e, fmt.Errorf("remove whitelisted address %s: %w", name, err)
	}
	if tag.RowsAffected() != 1 {
		return e, fmt.Errorf("remove whitelisted address %s: %d rows", name, tag.RowsAffected())
	}
	now := tx.Now
	e.RemovedAt, e.RemovedBy = &now, operatorKey.ID
	return e, audit.Record(ctx, tx, e.auditEntry(operatorKey.Actor(), "whitelist.removed", nil))
}

// unfinishedCondition selects entries that the signer has not answered about, and removed entries
// that the signer has not revoked.
const unfinishedCondition = `(removed_at IS NULL AND proof IS NULL AND refusal IS NULL OR removed_at IS NOT NULL AND revoked_seq IS NULL)`
