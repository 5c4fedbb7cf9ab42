package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/rescue"
)

type rescueCmd struct {
	ConfigFile string     `name:"config" short:"c" type:"existingfile" env:"COFFER_CONFIG" required:"" help:"Configuration file with the signer's own files, the chains and the mints. The command does not use the database."`
	Org        string     `required:"" placeholder:"ORG" help:"The organization that the addresses were made for, org_…"`
	Customers  string     `type:"existingfile" help:"File with the ids of its customers, one per line. Without it, the command looks only at the treasury and the organization's own addresses."`
	Swaps      string     `type:"existingfile" help:"File with the ids of swaps and checkouts, one per line. Without it, the command does not look at the addresses at which swaps are delivered and refunded and checkouts are paid."`
	Chain      chain.Name `default:"ETHEREUM" help:"The chain."`
	From       uint64     `placeholder:"HEIGHT" help:"BITCOIN: the first block that can have paid an address. Without it, start_height of the configuration. The command reads all blocks from there on."`
	To         string     `placeholder:"ADDRESS" help:"The destination of all money."`
	Yes        bool       `help:"Move the money. Without it, the command only shows what the addresses hold."`
}

const rescueExplained = `Use this command when the database and the signer's journal are both lost, and only
the seed is left. It makes no customer's payment, because it cannot know which were
made: it moves all money of the addresses to one address. The organization's own
books say to whom it belongs.

No service may ever run with this seed again: begin a new installation with a new
seed, and move later deposits to the old addresses with this command.
`

// readLines returns the lines of a file that are not empty; none without a name.
func readLines(name string) (lines []string, err error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

func (c rescueCmd) Run(ctx context.Context, std streams) error {
	if c.Yes && c.To == "" {
		return errors.New("name the destination of the money, with --to ADDRESS; nothing was done")
	}
	conf, err := app.ReadConfig(c.ConfigFile)
	if err != nil {
		return err
	}
	order := rescue.Order{
		Org: c.Org, Chain: c.Chain, Destination: c.To, StartBlock: c.From,
		Progress: func(line string) { fmt.Fprintln(std.err, line) },
	}
	if order.Customers, err = readLines(c.Customers); err != nil {
		return err
	}
	if order.Swaps, err = readLines(c.Swaps); err != nil {
		return err
	}
	r, closeSigner, err := app.PrepareRescue(ctx, conf, order)
	if err != nil {
		return err
	}
	defer closeSigner()
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
		return errors.New("nothing was done; with --to ADDRESS --yes the command moves everything there")
	}
	if err := r.Run(ctx, func(line string) { fmt.Fprintln(std.out, line) }); err != nil {
		return fmt.Errorf("%w; repeat the same command to continue", err)
	}
	fmt.Fprintln(
		std.out,
		"\nMoved. Run it again without --yes when the blocks are final: only outputs that are not worth their fee "+
			"are left then.",
	)
	return nil
}
