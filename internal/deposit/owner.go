package deposit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// Owner decides whose the arrivals at the wallets of one purpose are, and hears of their deposits.
// States, proofs and order of writes are the same for all owners. A feature registers its owner in
// package service. Its methods are safe for concurrent use.
type Owner interface {
	// Terms returns how arrivals are treated. It is pure and always returns the same.
	Terms() Terms
	// Account returns the kind and the subject of the ledger account that an arrival credits, and the
	// part of the address funds that it belongs to. It is pure. The row of the deposit names the
	// customer or product of that account. It is the subject of the wallet, unless the terms say that this is
	// something else.
	Account(subject string, isNative bool) (ledger.Account, wallet.Part)
	// EventType returns the event that corresponds to the event t of a customer's deposit, or ""
	// if no organization is notified. It is pure.
	EventType(t event.Type) event.Type
	// OnUpdates hears of every change that the states list, in the system transaction that writes
	// it. A new deposit comes before its row is inserted. An error rolls the transaction back. The
	// transaction may run twice, so OnUpdates writes through tx only and calls no network. Rows of
	// deposits are locked by then: OnUpdates takes only locks that come later in their order.
	OnUpdates(ctx context.Context, tx pg.Tx, updates []Update) error
}

// Terms say how the arrivals at the wallets of a purpose are treated. The zero value is the
// strictest: each arrival is screened and has a minimum.
type Terms struct {
	Refusal string // the reason for which each arrival is UNSUPPORTED; "" if it can be credited
	// IsOperators says that the arrivals belong to the operator. They are not screened, not shown
	// before they are final, and have no memo.
	IsOperators  bool
	HasNoMinimum bool // the minimum of the mint does not apply
	// IsSettled says that the owner is a Settler. Its arrivals are of a swap, the subject of the
	// wallet. They are not screened, not shown before they are final, and have no memo.
	IsSettled bool
	// IsOfDepositSwap says that the subject of the wallet is a deposit swap. Its row names the customer and who
	// paid the provider; the sender on the chain is the provider, about which no one is asked and to which
	// nothing is returned.
	IsOfDepositSwap bool
	// IsOfCheckout says that the subject of the wallet is a checkout. The row of the deposit names it.
	IsOfCheckout bool
}

// isShownEarly reports whether an arrival is shown before it is final, and its memo is read.
func (t Terms) isShownEarly() bool { return !t.IsOperators && !t.IsSettled }

// Update is a deposit that changes.
type Update struct {
	DepositID, OrgID string
	Purpose          string // of the wallet
	Subject          string // of the wallet: the customer, the product, the swap or the checkout; "" if it has none
	DepositSwapID    string // set at a wallet of a deposit swap only
	CheckoutID       string // set at a wallet of one checkout only
	MintID           *int   // nil if the token is unknown
	Chain            chain.Name
	Address          chain.Address // that received it
	Amount           money.Amount
	Tx               chain.TxHash
	From, To         Status // From is "" if the deposit is new
	IsReorged        bool   // a fork has removed it, or its finality is in question
	// BlockTime is the time of the block that shows the deposit. It is zero for a change that comes from no block.
	BlockTime time.Time
	// References are the accounts that the transaction names beside those whose balances it changes, in a change
	// that comes from a block, for a deposit at a wallet that checkouts share. Those of a recent block are the word
	// of one provider; a quorum agrees on those of a final block.
	References []chain.Address
}

// Owners holds the owner of each purpose of wallets. Only NewOwners makes one that can be used.
type Owners struct{ byPurpose map[string]Owner }

// NewOwners returns the owners by purpose. It panics if a purpose of wallet.Purposes has none: such
// a service must not start, because it cannot say whose an arrival is.
func NewOwners(byPurpose map[string]Owner) Owners {
	for _, purpose := range wallet.Purposes {
		if byPurpose[purpose] == nil {
			panic(fmt.Sprintf("deposit: no owner is registered for arrivals at wallets of purpose %s", purpose))
		}
		if _, isSettler := byPurpose[purpose].(Settler); isSettler != byPurpose[purpose].Terms().IsSettled {
			panic(fmt.Sprintf("deposit: the owner of wallets of purpose %s does not settle what it says", purpose))
		}
	}
	return Owners{maps.Clone(byPurpose)}
}

