package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/tour"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/verify"
)

type local struct {
	Run     localRun     `cmd:"" default:"withargs" help:"Start the local world and stay until Ctrl-C (the default)."`
	Tour    localTour    `cmd:"" help:"Play the whole story against the local world that runs here, or against a new one."`
	Faucet  localFaucet  `cmd:"" help:"Send coins or tokens from the local faucet."`
	Pay     localPay     `cmd:"" help:"Pay a checkout as a payer does: exactly, too little, too late, in another coin, from a flagged sender and so on."`
	Trigger localTrigger `cmd:"" help:"Cause a failed payment, a reorganization, or the outage of a provider."`
	Risk    localRisk    `cmd:"" help:"Set what screening answers for an address."`
	Swaps   localSwaps   `cmd:"" help:"Make the local swap provider misbehave, set its prices, and show its swaps."`

	Approvers localApprovers `cmd:"" help:"Found every passkey of approvers that waits, as a person at the signer's host does."`
}

type localRun struct {
	Keep         string   `type:"path" placeholder:"DIR" help:"Keep the world in this folder over restarts; without it every start makes a new one."`
	Port         int      `help:"Port of the API; 0 for a free one."`
	OperatorPort int      `help:"Port of the operator's interface; 0 for a free one."`
	OpsPort      int      `help:"Port of health and metrics; 0 for a free one."`
	ChainPort    int      `help:"Port of the local Ethereum; 0 for a free one."`
	DatabasePort int      `help:"Port of PostgreSQL; 0 for a free one."`
	Chains       []string `placeholder:"CHAIN,…" help:"The chains that run: SOLANA and BITCOIN in addition to ETHEREUM, which always runs; all if left out."`
	Limits       bool     `help:"Limit requests as on a main network, to show 429 and the RateLimit headers; otherwise nothing is limited."`
	Verbose      bool     `short:"v" help:"Print the service's whole log."`
}

func (c localRun) Run(ctx context.Context, std streams) error {
	level := slog.LevelWarn
	if c.Verbose {
		level = slog.LevelDebug
	}
	chains, err := localChains(c.Chains)
	if err != nil {
		return err
	}
	started := time.Now()
	opts, err := newWorldOptions(std, level)
	if err != nil {
		return err
	}
	opts.Chains, opts.StateDir, opts.Limits, opts.OutageProxies, opts.Port = chains, c.Keep, c.Limits, true, c.Port
	opts.OperatorPort, opts.OpsPort, opts.ChainPort = c.OperatorPort, c.OpsPort, c.ChainPort
	opts.DatabasePort = c.DatabasePort
	w, err := localworld.Start(ctx, opts)
	if err != nil {
		return err
	}
	printWorld(std, w.Info, time.Since(started))
	err = followWorld(ctx, std, w)
	fmt.Fprintln(std.out, "\nStopping.")
	return errors.Join(err, w.Stop())
}

// findProgram returns the path of this program. Tests replace it, because they are another one.
var findProgram = os.Executable

// newWorldOptions returns the options of a world for a person: its service is a process of this program, which can be
// killed alone, and the payout contract is deployed.
func newWorldOptions(std streams, level slog.Level) (localworld.Options, error) {
	program, err := findProgram()
	if err != nil {
		return localworld.Options{}, fmt.Errorf("find this program: %w", err)
	}
	return localworld.Options{
		Program: program, Output: std.err, LogLevel: strings.ToLower(level.String()), PayoutContract: true,
		Log:      slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: level})),
		Progress: func(format string, args ...any) { fmt.Fprintf(std.out, "  "+format+"\n", args...) },
	}, nil
}

