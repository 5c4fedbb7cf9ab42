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
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/wallet"
)

type walletsCmd struct {
	configFlags
	JSON bool `name:"json" help:"Print it for a program."`
}

// treasury is what the command tells of one treasury. Amounts are atomic units
// and, beside them, whole coins.
type treasury struct {
	OrganizationID string   `json:"organizationId"`
	Name           string   `json:"organizationName"`
	Chain          string   `json:"chain"`
	WalletID       string   `json:"walletId"` // "" before it is made
	Address        string   `json:"address"`
	Gas            *holding `json:"gas"` // null where there is no coin for it
	GasPromised    *holding `json:"gasPromised"`
	Needs          []need   `json:"needs"`
}

type holding struct {
	MintID        int    `json:"mintId"`
	Symbol        string `json:"symbol"`
	Amount        string `json:"amount"`
	AmountDecimal string `json:"amountDecimal"`
}

// need is what somebody has to send to the treasury's address, at least.
type need struct {
	holding
	Cause  string `json:"cause"`
	Orders int    `json:"orders"`
	Reason string `json:"why"`
}

func newHolding(m mint.Mint, amount money.Amount) *holding {
	return &holding{MintID: m.ID, Symbol: m.Symbol, Amount: amount.String(), AmountDecimal: amount.Decimal(m.Decimals)}
}

// Run tells where to send gas. An address is shown only with its proof: a row that
// somebody changed ends the command, since what is sent there would be theirs.
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
		for _, name := range slices.Sorted(maps.Keys(tools.Chains())) {
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

func loadTreasury(ctx context.Context, tools *app.App, o org.Organization, name chain.Name, mints mint.Catalogue, needs []report.TreasuryNeed, work []report.GasDemand) (treasury, error) {
	t := treasury{OrganizationID: o.ID, Name: o.Name, Chain: string(name), Needs: []need{}}
	w, err := tools.TreasuryWallet(ctx, o.ID, name)
	if errors.Is(err, app.ErrNoSigner) {
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
		if wanted, err = gasWanted(func(gas uint64) (money.Amount, error) { return tools.CostMax(name, gas) }, o.ID, name, work, f.GasSpendable()); err != nil {
			return t, err
		}
		t.Gas, t.GasPromised = newHolding(native, f.Gas), newHolding(native, f.GasReserved)
		if f.Gas.IsZero() && !slices.ContainsFunc(needs, func(n report.TreasuryNeed) bool {
			return n.WalletID == w.ID && n.Chain == name && n.Cause == report.CauseGas
		}) {
			t.Needs = append(t.Needs, need{holding: *newHolding(native, wanted), Cause: "EMPTY", Reason: "it has no gas at all, so nothing can be paid or swept"})
		}
	}
	for _, n := range needs {
		m, isListed := mints.ByID(n.MintID)
		if n.WalletID != w.ID || n.Chain != name || !isListed {
			continue
		}
		if n.Cause == report.CauseGas && (n.Amount.Less(wanted) || name.IsUTXO() && !wanted.IsZero()) {
			n.Amount = wanted // each that waits alone says what it lacks alone
		}
		t.Needs = append(t.Needs, need{holding: *newHolding(m, n.Amount), Cause: string(n.Cause), Orders: n.Orders, Reason: describeNeed(n)})
	}
	return t, nil
}

// What a treasury pays for, in gas, all rounded up.
const (
	gasPayment = 100_000 // a payment of a token
	gasTopUp   = 21_000  // the transaction of a top-up, beside the coin that it brings
	// A sweep that has no top-up yet: as much gas as a payment, with the half that a
	// top-up has beside, and the transaction that brings it.
	gasSweep = gasPayment + gasPayment/2 + gasTopUp
)

// gasWanted is what has to come so that all that waits is paid for, at the highest
// fee that is paid, and never less than for one payment: a transaction is made only
// when the wallet could pay the most that it may cost. What the fees are when the
// coin arrives nobody knows, and who sent what was asked for must not be asked again.
//
// Where accounts are coins, payments share transactions, each of which has a most that it
// may cost, and nothing is swept.
func gasWanted(cost func(gas uint64) (money.Amount, error), org string, name chain.Name, work []report.GasDemand, available money.Amount) (money.Amount, error) {
	total, err := cost(gasPayment)
	for _, w := range work {
		if err != nil || w.OrgID != org || w.Chain != name {
			continue
		}
		if name.IsUTXO() {
			w.Payments, w.Sweeps = (w.Payments+dispatch.OrdersPerTxMax-1)/dispatch.OrdersPerTxMax, 0
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

// describeNeed tells for a person why something has to be sent.
func describeNeed(n report.TreasuryNeed) string {
	switch n.Cause {
	case report.CauseGas:
		return fmt.Sprintf("%d payments, sweeps or top-ups wait for the coin of their fees", n.Orders)
	case report.CauseFunds:
		return fmt.Sprintf("%d payments wait, and no address of the organization's has it any more", n.Orders)
	}
	return "the chain took it back after it had been promised; see: coffer chain breaks " + string(n.Chain)
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
			fmt.Fprintf(std.out, "  %-10s no treasury yet: the service makes it with the first deposit that is credited\n", t.Chain)
		case t.Gas == nil:
			fmt.Fprintf(std.out, "  %-10s %s  its coin is not in the catalogue, so no gas is credited\n", t.Chain, t.Address)
		default:
			fmt.Fprintf(std.out, "  %-10s %s  gas %s %s, of it promised %s\n", t.Chain, t.Address, t.Gas.AmountDecimal, t.Gas.Symbol, t.GasPromised.AmountDecimal)
		}
		for _, n := range t.Needs {
			fmt.Fprintf(std.out, "    !  send at least %s %s to %s on %s: %s\n", n.AmountDecimal, n.Symbol, t.Address, t.Chain, n.Reason)
		}
	}
}
