package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/sweep"
)

type allowancesCmd struct {
	List     allowancesList     `cmd:"" default:"withargs" help:"Show on which chains the payout contract is deployed, and what it may move (the default)."`
	Grant    allowancesGrant    `cmd:"" help:"Let the payout contract move a token of an organization's treasury, so that rows of batches share transactions."`
	Revoke   allowancesRevoke   `cmd:"" help:"End that: rows of batches are paid one by one."`
	Contract allowancesContract `cmd:"" help:"Print what deploys the payout contract on a chain, and the address that it gets."`
}

type allowancesList struct{ configFlags }

func (c allowancesList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	for _, name := range slices.Sorted(maps.Keys(tools.Chains)) {
		contract := tools.Chains[name].PayoutContract
		if contract == nil {
			continue
		}
		state := "deployed"
		if isDeployed, err := contract.IsDeployed(ctx); err != nil {
			state = "not known: " + err.Error()
		} else if !isDeployed {
			state = "not deployed: rows of batches are paid one by one"
		}
		fmt.Fprintf(std.out, "%s  payout contract %s  %s\n", name, contract.Address(), state)
	}
	var changes []sweep.Allowance
	var mints mint.Catalogue
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if changes, err = sweep.ListAllowances(ctx, tx); err == nil {
			mints, err = mint.LoadCatalogue(ctx, tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		fmt.Fprintln(std.out, "No treasury has allowed it anything.")
		return nil
	}
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ORGANIZATION\tCHAIN\tMINT\tTOKEN\tLAST CHANGE\tORDER\tSTATE")
	for _, a := range changes {
		m, _ := mints.ByID(a.MintID)
		change := "revoked"
		if a.IsGranted {
			change = "granted"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", a.OrgID, a.Chain, a.MintID, m.Symbol, change, a.ID, a.Status)
	}
	return w.Flush()
}

// allowanceFlags are the flags of the changes of an allowance.
type allowanceFlags struct {
	configFlags
	Org  string `arg:"" help:"The organization, org_…"`
	Mint int    `arg:"" help:"The mint's id."`
}

func (c allowanceFlags) change(ctx context.Context, std streams, isGranted bool) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var m mint.Mint
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		isKnown := false
		if m, isKnown = mints.ByID(c.Mint); !isKnown {
			return fmt.Errorf("mint %d is not in the catalogue; see: coffer mints", c.Mint)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s := tools.Sweeper(m.Chain)
	if s == nil {
		return fmt.Errorf("%s is not configured", m.Chain)
	}
	orderID, err := s.SetAllowance(ctx, c.Org, m, isGranted, operator)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Order %s is queued; the running service sends its transaction.\n"+
		"Watch it: coffer dispatch show %s\n", orderID, orderID)
	return nil
}

type allowancesGrant struct{ allowanceFlags }

func (c allowancesGrant) Run(ctx context.Context, std streams) error { return c.change(ctx, std, true) }

type allowancesRevoke struct{ allowanceFlags }

func (c allowancesRevoke) Run(ctx context.Context, std streams) error {
	return c.change(ctx, std, false)
}

type allowancesContract struct{}

// Run prints the transaction that deploys the contract. Any account may send it.
func (allowancesContract) Run(std streams) error {
	fmt.Fprintf(std.out, "address  %s\nto       %s\ndata     0x%s\n", payoutcontract.Address.Hex(),
		payoutcontract.Deployer.Hex(), hex.EncodeToString(payoutcontract.DeploymentData()))
	return nil
}