// forPurpose returns the owner of a purpose. It panics if there is none: no deposit with such a
// purpose is ever inserted, see checkPurpose.
func (o Owners) forPurpose(purpose string) Owner {
	if err := o.checkPurpose(purpose); err != nil {
		panic(err.Error())
	}
	return o.byPurpose[purpose]
}

func (o Owners) checkPurpose(purpose string) error {
	if o.byPurpose[purpose] == nil {
		return fmt.Errorf("deposit: no owner is registered for arrivals at wallets of purpose %q", purpose)
	}
	return nil
}

func (o Owners) isOperators(d storedDeposit) bool { return o.forPurpose(d.purpose).Terms().IsOperators }

// isSettled reports whether the owner of a purpose settles its arrivals. A purpose without an owner is
// refused later.
func (o Owners) isSettled(purpose string) bool {
	owner := o.byPurpose[purpose]
	return owner != nil && owner.Terms().IsSettled
}

// accountFor returns the ledger account that a deposit credits, and the part of the address funds
// that it belongs to. It is pure. Rule DEP-25.
func (o Owners) accountFor(d storedDeposit, isNative bool) (ledger.Account, wallet.Part) {
	if d.swapID != "" {
		account := d.arrivalAccount()
		account.OrgID, account.MintID = d.orgID, *d.mintID
		return account, wallet.Credited
	}
	account, part := o.forPurpose(d.purpose).Account(d.ownerSubject(), isNative)
	account.OrgID, account.MintID = d.orgID, *d.mintID
	return account, part
}

// eventFor returns the event of a deposit that corresponds to the event t of a customer's deposit.
// The interface defines events of customers only. It returns "" if no organization is notified.
// Rule DEP-25.
func (o Owners) eventFor(d storedDeposit, t event.Type) event.Type {
	if d.isHidden {
		return ""
	}
	if d.swapID != "" && d.product != "" {
		return ProductOwner{}.EventType(t) // of an organization's swap
	}
	return o.forPurpose(d.purpose).EventType(t)
}

// report tells the owners of changes, purpose by purpose in a fixed order.
func (o Owners) report(ctx context.Context, tx pg.Tx, changes []change) error {
	updates := map[string][]Update{}
	for _, c := range changes {
		d := c.after
		updates[d.purpose] = append(updates[d.purpose], Update{
			DepositID: d.id, OrgID: d.orgID, Purpose: d.purpose, Subject: d.walletSubject(),
			DepositSwapID: d.depositSwapID, CheckoutID: d.checkoutID, MintID: d.mintID, Chain: d.chain,
			Address: d.address, Amount: d.amount, Tx: d.tx,
			From: c.before.status, To: d.status, IsReorged: d.chainStatus == chainReorged,
			BlockTime: d.blockTime, References: d.references,
		})
	}
	for _, purpose := range slices.SortedFunc(maps.Keys(updates), compareByLocks) {
		if err := o.forPurpose(purpose).OnUpdates(ctx, tx, updates[purpose]); err != nil {
			return fmt.Errorf("report deposits at wallets of purpose %s: %w", purpose, err)
		}
	}
	return nil
}

