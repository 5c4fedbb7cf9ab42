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
	installation
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
	Why    string `json:"why"`
}

func coinsOf(m mint.Mint, a money.Amount) *holding {
	return &holding{MintID: m.ID, Symbol: m.Symbol, Amount: a.String(), AmountDecimal: a.Decimal(m.Decimals)}
}

// Run tells where to send gas. An address is shown only with its proof: a row that
// somebody changed ends the command, since what is sent there would be theirs.
func (c walletsCmd) Run(ctx context.Context, std streams) error {
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	var orgs []org.Organization
	var mints mint.Catalogue
	var needs []report.Need
	var work []report.Gas
	err = a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if orgs, err = org.All(ctx, tx); err != nil {
			return err
		}
		if mints, err = mint.All(ctx, tx); err != nil {
			return err
		}
		if needs, err = report.Needs(ctx, tx); err != nil {
			return err
		}
		work, err = report.GasWanted(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	all := []treasury{}
	for _, o := range orgs {
		for _, name := range slices.Sorted(maps.Keys(a.Chains())) {
			t, err := look(ctx, a, o, name, mints, needs, work)
			if err != nil {
				return err
			}
			all = append(all, t)
		}
	}
	if c.JSON {
		e := json.NewEncoder(std.out)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	tellTreasuries(std, all)
	return nil
}

func look(ctx context.Context, a *app.App, o org.Organization, name chain.Name, mints mint.Catalogue, needs []report.Need, work []report.Gas) (treasury, error) {
	t := treasury{OrganizationID: o.ID, Name: o.Name, Chain: string(name), Needs: []need{}}
	w, err := a.Treasury(ctx, o.ID, name)
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
		err = a.DB().ReadOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) (err error) {
			f, err = wallet.FundsOf(ctx, tx, w.ID, native.ID)
			return err
		})
		if err != nil {
			return t, err
		}
		if wanted, err = gasWanted(func(gas uint64) (money.Amount, error) { return a.CostMax(name, gas) }, o.ID, name, work, f.GasSpendable()); err != nil {
			return t, err
		}
		t.Gas, t.GasPromised = coinsOf(native, f.Gas), coinsOf(native, f.GasReserved)
		if f.Gas.IsZero() && !slices.ContainsFunc(needs, func(n report.Need) bool { return n.WalletID == w.ID && n.Chain == name && n.Why == report.NoGas }) {
			t.Needs = append(t.Needs, need{holding: *coinsOf(native, wanted), Cause: "EMPTY", Why: "it has no gas at all, so nothing can be paid or swept"})
		}
	}
	for _, n := range needs {
		m, known := mints.ByID(n.MintID)
		if n.WalletID != w.ID || n.Chain != name || !known {
			continue
		}
		if n.Why == report.NoGas && (n.Amount.Less(wanted) || name.Pooled() && !wanted.IsZero()) {
			n.Amount = wanted // each that waits alone says what it lacks alone
		}
		t.Needs = append(t.Needs, need{holding: *coinsOf(m, n.Amount), Cause: string(n.Why), Orders: n.Orders, Why: whyNeeded(n)})
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
func gasWanted(cost func(gas uint64) (money.Amount, error), org string, name chain.Name, work []report.Gas, have money.Amount) (money.Amount, error) {
	all, err := cost(gasPayment)
	for _, w := range work {
		if err != nil || w.OrgID != org || w.Chain != name {
			continue
		}
		if name.Pooled() {
			w.Payments, w.Sweeps = (w.Payments+dispatch.TogetherMax-1)/dispatch.TogetherMax, 0
		}
		var waits money.Amount
		for _, p := range []struct {
			gas   uint64
			times int
		}{{gasPayment, w.Payments}, {gasSweep, w.Sweeps}, {gasTopUp, w.TopUps}} {
			one, e := cost(p.gas)
			if e == nil {
				one, e = one.Mul(uint64(p.times))
			}
			if e == nil {
				waits, e = waits.Add(one)
			}
			err = errors.Join(err, e)
		}
		if all.Less(waits) {
			all = waits
		}
		beside, e := all.Add(w.Amount)
		all, err = beside, errors.Join(err, e)
	}
	if err != nil {
		return money.Zero, fmt.Errorf("gas that %s needs on %s: %w", org, name, err)
	}
	if all.Less(have) {
		return money.Zero, nil
	}
	return all.Sub(have)
}

// whyNeeded tells for a person why something has to be sent.
func whyNeeded(n report.Need) string {
	switch n.Why {
	case report.NoGas:
		return fmt.Sprintf("%d payments, sweeps or top-ups wait for the coin of their fees", n.Orders)
	case report.NoFunds:
		return fmt.Sprintf("%d payments wait, and no address of the organization's has it any more", n.Orders)
	}
	return "the chain took it back after it had been promised; see: coffer chain breaks " + string(n.Chain)
}

func tellTreasuries(std streams, all []treasury) {
	last := ""
	for _, t := range all {
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
			fmt.Fprintf(std.out, "    !  send at least %s %s to %s on %s: %s\n", n.AmountDecimal, n.Symbol, t.Address, t.Chain, n.Why)
		}
	}
}
