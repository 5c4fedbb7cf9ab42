package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/wallet"
)

type walletsCmd struct {
	configFlags
	JSON bool `name:"json" help:"Print JSON, for a program."`
}

// treasury is the command's output about one treasury. Amounts are in atomic units and in whole
// coins.
type treasury struct {
	OrganizationID string   `json:"organizationId"`
	Name           string   `json:"organizationName"`
	Chain          string   `json:"chain"`
	WalletID       string   `json:"walletId"` // "" before it is created
	Address        string   `json:"address"`
	Gas            *holding `json:"gas"` // null if there is no native coin for it
	GasPromised    *holding `json:"gasPromised"`
	Needs          []need   `json:"needs"`
}

type holding struct {
	MintID        int    `json:"mintId"`
	Symbol        string `json:"symbol"`
	Amount        string `json:"amount"`
	AmountDecimal string `json:"amountDecimal"`
}

// need is what must at least be sent to the treasury's address.
type need struct {
	holding
	Cause  string `json:"cause"`
	Orders int    `json:"orders"`
	Reason string `json:"why"`
}

func newHolding(m mint.Mint, amount money.Amount) *holding {
	return &holding{MintID: m.ID, Symbol: m.Symbol, Amount: amount.String(), AmountDecimal: amount.Decimal(m.Decimals)}
}

// Run shows where to send gas. It shows an address only with its proof: a tampered row ends the
// command, since the money would go to the attacker.
func (c walletsCmd) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var orgs []org.Organization
	var mints mint.Catalogue
	var needs []report.TreasuryNeed
	var work []report.GasDemand
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if orgs, err = org.ListAll(ctx, tx); err != nil {
			return err
		}
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		if needs, err = report.ListTreasuryNeeds(ctx, tx); err != nil {
			return err
		}
		work, err = report.ListGasDemand(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	treasuries := []treasury{}
	for _, o := range orgs {
		for _, name := range slices.Sorted(maps.Keys(tools.Chains)) {
			t, err := loadTreasury(ctx, tools, o, name, mints, needs, work)
			if err != nil {
				return err
			}
			treasuries = append(treasuries, t)
		}
	}
	if c.JSON {
		e := json.NewEncoder(std.out)
		e.SetIndent("", "  ")
		return e.Encode(treasuries)
	}
	printTreasuries(std, treasuries)
	return nil
}

func loadTreasury(
	ctx context.Context, tools *app.App, o org.Organization, name chain.Name, mints mint.Catalogue,
	needs []report.TreasuryNeed, work []report.GasDemand,
) (treasury, error) {
	t := treasury{OrganizationID: o.ID, Name: o.Name, Chain: string(name), Needs: []need{}}
	w, err := tools.Wallets.Treasury(ctx, o.ID, name.Family())
	if errors.Is(err, service.ErrNoSigner) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	t.WalletID, t.Address = w.ID, string(w.Address)
	native, ok := mints.Native(name)
	var wanted money.Amount
	if ok {
		var f wallet.Funds
		err = tools.DB().ReadOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) (err error) {
			f, err = wallet.LoadFunds(ctx, tx, w.ID, native.ID)
			return err
		})
		if err != nil {
			return t, err
		}
		if wanted, err = gasWanted(
			func(gas uint64) (money.Amount, error) { return tools.CostMax(name, gas) }, o.ID, name, work,
			f.GasSpendable(),
		); err != nil {
			return t, err
		}
		t.Gas, t.GasPromised = newHolding(native, f.Gas), newHolding(native, f.GasReserved)
		if f.Gas.IsZero() && !slices.ContainsFunc(needs, func(n report.TreasuryNeed) bool {
			return n.WalletID == w.ID && n.Chain == name && n.Cause == report.CauseGas
		}) {
			t.Needs = append(t.Needs, need{
				holding: *newHolding(native, wanted), Cause: "EMPTY",
				Reason: "it has no gas at all, so it can pay and sweep nothing",
			})
		}
	}
	for _, n := range needs {
		m, isListed := mints.ByID(n.MintID)
		if n.WalletID != w.ID || n.Chain != name || !isListed {
			continue
		}
		if n.Cause == report.CauseGas && (n.Amount.Less(wanted) || name.IsUTXO() && !wanted.IsZero()) {
			// Each order that waits only reports its own shortfall.
			n.Amount = wanted
		}
		t.Needs = append(
			t.Needs,
			need{holding: *newHolding(m, n.Amount), Cause: string(n.Cause), Orders: n.Orders, Reason: describeNeed(n)},
		)
	}
	return t, nil
}

