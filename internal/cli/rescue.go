package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
)

type rescueCmd struct {
	ConfigFile string     `name:"config" short:"c" type:"existingfile" env:"COFFER_CONFIG" required:"" help:"Configuration file with the signer's own files, the chains and the mints. The database is not used."`
	Org        string     `required:"" placeholder:"ORG" help:"The organization that the addresses were made for, org_…"`
	Customers  string     `type:"existingfile" help:"File with the ids of its customers, one a line. Without it, the treasury and the organization's own addresses alone."`
	Chain      chain.Name `default:"ETHEREUM" help:"The chain."`
	From       uint64     `placeholder:"HEIGHT" help:"BITCOIN: the first block that may have paid an address. Without it, start_height of the configuration. All blocks from there on are read."`
	To         string     `placeholder:"ADDRESS" help:"Where everything goes."`
	Yes        bool       `help:"Do it. Without it, what the addresses hold is said and nothing is moved."`
}

const rescueExplained = `This is for when the database and the signer's journal are both lost and the seed is
all that is left. It pays nobody, because nothing here knows who was paid: it moves
what the addresses hold to one address. Whose it is, the organization's own books say.

No service may ever run with this seed again: begin a new installation with a new
one, and move what still arrives at the old addresses with this command.
`

func (c rescueCmd) Run(ctx context.Context, std streams) error {
	if c.Yes && c.To == "" {
		return errors.New("say where the money goes, with --to ADDRESS; nothing was done")
	}
	conf, err := app.ReadConfig(c.ConfigFile)
	if err != nil {
		return err
	}
	order := app.RescueOrder{
		Org: c.Org, Chain: c.Chain, Destination: c.To, StartBlock: c.From,
		Progress: func(line string) { fmt.Fprintln(std.err, line) },
	}
	if c.Customers != "" {
		text, err := os.ReadFile(c.Customers)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" {
				order.Customers = append(order.Customers, line)
			}
		}
	}
	r, err := app.PrepareRescue(ctx, conf, order)
	if err != nil {
		return err
	}
	defer r.Close()
	fmt.Fprintf(std.out, "%s\n", rescueExplained)
	for _, w := range r.ListWallets() {
		fmt.Fprintf(std.out, "%s  %s %s\n", w.Address, w.Purpose, w.Subject)
		for _, h := range r.Holdings {
			if h.Wallet == w.WalletRef {
				fmt.Fprintf(std.out, "  %s %s\n", h.Amount.Decimal(h.Mint.Decimals), h.Mint.Symbol)
			}
		}
	}
	if !c.Yes {
		return errors.New("nothing was done; with --to ADDRESS --yes everything is moved there")
	}
	if err := r.Run(ctx, func(line string) { fmt.Fprintln(std.out, line) }); err != nil {
		return fmt.Errorf("%w; the same command goes on", err)
	}
	fmt.Fprintln(
		std.out,
		"\nMoved. Run it again without --yes when the blocks are final, to see that nothing is left but coins not worth their fee.",
	)
	return nil
}
