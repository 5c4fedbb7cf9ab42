package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

type walletsCmd struct{ installation }

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
	err = a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if orgs, err = org.All(ctx, tx); err == nil {
			mints, err = mint.All(ctx, tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, o := range orgs {
		fmt.Fprintf(std.out, "%s  %s\n", o.ID, o.Name)
		for _, name := range slices.Sorted(maps.Keys(a.Chains())) {
			w, err := a.Treasury(ctx, o.ID, name)
			if errors.Is(err, app.ErrNoSigner) {
				fmt.Fprintf(std.out, "  %-10s no treasury yet: the service makes it with the first deposit that is credited\n", name)
				continue
			}
			if err != nil {
				return err
			}
			native, ok := mints.Native(name)
			if !ok {
				fmt.Fprintf(std.out, "  %-10s %s  its coin is not in the catalogue, so no gas is credited\n", name, w.Address)
				continue
			}
			var f wallet.Funds
			err = a.DB().ReadOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) (err error) {
				f, err = wallet.FundsOf(ctx, tx, w.ID, native.ID)
				return err
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(std.out, "  %-10s %s  gas %s %s, of it promised %s\n", name, w.Address,
				f.Gas.Decimal(native.Decimals), native.Symbol, f.GasReserved.Decimal(native.Decimals))
		}
	}
	return nil
}
