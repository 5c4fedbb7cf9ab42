// Package cli implements the commands of the program coffer. A command reads its settings, calls
// the package that does the work, and prints the result as text.
//
// It contains no rules. The called packages document what a crash leaves.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/ops"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// commands is the complete command line.
type commands struct {
	Serve       serve         `cmd:"" help:"Run the service with a configuration file."`
	Migrate     migrate       `cmd:"" help:"Migrate the database to the schema of this program, as its owner."`
	Signer      signerCmd     `cmd:"" help:"Run the signer as a separate process, at a unix socket."`
	Local       local         `cmd:"" help:"Run the whole service on this machine with real local chains, take the tour, or use the faucet."`
	Withdrawals withdrawals   `cmd:"" help:"Show withdrawals, and decide about those that wait for an approval."`
	Payouts     payoutsCmd    `cmd:"" help:"Make, show and submit batch payouts, and decide about those that wait for an approval."`
	Deposits    depositsCmd   `cmd:"" help:"Show deposits, and decide about flagged ones."`
	Swaps       swapsCmd      `cmd:"" help:"Show swaps, decide about stuck ones and stray arrivals, and suspend providers."`
	Billing     billingCmd    `cmd:"" help:"Show what organizations owe, and bill it."`
	Customers   customersCmd  `cmd:"" help:"Show the customers of organizations."`
	Events      eventsCmd     `cmd:"" help:"Show and follow the events of organizations."`
	Settings    settingsCmd   `cmd:"" help:"Show and change an organization's settings."`
	Whitelist   whitelistCmd  `cmd:"" help:"Show, add and remove the addresses that an organization may pay its own money to."`
	Changes     changesCmd    `cmd:"" help:"Show, approve and withdraw change requests that wait for a second operator."`
	Dispatch    dispatchCmd   `cmd:"" help:"Show outgoing orders, raise their fee, cancel them, resolve stuck ones."`
	Allowances  allowancesCmd `cmd:"" help:"Show, grant and revoke what the payout contract may move of treasuries."`
	Sweep       sweepCmd      `cmd:"" help:"Sweep every deposit that can be swept to the treasuries now, whatever its value."`
	Mints       mintsCmd      `cmd:"" help:"Show the mints and their quarantines, and begin or end a quarantine."`
	Wallets     walletsCmd    `cmd:"" help:"Show each organization's treasury on each chain, its gas, and what to send to which address."`
	Reserves    reservesCmd   `cmd:"" help:"Show the reserves and liabilities of each mint."`
	Chain       chainCmd      `cmd:"" help:"Show the finality breaks of a chain, and decide about them."`
	Freezes     freezesCmd    `cmd:"" help:"Freeze outgoing payments, show freezes, and lift them."`
	Verify      verifyCmd     `cmd:"" help:"Check the books against themselves and against the chains."`
	Keys        keysCmd       `cmd:"" help:"Create, show, back up and restore the keys."`
	Rescue      rescueCmd     `cmd:"" help:"Find and move the money of a seed whose database and journal are both lost."`
	Org         orgCmd        `cmd:"" help:"Create, list, freeze and unfreeze organizations."`
	Key         keyCmd        `cmd:"" help:"Roll and list the API keys of organizations."`
	Operator    operatorCmd   `cmd:"" help:"Create, roll and revoke the keys of the operator's interface."`
	Audit       auditCmd      `cmd:"" help:"Export the audit log, check an export, show its state."`
	Receipt     receiptCmd    `cmd:"" help:"Check the receipt of a checkout."`
	Risk        riskCmd       `cmd:"" help:"Import the sanctions list, and show the risk providers."`
	Config      configCmd     `cmd:"" help:"Check a configuration file, or print a sample."`
	Version     versionCmd    `cmd:"" help:"Show the commit of this program, its compiler, and its API version."`

	ShowVersion kong.VersionFlag `name:"version" help:"The same as coffer version."`
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(std streams) error {
	fmt.Fprintln(std.out, versionText())
	return nil
}

func versionText() string {
	v := ops.ThisVersion()
	commit := v.Commit
	if v.Modified {
		commit += " with changes"
	}
	return fmt.Sprintf("coffer, commit %s, built by %s, API %s, webhook payloads of %s", commit, v.Go, v.API,
		v.Payloads)
}

// streams are the outputs of a command.
type streams struct{ out, err io.Writer }

// Run runs the command line and returns the exit code: 0 for success, 1 for a failure, 2 if the
// command line could not be parsed.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c commands
	parser, err := kong.New(&c, kong.Name("coffer"), kong.Description("Custodial payments that a company runs itself."),
		kong.Vars{"version": versionText()}, kong.Writers(stdout, stderr), kong.UsageOnError(),
		kong.Exit(func(code int) { panic(exitCode(code)) }))
	if err != nil {
		panic("cli: invalid command structure: " + err.Error())
	}
	return runCommand(ctx, parser, args, streams{stdout, stderr})
}

