package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// ownSwap is a swap of the organization as it was requested. Each has an entry of the whitelist of its own, so that
// what reaches the address of the entry is of this swap alone.
type ownSwap struct {
	n      int
	call   swap.OrganizationRequest
	amount money.Amount
	vault  chain.Address
	id     string
	// isRemoved says that the entry is not on the whitelist any more, and isBarred that nothing of the payout was
	// let go by then: it may never be paid.
	isRemoved, isBarred bool
	approvers           map[string]bool // who approved it, or tried to
}

// The people of the organization: the first one requests, the others decide.
var (
	treasurer = newPerson("usr_treasurer", identity.Finance)
	approvers = []member.Member{
		newPerson("usr_first", identity.Approver), newPerson("usr_second", identity.Approver),
		newPerson("usr_third", identity.Owner),
	}
)

func newPerson(id string, role identity.Role) member.Member {
	return member.Member{ID: id, OrgID: orgID, Name: id, Roles: []identity.Role{role}}
}

// soakWhitelist is the whitelist of the organization.
type soakWhitelist struct{ w *soakRun }

// Usable implements withdrawal.Whitelist.
func (l soakWhitelist) Usable(_ context.Context, _ pg.Tx, _, listedID string) (withdrawal.WhitelistEntry, error) {
	for _, r := range l.w.ownSwaps {
		if r.call.WhitelistedAddressID == listedID && !r.isRemoved {
			return withdrawal.WhitelistEntry{Chain: chain.Ethereum, Address: r.vault}, nil
		}
	}
	return withdrawal.WhitelistEntry{}, fault.New(
		fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld, "It is not on the list.",
	)
}

// swapWhitelist is the same whitelist for swaps.
type swapWhitelist struct{ soakWhitelist }

// Usable implements swap.Whitelist.
func (l swapWhitelist) Usable(ctx context.Context, tx pg.Tx, org, listedID string) (swap.WhitelistEntry, error) {
	entry, err := l.soakWhitelist.Usable(ctx, tx, org, listedID)
	return swap.WhitelistEntry(entry), err
}

// enableOwnSwaps switches swaps of the organization's own money on.
func (w *soakRun) enableOwnSwaps() {
	w.mustSucceed(w.changeSettings(w.ctx, org.Changes{
		"organizationSwapsEnabled": json.RawMessage(`true`),
		"twoFactorUsdThreshold":    json.RawMessage(drawFrom(w, []string{`null`, `"50"`, `"50"`, `"200"`})),
	}), "enable swaps of the organization")
}

// requestOwnSwap requests a swap of a part of a product's balance, or repeats a request.
func (w *soakRun) requestOwnSwap() {
	w.provider.isAway = w.drawChance(8)
	defer func() { w.provider.isAway = false }()
	if len(w.ownSwaps) > 0 && w.drawChance(20) {
		w.sendOwnSwap(drawFrom(w, w.ownSwaps))
		return
	}
	var product string
	var mintID int
	var balance money.Amount
	for range 6 {
		product, mintID = drawFrom(w, ledger.Products), drawFrom(w, []int{tokenID, nativeID, limitedID})
		if balance = w.loadBalance(product, mintID); !balance.IsZero() {
			break
		}
	}
	if balance.IsZero() {
		amount := w.amountOf(mintID)
		hash := w.makePayment(sim.Move{Contract: tokens[mintID], To: w.addresses[product], Amount: amount})
		w.addTrace("pay %v of mint %d to %s %s", amount, mintID, product, hash[:12])
		return
	}
	amount := w.part(balance, uint64(1000+w.drawNumber(9001)))
	if amount.IsZero() {
		return
	}
	r := &ownSwap{n: len(w.ownSwaps) + 1, amount: amount, approvers: map[string]bool{}}
	r.vault = sim.Address(fmt.Sprintf("vault %d of %d", r.n, w.seed))
	r.call = swap.OrganizationRequest{
		IdempotencyKey: fmt.Sprintf("own-%d", r.n), Product: product, FromMintID: mintID,
		ToMintID: drawFrom(w, []int{tokenID, nativeID, limitedID}), AmountIn: amount.String(),
		WhitelistedAddressID: fmt.Sprintf("wla_01J9ZW3M8Q4S5T6V7W8X9%05d", r.n), Actor: audit.APIKey(orgID),
	}
	if w.drawChance(70) {
		r.call.Person = &treasurer
	}
	endorsement := signer.Endorsement{
		OrgID: orgID, ID: r.call.WhitelistedAddressID, Chain: chain.Ethereum, Address: r.vault,
		LabelHash: signer.HashLabel("vault"), NotBefore: signer.FormatMicros(w.readClock()),
	}
	endorsement.MAC = w.grants.EndorsementMAC(endorsement)
	_, err := w.inner.EndorseAddress(w.ctx, endorsement)
	w.mustSucceed(err, "endorse a vault")
	w.ownSwaps = append(w.ownSwaps, r)
	w.sendOwnSwap(r)
}