// compareByLocks orders purposes as their owners take locks, which is the order of wallet.Purposes. Other ones follow.
func compareByLocks(a, b string) int {
	rank := func(purpose string) int {
		if i := slices.Index(wallet.Purposes, purpose); i >= 0 {
			return i
		}
		return len(wallet.Purposes)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

// CustomerOwner owns arrivals at the addresses of customers. They credit the customer.
type CustomerOwner struct{}

// Terms implements Owner.
func (CustomerOwner) Terms() Terms { return Terms{} }

// Account implements Owner.
func (CustomerOwner) Account(subject string, _ bool) (ledger.Account, wallet.Part) {
	return ledger.Account{Kind: ledger.Customer, Subject: subject}, wallet.Credited
}

// EventType implements Owner.
func (CustomerOwner) EventType(t event.Type) event.Type { return t }

// OnUpdates implements Owner. It inserts the customers of new deposits that are missing. The
// signer's journal can restore a wallet before its customer.
func (CustomerOwner) OnUpdates(ctx context.Context, tx pg.Tx, updates []Update) error {
	customerIDs := map[string][]string{}
	for _, u := range updates {
		if u.From == "" {
			customerIDs[u.OrgID] = append(customerIDs[u.OrgID], u.Subject)
		}
	}
	for _, org := range slices.Sorted(maps.Keys(customerIDs)) {
		b := &pgx.Batch{}
		existing := customer.QueueExisting(b, org, customerIDs[org])
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("look for %d customers of %s: %w", len(customerIDs[org]), org, err)
		}
		var missing []string
		for _, customerID := range customerIDs[org] {
			if existing[customerID] {
				continue
			}
			if err := customer.CheckID(customerID); err != nil {
				return fmt.Errorf("a wallet of %s: %w", org, err)
			}
			missing = append(missing, customerID)
		}
		if len(missing) > 0 {
			if err := customer.EnsureAll(ctx, tx, org, missing); err != nil {
				return err
			}
		}
	}
	return nil
}

// DepositSwapOwner is the part of the owner of deposit swaps that needs no row of one. The feature embeds it.
type DepositSwapOwner struct{}

// Terms implements Owner. The provider decides what it delivers, so no arrival has a minimum.
func (DepositSwapOwner) Terms() Terms { return Terms{IsOfDepositSwap: true, HasNoMinimum: true} }

// Account implements Owner. The subject is the customer, which the row of the deposit names.
func (DepositSwapOwner) Account(subject string, _ bool) (ledger.Account, wallet.Part) {
	return ledger.Account{Kind: ledger.Customer, Subject: subject}, wallet.Credited
}

// EventType implements Owner.
func (DepositSwapOwner) EventType(t event.Type) event.Type { return t }

// CheckoutOwner is the part of the owner of checkouts that needs no row of one. The feature embeds it. An arrival
// credits the product CHECKOUT, whatever the checkout makes of it, and no event tells of it: the events of the
// checkout do. Rule DEP-56.
type CheckoutOwner struct {
	IsShared bool // the wallets are those that all checkouts of an organization share
}

// Terms implements Owner.
func (o CheckoutOwner) Terms() Terms { return Terms{IsOfCheckout: !o.IsShared} }

// Account implements Owner.
func (CheckoutOwner) Account(string, bool) (ledger.Account, wallet.Part) {
	return ledger.Account{Kind: ledger.Product, Subject: ledger.CheckoutProduct}, wallet.Credited
}

// EventType implements Owner.
func (CheckoutOwner) EventType(event.Type) event.Type { return "" }

// ProductOwner owns arrivals at the addresses of products. They credit the organization.
type ProductOwner struct{}

// Terms implements Owner.
func (ProductOwner) Terms() Terms { return Terms{} }

// Account implements Owner.
func (ProductOwner) Account(subject string, _ bool) (ledger.Account, wallet.Part) {
	return ledger.Account{Kind: ledger.Product, Subject: subject}, wallet.Credited
}

// EventType implements Owner.
func (ProductOwner) EventType(t event.Type) event.Type { return orgEventTypes[t] }

// OnUpdates implements Owner.
func (ProductOwner) OnUpdates(context.Context, pg.Tx, []Update) error { return nil }

// orgEventTypes maps an event of a customer's deposit to that of an organization's own deposit.
var orgEventTypes = map[event.Type]event.Type{
	event.CustomerDeposit:         event.OrganizationDeposit,
	event.CustomerDepositReversed: event.OrganizationDepositReversed,
	event.CustomerDepositApproved: event.OrganizationDeposit, // a second event, with status CREDITED
}

// TreasuryOwner owns arrivals at treasuries. Native coin is the operator's, for fees, at any
// amount. Tokens wait in the suspense account.
type TreasuryOwner struct{}

// Terms implements Owner.
func (TreasuryOwner) Terms() Terms { return Terms{IsOperators: true, HasNoMinimum: true} }

// Account implements Owner.
func (TreasuryOwner) Account(_ string, isNative bool) (ledger.Account, wallet.Part) {
	if isNative {
		return ledger.Account{Kind: ledger.Gas}, wallet.Gas
	}
	return ledger.Account{Kind: ledger.Suspense}, wallet.Credited
}

// EventType implements Owner.
func (TreasuryOwner) EventType(event.Type) event.Type { return "" }

// OnUpdates implements Owner.
func (TreasuryOwner) OnUpdates(context.Context, pg.Tx, []Update) error { return nil }

// ChangeOwner owns foreign payments to change wallets, which are never credited. The change outputs
// of our own transactions are no arrivals: takeChangeOutputs removes them before.
type ChangeOwner struct{ TreasuryOwner }

// Terms implements Owner.
func (ChangeOwner) Terms() Terms { return Terms{Refusal: ChangeAddress, IsOperators: true} }