// followWorld prints the events of a world until it ends.
func followWorld(ctx context.Context, std streams, w *localworld.World) error {
	conf, err := app.ReadConfig(w.Info.Config)
	if err != nil {
		return err
	}
	tools, err := app.OpenTools(ctx, conf, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	watching, quiet := context.WithCancel(ctx)
	defer quiet()
	var journaling sync.WaitGroup
	journaling.Go(func() { (&worldLog{db: tools.DB(), out: std.out}).runUntilDone(watching) })
	err = w.WaitEnd(ctx)
	quiet()
	journaling.Wait()
	return errors.Join(err, tools.Close())
}

// localChains parses the names of the chains that a local world can have.
func localChains(names []string) ([]chain.Name, error) {
	if len(names) == 0 {
		return localworld.AllChains, nil
	}
	var chains []chain.Name
	for _, text := range names {
		name := chain.Name(strings.ToUpper(strings.TrimSpace(text)))
		if !slices.Contains(localworld.AllChains, name) {
			return nil, fmt.Errorf("--chains %s: there is no local chain of it; name some of %v", text,
				localworld.AllChains)
		}
		chains = append(chains, name)
	}
	return chains, nil
}

// printWorld prints what a person needs to start.
func printWorld(std streams, info localworld.Info, took time.Duration) {
	fmt.Fprintf(std.out, "\nCoffer's local world is up after %s.\n\n", took.Round(10*time.Millisecond))
	t := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  API\t%s\n  API key\t%s\n  document\t%s\n  guide\t%s\n",
		info.BaseURL, info.APIKey, info.OpenAPIURL, strings.TrimSuffix(info.OpenAPIURL, "openapi.json")+"docs")
	fmt.Fprintf(t, "  organization\t%s\n  owner\t%s\n", info.OrganizationID, info.Users[0].Email)
	fmt.Fprintf(t, "  operator\t%s/v1\n  operator key\t%s\n", info.OperatorURL, info.Operator.APIKey)
	for _, name := range localworld.AllChains {
		c, ok := info.Chains[string(name)]
		if !ok {
			continue
		}
		detail := ""
		switch {
		case c.ChainID != 0:
			detail = fmt.Sprintf(" (chain id %d)", c.ChainID)
		case c.User != "":
			detail = fmt.Sprintf(" (user %s, password %s)", c.User, c.Password)
		}
		fmt.Fprintf(t, "  %s\t%s%s\n", strings.ToLower(string(name)), c.RPCURL, detail)
	}
	if info.Swaps.URL != "" {
		fmt.Fprintf(t, "  swap provider\t%s (controlled at %s)\n", info.Swaps.URL, info.Swaps.ControlURL)
	}
	for _, token := range info.Swaps.Tokens {
		fmt.Fprintf(t, "  no mint\t%s on %s  %s, for deposit swaps\n", token.Symbol, strings.ToLower(token.Chain),
			token.ContractAddress)
	}
	for _, m := range info.Mints {
		contract := "native coin"
		if m.ContractAddress != nil {
			contract = *m.ContractAddress
		}
		fmt.Fprintf(t, "  mint %d\t%s on %s  %s\n", m.ID, m.Symbol, strings.ToLower(m.Chain), contract)
	}
	for _, name := range localworld.AllChains {
		if address, ok := info.PayoutContracts[string(name)]; ok {
			fmt.Fprintf(t, "  payout contract\ton %s  %s\n", strings.ToLower(string(name)), address)
		}
	}
	t.Flush()
	fmt.Fprintf(std.out, `
  %s has all of this, too. Try, in another terminal:

    bin/coffer local tour
    curl -s %s/deposit -H 'x-api-key: %s' \
         -H 'content-type: application/json' -d '{"mintId":1,"customerId":"user_42"}'
    bin/coffer local faucet --mint 1 --to ADDRESS --amount 250
    bin/coffer payouts check --decimal %s

  Sign in at %s as %s
  with the password "%s" and a code of the TOTP secret
  %s. Operators sign in at %s as %s
  with the same password and a code of the TOTP secret
  %s. The file has the other people. Mails are files in %s.

  Ctrl-C ends it.
`, localworld.InfoFile, info.BaseURL, info.APIKey, info.PayoutTemplate, info.DashboardURL,
		info.Users[0].Email, info.Users[0].Password,
		info.Users[0].TOTPSecret, info.ConsoleURL, info.Operators[0].Email, info.Operators[0].TOTPSecret,
		localworld.MailFolder)
}

type localTour struct{}