func (w *soakRun) sendOwnSwap(r *ownSwap) {
	var made swap.Swap
	s := w.runWithFaults(func(ctx context.Context) (err error) {
		made, _, err = drawFrom(w, w.processes).Swaps.RequestOrganization(ctx, orgID, r.call)
		return err
	})
	w.addTrace("own swap #%d: %v of mint %d to mint %d for %s: %s", r.n, r.amount, r.call.FromMintID,
		r.call.ToMintID, r.call.Product, outcomeCode(s.err))
	w.findSwapWallets()
	w.recordOwnSwap(r, made, s.err)
	if s.err != nil && fault.Find(s.err) == nil {
		w.recordError("own swap", s.err, w.isCalm() && !s.struck)
	}
}

func (w *soakRun) recordOwnSwap(r *ownSwap, made swap.Swap, err error) {
	switch {
	case err == nil && r.id != "" && r.id != made.ID:
		w.failRun("own swap #%d was accepted as %s and as %s", r.n, r.id, made.ID)
	case err == nil:
		if r.id == "" {
			w.organizationSwaps++
		}
		r.id = made.ID
	case fault.Find(err) != nil && r.id != "":
		w.failRun("own swap #%d was accepted as %s and its repetition is refused: %v", r.n, r.id, err)
	}
}

// ownSwapByID returns the request of a swap, also of one whose acceptance had no answer.
func (w *soakRun) ownSwapByID(id string) *ownSwap {
	for _, r := range w.ownSwaps {
		if swap.OrganizationID(orgID, r.call.IdempotencyKey) == id {
			return r
		}
	}
	w.failRun("no one requested the own swap %s", id)
	return nil
}

// The decisions about a swap that waits.
const (
	cancel       = "cancel"
	ownDecisions = `SELECT swap_id FROM swaps WHERE status = 'AWAITING_APPROVAL' AND $1 ORDER BY swap_id`
)

// decideOwnSwap approves, rejects or cancels a swap that waits.
func (w *soakRun) decideOwnSwap() {
	ids := w.queryColumn(ownDecisions, true)
	if len(ids) == 0 {
		return
	}
	id := drawFrom(w, ids)
	verb, person := drawFrom(w, []string{approve, approve, approve, reject, cancel}),
		drawFrom(w, approvers)
	process := drawFrom(w, w.processes)
	s := w.runWithFaults(func(ctx context.Context) error { return w.decideOwn(ctx, process, id, verb, person) })
	w.addTrace("%s own swap #%d as %s: %s", verb, w.ownSwapByID(id).n, person.ID, outcomeCode(s.err))
	if s.err != nil && fault.Find(s.err) == nil {
		w.recordError("decide about an own swap", s.err, w.isCalm() && !s.struck)
	}
}

func (w *soakRun) decideOwn(
	ctx context.Context, process *serviceProcess, id, verb string, person member.Member,
) (err error) {
	switch verb {
	case approve:
		w.ownSwapByID(id).approvers[person.ID] = true
		_, err = process.Swaps.ApproveOrganization(ctx, orgID, id, "", person)
	case reject:
		_, err = process.Swaps.RejectOrganization(ctx, orgID, id, "by the soak", person)
	default:
		_, err = process.Swaps.CancelOrganization(ctx, orgID, id, treasurer)
	}
	return err
}

// removeEntry takes the entry of a swap from the whitelist.
func (w *soakRun) removeEntry() {
	candidates := slices.DeleteFunc(slices.Clone(w.ownSwaps), func(r *ownSwap) bool { return r.isRemoved })
	if len(candidates) == 0 {
		return
	}
	r := drawFrom(w, candidates)
	r.isRemoved = true
	r.isBarred = w.queryCount(`SELECT count(*) FROM dispatch_orders WHERE to_address = $1`, r.vault) == 0
	w.faults.addOne("whitelist entry removed")
	w.addTrace("the entry of own swap #%d is removed, nothing let go: %v", r.n, r.isBarred)
}