// The gas of a treasury's transactions, all rounded up.
const (
	gasPayment = 100_000 // a payment of a token
	// The transaction of a top-up, without the coin that it transfers.
	gasTopUp = 21_000
	// A sweep that has no top-up yet: the gas of a payment, half of that as the margin of a top-up,
	// and the transaction that brings it.
	gasSweep = gasPayment + gasPayment/2 + gasTopUp
)

// gasWanted returns the amount that must arrive to pay for all waiting work at the highest allowed
// fee, and at least for one payment. A transaction is only made if the wallet could pay its maximum
// cost. The fees at the arrival of the coin are unknown, and a sender of the requested amount must
// not be asked again.
//
// On UTXO chains, payments share transactions, each with a maximum cost, and there are no sweeps.
func gasWanted(
	cost func(gas uint64) (money.Amount, error), org string, name chain.Name, work []report.GasDemand,
	available money.Amount,
) (money.Amount, error) {
	total, err := cost(gasPayment)
	for _, w := range work {
		if err != nil || w.OrgID != org || w.Chain != name {
			continue
		}
		if name.IsUTXO() {
			perTx := dispatch.OrdersPerTxMax(name)
			w.Payments, w.Sweeps = (w.Payments+perTx-1)/perTx, 0
		}
		var waits money.Amount
		for _, p := range []struct {
			gas   uint64
			times int
		}{{gasPayment, w.Payments}, {gasSweep, w.Sweeps}, {gasTopUp, w.TopUps}} {
			partCost, e := cost(p.gas)
			if e == nil {
				partCost, e = partCost.Mul(uint64(p.times))
			}
			if e == nil {
				waits, e = waits.Add(partCost)
			}
			err = errors.Join(err, e)
		}
		if total.Less(waits) {
			total = waits
		}
		sum, e := total.Add(w.Amount)
		total, err = sum, errors.Join(err, e)
	}
	if err != nil {
		return money.Zero, fmt.Errorf("gas that %s needs on %s: %w", org, name, err)
	}
	if total.Less(available) {
		return money.Zero, nil
	}
	return total.Sub(available)
}

// describeNeed describes for a person why an amount must be sent.
func describeNeed(n report.TreasuryNeed) string {
	switch n.Cause {
	case report.CauseGas:
		return fmt.Sprintf("%d payments, sweeps or top-ups wait for native coin for their fees", n.Orders)
	case report.CauseFunds:
		return fmt.Sprintf("%d payments wait, and no address of the organization has the money any more", n.Orders)
	}
	return "the chain replaced final blocks after the amount was reserved; see: coffer chain breaks " + string(n.Chain)
}

func printTreasuries(std streams, treasuries []treasury) {
	last := ""
	for _, t := range treasuries {
		if t.OrganizationID != last {
			fmt.Fprintf(std.out, "%s  %s\n", t.OrganizationID, t.Name)
			last = t.OrganizationID
		}
		switch {
		case t.Address == "":
			fmt.Fprintf(
				std.out, "  %-10s no treasury yet: the service makes it with the first credited deposit\n",
				t.Chain,
			)
		case t.Gas == nil:
			fmt.Fprintf(std.out, "  %-10s %s  its native coin is not in the catalogue, so the service credits no "+
				"gas\n", t.Chain,
				t.Address)
		default:
			fmt.Fprintf(std.out, "  %-10s %s  gas %s %s, of it reserved %s\n", t.Chain, t.Address, t.Gas.AmountDecimal,
				t.Gas.Symbol, t.GasPromised.AmountDecimal)
		}
		for _, n := range t.Needs {
			fmt.Fprintf(std.out, "    !  send at least %s %s to %s on %s: %s\n", n.AmountDecimal, n.Symbol, t.Address,
				t.Chain, n.Reason)
		}
	}
}
