package whitelist

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/foureyes"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/operator"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Outcome is what became of an address that somebody wants.
type Outcome struct {
	Address *Address          // the row, which Finish has endorsed; nil while a second operator has to agree
	Waits   *foureyes.Request // what waits for that one, or nil
	Wanted  Wanted            // in the form in which it is kept
}

const untouched = " Nothing was changed and no money moved."

// Ask adds an address, or asks a second operator where four eyes are wanted, in a
// transaction of the system. Whoever commits it calls Finish. Faults: NOT_FOUND,
// INVALID_ADDRESS, DESTINATION_NOT_ALLOWED for one that no payment may go to,
// INVALID_STATE for one that is there, and those of foureyes.Ask.
func (b *Book) Ask(ctx context.Context, tx pg.Tx, by operator.Key, rule foureyes.Rule, orgID string, w Wanted) (Outcome, error) {
	a, err := b.check(ctx, tx, orgID, w)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Wanted: Wanted{string(a.Chain), string(a.Address), a.Label}}
	holds, err := rule.Holds(ctx, tx)
	if err != nil {
		return Outcome{}, err
	}
	if holds {
		wanted := foureyes.Values{}
		for name, text := range map[string]string{"chain": string(a.Chain), "address": string(a.Address), "label": a.Label} {
			if wanted[name], err = json.Marshal(text); err != nil {
				return Outcome{}, fmt.Errorf("write %s of an address for %s: %w", name, orgID, err)
			}
		}
		r, err := foureyes.Ask(ctx, tx, by, orgID, foureyes.WhitelistedAddress, foureyes.Values{}, wanted)
		out.Waits = &r
		return out, err
	}
	a, err = b.insert(ctx, tx, by, a)
	out.Address = &a
	return out, err
}

// Agree adds the address of a request to which another operator has agreed: it is
// looked at again, and its cooling-off begins now.
func (b *Book) Agree(by operator.Key) func(ctx context.Context, tx pg.Tx, r foureyes.Request) error {
	return func(ctx context.Context, tx pg.Tx, r foureyes.Request) error {
		var w Wanted
		for name, into := range map[string]*string{"chain": &w.Chain, "address": &w.Address, "label": &w.Label} {
			if err := json.Unmarshal(r.Wanted[name], into); err != nil {
				return fmt.Errorf("read %s of %s: %w", name, r.ID, err)
			}
		}
		a, err := b.check(ctx, tx, r.OrgID, w)
		if err != nil {
			return err
		}
		a.ChangeID = r.ID
		_, err = b.insert(ctx, tx, by, a)
		return err
	}
}

// check reads what is wanted as a withdrawal reads its destination.
func (b *Book) check(ctx context.Context, tx pg.Tx, orgID string, w Wanted) (Address, error) {
	if _, err := org.ByID(ctx, tx, orgID); err != nil {
		return Address{}, err
	}
	a := Address{OrgID: orgID, Chain: chain.Name(w.Chain)}
	on, runs := b.conf.Chains[a.Chain]
	if !runs || on.Grammar == nil {
		return a, fault.New(fault.Invalid, fault.InvalidRequest, "This installation does not talk to that chain."+untouched+" GET /mints lists the chains there are.").On("chain")
	}
	var err error
	if len(w.Address) > addressBytesMax {
		return a, fault.New(fault.Invalid, fault.InvalidAddress, "An address has at most %d characters."+untouched+" Check it with its owner.", addressBytesMax).On("address")
	}
	if a.Address, err = on.Grammar.Parse(w.Address); err != nil {
		return a, fault.New(fault.Invalid, fault.InvalidAddress, "This is no address on %s: %v."+untouched+" Check it with its owner.", a.Chain, err).On("address")
	}
	if a.Label, err = plain(w.Label); err != nil {
		return a, err
	}
	mints, err := mint.All(ctx, tx)
	if err != nil {
		return a, err
	}
	known, err := wallet.Known(ctx, tx, a.Chain.Family(), []chain.Address{a.Address})
	if err != nil {
		return a, err
	}
	payee := wallet.Payee{Burns: on.Grammar.Burns(a.Address), Ours: len(known) > 0, Token: mints.Contract(a.Chain.Family(), a.Address)}
	if why := payee.Barred(); why != "" {
		return a, fault.New(fault.Unprocessable, fault.DestinationNotAllowed, "Nothing may be paid to this address: %s."+untouched+" Give an address that the organization holds elsewhere.", why).On("address")
	}
	// Whoever comes after this sees the row, or what is decided without it is decided.
	if err := pg.Exclude(ctx, tx, gate(orgID)); err != nil {
		return a, err
	}
	var there string
	var live int
	err = tx.QueryRow(ctx, `
		SELECT count(*), coalesce(max(whitelisted_address_id) FILTER (WHERE chain = $2 AND address = $3), '')
		FROM whitelisted_addresses WHERE org_id = $1 AND removed_at IS NULL`, orgID, a.Chain, a.Address).Scan(&live, &there)
	if err != nil {
		return a, fmt.Errorf("look for the whitelisted addresses of %s: %w", orgID, err)
	}
	switch {
	case there != "":
		return a, fault.New(fault.Conflict, fault.InvalidState, "This address is on the organization's whitelist already."+untouched+" Remove it first if it is to have another label.").
			On("address").With("whitelistedAddressId", there)
	case live >= liveMax:
		return a, fault.New(fault.Conflict, fault.InvalidState, "An organization has at most %d whitelisted addresses."+untouched+" Remove some that nobody uses.", liveMax)
	}
	return a, nil
}