// exitCode is kong's request to end the program, for example after --help.
type exitCode int

func runCommand(ctx context.Context, parser *kong.Kong, args []string, s streams) (code int) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case exitCode:
			code = int(e)
		default: // a panic of a command: it must not end like a success
			panic(e)
		}
	}()
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(s.err, "coffer: %v\n%s", err, usageHint(err))
		return 2
	}
	command.BindTo(ctx, (*context.Context)(nil))
	command.Bind(s)
	if err = checkPermission(command.Selected()); err == nil {
		err = command.Run()
	}
	if err == nil || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return 0
	}
	if errors.Is(err, pg.ErrCommitUnknown) {
		fmt.Fprintf(
			s.err,
			"coffer: the database connection was lost during the commit, so it is not known whether this command "+
				"took effect. Look up the result before you repeat it. (%v)\n",
			err,
		)
	} else if f := fault.Find(err); f != nil {
		fmt.Fprintf(s.err, "coffer: %s\n", words.Sentences(f))
	} else {
		fmt.Fprintf(s.err, "coffer: %v\n", err)
	}
	return 1
}

// usageHint describes the usage of the part of the command that was understood: its subcommands or
// arguments, and where its help is.
func usageHint(err error) string {
	words, usage := "coffer", ""
	if failed, ok := errors.AsType[*kong.ParseError](err); ok && failed.Context != nil {
		node := failed.Context.Model.Node
		for _, step := range failed.Context.Path {
			if step.Command != nil {
				words += " " + step.Command.Name
				node = step.Command
			}
		}
		choice := node
		if node.Parent != nil && node.Parent.DefaultCmd == node {
			choice = node.Parent
		}
		var names []string
		for _, child := range choice.Children {
			if !child.Hidden {
				names = append(names, child.Name)
			}
		}
		if len(names) > 0 {
			usage = fmt.Sprintf("The commands of %s are %s.\n", choice.FullPath(), strings.Join(names, ", "))
		}
		if len(node.Children) == 0 {
			usage += fmt.Sprintf("Usage: %s %s\n", "coffer", node.Summary())
		}
	}
	return usage + fmt.Sprintf("Run %q to see its usage.\n", words+" --help")
}

// configFlags finds the configuration of a command: the named file, or that of the local world that
// runs here.
type configFlags struct {
	ConfigFile string `name:"config" short:"c" type:"path" env:"COFFER_CONFIG" help:"Configuration file; without it, the local world that runs in this folder."`
}

func (i configFlags) readConfig() (app.Config, error) {
	file, err := i.configPath()
	if err != nil {
		return app.Config{}, err
	}
	return app.ReadConfig(file)
}

// configPath returns the path of the configuration.
func (i configFlags) configPath() (string, error) {
	if i.ConfigFile != "" {
		return i.ConfigFile, nil
	}
	info, err := localworld.ReadInfo(".")
	if err != nil {
		return "", fmt.Errorf("%w; or name a configuration with --config", err)
	}
	return info.Config, nil
}

// keepKey lets the local world store a rolled key, if the key belongs to one.
func (i configFlags) keepKey(std streams, store func(config string) (stored bool, err error)) error {
	file, err := i.configPath()
	if err != nil {
		return err
	}
	stored, err := store(file)
	if err != nil {
		return fmt.Errorf("the key above is valid, but the local world could not store it: %w", err)
	}
	if stored {
		fmt.Fprintf(std.out, "%s of the local world has the new key.\n", localworld.InfoFile)
	}
	return nil
}

// openTools opens what a command needs next to a running service.
func (i configFlags) openTools(ctx context.Context) (*app.App, error) {
	conf, err := i.readConfig()
	if err != nil {
		return nil, err
	}
	return app.OpenTools(ctx, conf, slog.New(slog.DiscardHandler))
}

// newLogger creates the logger that a configuration describes.
func newLogger(conf app.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(conf.Level)); err != nil {
		level = slog.LevelInfo
	}
	if conf.JSON {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