// decideOwnSwaps decides about all swaps that wait.
func (w *soakRun) decideOwnSwaps(cancelAll bool) {
	for _, id := range w.queryColumn(ownDecisions, true) {
		verb := cancel
		if !cancelAll && w.drawChance(60) {
			verb = approve
		}
		for _, person := range approvers {
			err := w.decideOwn(w.ctx, w.processes[0], id, verb, person)
			if err != nil && fault.Find(err) == nil {
				w.failRun("%s own swap %s: %v", verb, id, err)
			}
		}
		w.addTrace("%s own swap #%d at last", verb, w.ownSwapByID(id).n)
	}
}

// checkVaults checks what left for each vault, on every fork: nothing, or one payment of what the provider delivered
// for its swap in final blocks. payments are all that left for an address.
func (w *soakRun) checkVaults(payments map[chain.Address][]payout) {
	for _, r := range w.ownSwaps {
		list := payments[r.vault]
		if len(list) == 0 {
			continue
		}
		paid := list[0]
		delivered := w.arrivals.received[chain.Holding{
			Address: w.deliveryWallet(r), Contract: tokens[r.call.ToMintID],
		}]
		switch {
		case len(list) > 1:
			w.failRun("own swap #%d was paid out %d times: %v", r.n, len(list), list)
		case paid.contract != tokens[r.call.ToMintID]:
			w.failRun("own swap #%d was paid out in %.10q, want mint %d", r.n, paid.contract, r.call.ToMintID)
		case delivered.Less(paid.amount):
			w.failRun("own swap #%d was paid out with %v, and %v was delivered for it", r.n, paid.amount, delivered)
		case r.isBarred:
			w.failRun("own swap #%d was paid out, and its entry had been removed before anything was let go", r.n)
		}
	}
}

func (w *soakRun) deliveryWallet(r *ownSwap) chain.Address {
	found := w.queryColumn(`SELECT address FROM wallets WHERE purpose = 'SWAP_DELIVERY' AND subject = $1`,
		swap.OrganizationID(orgID, r.call.IdempotencyKey))
	if len(found) != 1 {
		w.failRun("own swap #%d has %d delivery wallets", r.n, len(found))
	}
	return chain.Address(found[0])
}

// lookAtOwnSwaps checks after each step that no swap has an offer that too few people approved, and that none is
// completed before its payout is final.
func (w *soakRun) lookAtOwnSwaps() {
	rows, err := w.superPool.Query(w.ctx, `
		SELECT swap_id, status, approvals_required, provider IS NOT NULL, coalesce(amount_out, 0) FROM swaps
		WHERE kind = 'ORGANIZATION' AND (provider IS NOT NULL OR status = 'COMPLETED')`)
	w.mustSucceed(err, "read the own swaps")
	defer rows.Close()
	for rows.Next() {
		var id, status string
		var required int
		var hasOffer bool
		var amountOut money.Amount
		w.mustSucceed(rows.Scan(&id, &status, &required, &hasOffer, &amountOut), "read an own swap")
		r := w.ownSwapByID(id)
		if hasOffer && len(r.approvers) < required {
			w.failRun("own swap #%d needs %d approvals and has an offer after %d", r.n, required, len(r.approvers))
		}
		if status != string(swap.Completed) {
			continue
		}
		contract := tokens[r.call.ToMintID]
		paid := w.arrivals.received[chain.Holding{Address: r.vault, Contract: contract}]
		if !w.isPaidOut(paid, amountOut, contract) {
			w.failRun("own swap #%d is COMPLETED with %v, and final blocks paid %v of it", r.n, amountOut, paid)
		}
	}
	w.mustSucceed(rows.Err(), "read the own swaps")
}

// isPaidOut reports whether a payment is that of an output. Of coin the network fee is missing.
func (w *soakRun) isPaidOut(paid, amountOut money.Amount, contract chain.Address) bool {
	if contract != tokens[nativeID] {
		return paid == amountOut
	}
	fee, err := amountOut.Sub(paid)
	return err == nil && !paid.IsZero() && fee.Less(money.Units(keptMax))
}
