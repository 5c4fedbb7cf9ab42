package swap

import (
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/policy"
	"github.com/cofferpay/coffer/internal/wallet"
)

// facts are what the rules decide about a request by. They are read in one round trip.
type facts struct {
	orgID, customerID string
	settings          func() (org.Settings, error)
	freezes           *freeze.ActiveSet
	mints             *mint.Catalogue // of the pair alone
	balances          ledger.KnownAccounts
	treasuries        func() map[chain.Family]chain.Address
}

// queueFacts queues the reads of facts; customerID is "" if no customer pays. They lock nothing.
func queueFacts(b *pgx.Batch, orgID, customerID string, mintIDs ...int) facts {
	f := facts{orgID: orgID, customerID: customerID}
	f.settings = org.QueueSettings(b, orgID)
	f.freezes = freeze.QueueLook(b, orgID, listCustomers(customerID))
	f.mints = mint.QueueCatalogue(b, mintIDs)
	f.treasuries = wallet.QueueTreasuries(b, orgID)
	return f
}

// queueLockedFacts queues the reads of facts under locks that last until the commit: a freeze or a switch that has
// committed counts.
func queueLockedFacts(b *pgx.Batch, orgID, customerID string, mintIDs ...int) facts {
	f := facts{orgID: orgID, customerID: customerID}
	org.QueueLockSettingsShared(b, orgID)
	f.settings = org.QueueSettings(b, orgID)
	f.mints = mint.QueueCatalogue(b, mintIDs)
	f.freezes = freeze.QueueActive(b, orgID, listCustomers(customerID))
	return f
}

// queueBalance queues the read of the balance that pays, unless a malformed value names none.
func (f *facts) queueBalance(b *pgx.Batch, owner ledger.Owner, mintID int) {
	if mintID > 0 && mintID <= math.MaxInt32 {
		f.balances = ledger.QueueLookup(b, []ledger.Account{owner.SpendingAccount(f.orgID, mintID)}, nil)
	}
}

// listCustomers returns a customer as a list, which is empty if the id is malformed: no freeze has it.
func listCustomers(customerID string) []string {
	if customer.CheckID(customerID) != nil {
		return []string{}
	}
	return []string{customerID}
}

// loadSettings returns the settings. Error: fault NOT_FOUND.
func (f facts) loadSettings() (org.Settings, error) {
	settings, err := f.settings()
	if err != nil {
		return settings, fmt.Errorf("settings of %s: %w", f.orgID, err)
	}
	return settings, nil
}

// checkFrozen refuses a swap of a frozen customer or organization.
func (f facts) checkFrozen() error {
	active := f.freezes.FindFor(freeze.Target{OrgID: f.orgID, CustomerID: f.customerID})
	if refusal := policy.CheckFrozen(active, "customerId", fault.NothingHeld); refusal != nil {
		return refusal
	}
	return nil
}

// checkStopped refuses a swap while nothing may leave the balances of its mint.
func (f facts) checkStopped(source mint.Mint) error {
	return refuseStopped(f.freezes.FindFor(freeze.Target{
		OrgID: f.orgID, CustomerID: f.customerID, Chain: source.Chain,
	}), source)
}

func refuseStopped(active *freeze.Freeze, source mint.Mint) error {
	if policy.IsStopped(active) {
		return policy.NewSuspended("Payments on "+string(source.Chain)+" are stopped.", fault.NothingHeld).
			WithParam("fromMintId")
	}
	return nil
}