func (b *Book) insert(ctx context.Context, tx pg.Tx, by operator.Key, a Address) (Address, error) {
	now := tx.Now.Truncate(time.Microsecond)
	a.ID, a.CreatedAt, a.CreatedBy = id.New(idPrefix, now), now, by.ID
	a.NotBefore = now.Add(b.conf.CoolingOff)
	a.UsableFrom = a.NotBefore
	a.mac = b.conf.Grants.Endorse(a.words())
	_, err := tx.Exec(ctx, `
		INSERT INTO whitelisted_addresses (whitelisted_address_id, org_id, chain, address, label, created_at, created_by, change_id, not_before, request_mac)
		VALUES ($1, $2, $3, $4, $5, $6, $7, nullif($8, ''), $9, $10)`,
		a.ID, a.OrgID, a.Chain, a.Address, a.Label, a.CreatedAt, a.CreatedBy, a.ChangeID, a.NotBefore, a.mac)
	if err != nil {
		return a, fmt.Errorf("add an address to the whitelist of %s: %w", a.OrgID, err)
	}
	more := map[string]any{"notBefore": a.NotBefore.UTC().Format(time.RFC3339Nano)}
	if a.ChangeID != "" {
		more["changeRequest"] = a.ChangeID
	}
	return a, audit.Record(ctx, tx, a.entry(by.Actor(), "whitelist.added", more))
}

// Added is the address that a change request made, in a transaction of the system.
// Error: NOT_FOUND.
func Added(ctx context.Context, tx pg.Tx, changeID string) (string, error) {
	var name string
	if err := tx.QueryRow(ctx, `SELECT coalesce(max(whitelisted_address_id), '') FROM whitelisted_addresses WHERE change_id = $1`, changeID).Scan(&name); err != nil {
		return "", fmt.Errorf("look for the address of %s: %w", changeID, err)
	}
	if name == "" {
		return "", fault.New(fault.NotFound, fault.CodeNotFound, "This request has added no address."+untouched)
	}
	return name, nil
}

// Remove takes an address from the whitelist, in a transaction of the system that waits
// for everybody who is choosing it: whoever comes after this is refused. Again it
// changes nothing. Whoever commits it calls Finish. Error: NOT_FOUND.
func (b *Book) Remove(ctx context.Context, tx pg.Tx, by operator.Key, orgID, name string) (Address, error) {
	if err := pg.Exclude(ctx, tx, gate(orgID)); err != nil {
		return Address{}, err
	}
	a, err := ByID(ctx, tx, orgID, name)
	if err != nil || a.RemovedAt != nil {
		return a, err
	}
	tag, err := tx.Exec(ctx, `
		UPDATE whitelisted_addresses SET removed_at = $2, removed_by = $3
		WHERE whitelisted_address_id = $1 AND removed_at IS NULL`, name, tx.Now, by.ID)
	if err != nil {
		return a, fmt.Errorf("remove whitelisted address %s: %w", name, err)
	}
	if tag.RowsAffected() != 1 {
		return a, fmt.Errorf("remove whitelisted address %s: %d rows", name, tag.RowsAffected())
	}
	now := tx.Now
	a.RemovedAt, a.RemovedBy = &now, by.ID
	return a, audit.Record(ctx, tx, a.entry(by.Actor(), "whitelist.removed", nil))
}

// unfinished are those that the signer has not answered about, and those whose removal
// it does not know.
const unfinished = `(removed_at IS NULL AND proof IS NULL AND refusal IS NULL OR removed_at IS NOT NULL AND revoked_seq IS NULL)`