func (localTour) Run(ctx context.Context, std streams) error {
	info, err := localworld.ReadInfo(".")
	if err != nil {
		fmt.Fprintln(std.out, "No local world runs here; starting one for the tour.")
		dir, err := os.MkdirTemp("", "coffer-tour-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		opts, err := newWorldOptions(std, slog.LevelWarn)
		if err != nil {
			return err
		}
		opts.Dir, opts.Chains = dir, localworld.AllChains
		w, err := localworld.Start(ctx, opts)
		if err != nil {
			return err
		}
		return errors.Join(Tour(ctx, std.out, w.Info), w.Stop())
	}
	return Tour(ctx, std.out, info)
}

// Tour plays the demonstration against a running world. The same code as coffer withdrawals makes
// the decisions of a person.
func Tour(ctx context.Context, output io.Writer, info localworld.Info) error {
	conf, err := app.ReadConfig(info.Config)
	if err != nil {
		return err
	}
	tools, err := app.OpenTools(ctx, conf, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer tools.Close()
	var interrupt func(ctx context.Context) (localworld.Interruption, error)
	if info.Control != "" {
		interrupt = info.InterruptService
	}
	return tour.Play(ctx, tour.Options{
		Info: info, Output: output, Interrupt: interrupt,
		Command: func(ctx context.Context, args ...string) (string, error) {
			var printed bytes.Buffer
			if code := Run(ctx, append(args, "--config", info.Config), &printed, &printed); code != 0 {
				return printed.String(), fmt.Errorf("the command ended with %d", code)
			}
			return printed.String(), nil
		},
		DecideSwap: func(ctx context.Context, email, id string, isApproval bool) error {
			p, err := personByEmail(ctx, tools.DB(), email)
			if err != nil {
				return err
			}
			if isApproval {
				_, err = tools.Swaps.ApproveOrganization(ctx, p.OrgID, id, "", p)
			} else {
				_, err = tools.Swaps.RejectOrganization(ctx, p.OrgID, id, "the tour", p)
			}
			return err
		},
		ApprovePayout: func(ctx context.Context, email, id, text string) error {
			p, err := personByEmail(ctx, tools.DB(), email)
			if err != nil {
				return err
			}
			hash, err := contenthash.Parse(text)
			if err != nil {
				return err
			}
			_, err = tools.Payouts.Approve(ctx, p.OrgID, id, hash, audit.User(p.ID))
			return err
		},
		Decide: func(ctx context.Context, email, id string, isApproval bool) error {
			p, err := personByEmail(ctx, tools.DB(), email)
			if err != nil {
				return err
			}
			if isApproval {
				_, err = tools.Withdrawals.Approve(ctx, p.OrgID, id, audit.User(p.ID))
			} else {
				_, err = tools.Withdrawals.Remove(ctx, p.OrgID, id, audit.User(p.ID), "the tour")
			}
			return err
		},
		Holds: func(ctx context.Context, m localworld.Mint, address string) (money.Amount, error) {
			ch := tools.Chains[chain.Name(m.Chain)]
			h := chain.Holding{Address: chain.Address(address)}
			if m.ContractAddress != nil {
				h.Contract = chain.Address(*m.ContractAddress)
			}
			heads, err := ch.Reader.Heads(ctx)
			if err != nil {
				return money.Zero, err
			}
			balances, err := ch.Reader.Balances(ctx, heads.Final, []chain.Holding{h})
			if err != nil {
				return money.Zero, err
			}
			return balances[0], nil
		},
		Check: func(ctx context.Context) ([]string, error) {
			books, err := verify.RunChecks(ctx, tools.DB(), verify.WithGrants(tools.GrantKey()),
				verify.WithApprovers(tools.AttestKey()))
			if err != nil {
				return nil, err
			}
			chains, err := verify.CompareWithChains(ctx, tools.DB(), tools.Chains)
			if err != nil {
				return nil, err
			}
			var output []string
			for _, b := range append(books.Breaches, chains.Breaches...) {
				output = append(output, fmt.Sprintf("%s %s: %s", b.Check, b.Subject, b.Detail))
			}
			return output, nil
		},
	})
}

type localFaucet struct {
	Chain  string `help:"The chain; the chain of the mint if left out."`
	Mint   int    `required:"" xor:"what" help:"The mint's id."`
	Token  string `required:"" xor:"what" help:"The symbol or the contract of a token that only the swap provider takes, such as LINK."`
	To     string `required:"" help:"Address to pay."`
	Amount string `required:"" help:"Whole tokens, such as 250 or 0.5."`
}

func (c localFaucet) Run(ctx context.Context, std streams) error {
	info, err := localworld.ReadInfo(".")
	if err != nil {
		return err
	}
	m, err := c.findMint(info)
	if err != nil {
		return err
	}
	units, err := money.ParseDecimal(c.Amount, m.Decimals)
	if err != nil {
		return fmt.Errorf("--amount %s: %w; give whole tokens such as 250 or 0.5. Nothing was sent", c.Amount, err)
	}
	hash, err := info.PayAddress(ctx, m, c.To, units.Big())
	if err != nil {
		return fmt.Errorf("send %s %s to %s: %w", c.Amount, m.Symbol, c.To, err)
	}
	fmt.Fprintf(std.out, "Sent %s %s on %s to %s: %s\n", c.Amount, m.Symbol, strings.ToLower(m.Chain), c.To, hash)
	return nil
}

// findMint returns what the faucet shall send.
func (c localFaucet) findMint(info localworld.Info) (localworld.Mint, error) {
	isOnChain := func(name string) bool { return c.Chain == "" || name == strings.ToUpper(c.Chain) }
	if c.Token != "" {
		t, isKnown := info.FindSwapToken(c.Token)
		if !isKnown || !isOnChain(t.Chain) {
			return localworld.Mint{}, fmt.Errorf(
				"only the swap provider's own tokens are sent with --token, and %s on %s is none; %s lists them, and "+
					"--mint sends the others. Nothing was sent", c.Token, cmp.Or(c.Chain, "any chain"),
				localworld.InfoFile)
		}
		return t.FaucetMint(), nil
	}
	if m, isKnown := info.FindMint(c.Mint); isKnown && isOnChain(m.Chain) {
		return m, nil
	}
	return localworld.Mint{}, fmt.Errorf("there is no mint %d on %s; %s lists the mints. Nothing was sent", c.Mint,
		cmp.Or(c.Chain, "any chain"), localworld.InfoFile)
}
