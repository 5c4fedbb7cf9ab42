package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

type payoutsCmd struct {
	Check   payoutCheck   `cmd:"" help:"Say what is wrong with each row of a list of payments. Nothing is written."`
	Create  payoutCreate  `cmd:"" help:"Make a draft of a list of payments. Nothing is held."`
	Show    payoutShow    `cmd:"" help:"Show a batch payout with the hash that people approve and its rows."`
	Submit  payoutSubmit  `cmd:"" help:"Submit a draft: its whole sum is held, and its rows are checked."`
	Approve payoutApprove `cmd:"" help:"Approve a batch payout by its hash: the service pays its rows."`
	Reject  payoutReject  `cmd:"" help:"Reject a batch payout that waits for an approval: its sum is available again."`
	Cancel  payoutCancel  `cmd:"" help:"Take back a batch payout that is not approved yet: its sum is available again."`
}

// payoutListFlags name a list of payments.
type payoutListFlags struct {
	configFlags
	File    string `arg:"" type:"existingfile" help:"The list, in JSON if its name ends in .json, otherwise in CSV."`
	Decimal bool   `help:"Amounts are in whole tokens such as 1.5, and not in atomic units."`
}

func (l payoutListFlags) read() ([]rowfile.Line, error) {
	text, err := os.ReadFile(l.File)
	if err != nil {
		return nil, fmt.Errorf("read the list: %w", err)
	}
	read := rowfile.ReadCSV
	if strings.HasSuffix(strings.ToLower(l.File), ".json") {
		read = rowfile.ReadJSON
	}
	lines, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.File, err)
	}
	return lines, nil
}

// printProblems prints what is wrong with rows, one line each.
func printProblems(std streams, problems []rowfile.Problem) {
	for _, p := range problems {
		label := fmt.Sprintf("row %d (line %d)", p.Row, p.Line)
		if p.Column != "" {
			label += ", " + p.Column
		}
		fmt.Fprintf(std.out, "%s: %s\n", label, p.Message)
	}
}

// errBadRows is the answer to a list with rows that cannot be paid as they are written.
var errBadRows = errors.New("nothing was written; correct these rows and repeat the command with the whole list")

type payoutCheck struct{ payoutListFlags }

// Run reads the list as Create does, and writes nothing.
func (c payoutCheck) Run(ctx context.Context, std streams) error {
	lines, err := c.read()
	if err != nil {
		return err
	}
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	problems, err := tools.Payouts.Check(ctx, lines, c.Decimal)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		printProblems(std, problems)
		return errBadRows
	}
	fmt.Fprintf(std.out, "All %d rows can be read. Whether each can be paid is checked when the batch is submitted.\n",
		len(lines))
	return nil
}

type payoutCreate struct {
	payoutListFlags
	Key   string `help:"Idempotency key: a list with the same key is one batch. Without it the command makes one."`
	Email string `name:"as" placeholder:"EMAIL" help:"Who makes it; by default the first person of the local world."`
}

func (c payoutCreate) Run(ctx context.Context, std streams) error {
	lines, err := c.read()
	if err != nil {
		return err
	}
	tools, p, err := openForPayout(ctx, c.configFlags, c.Email, identity.WithdrawOwnMoney)
	if err != nil {
		return err
	}
	defer tools.Close()
	// A missing key is generated, so that a command without an answer can be repeated.
	key := c.Key
	if key == "" {
		key = id.New("key", time.Now())
	}
	b, err := tools.Payouts.Create(ctx, p.OrgID, payout.CreateRequest{
		Lines: lines, UseDecimal: c.Decimal, IdempotencyKey: &key, Actor: audit.User(p.ID),
	})
	if f := fault.Find(err); f != nil {
		if problems, isList := f.Details[payout.ProblemsDetail].([]rowfile.Problem); isList {
			printProblems(std, problems)
			return errBadRows
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("it is not known whether the batch was made; with --key %s the same command makes it at "+
			"most once: %w", key, err)
	}
	return printBatch(ctx, std, tools, b)
}

// batchFlags name a batch and the person who acts.
type batchFlags struct {
	configFlags
	ID    string `arg:"" help:"The batch payout, bp_…"`
	Email string `name:"as" placeholder:"EMAIL" help:"Who acts; by default the first person of the local world."`
}

// openForPayout opens the tools and finds the person who acts, who needs one of the permissions.
func openForPayout(
	ctx context.Context, flags configFlags, email string, actions ...identity.Action,
) (tools *app.App, p member.Member, err error) {
	if tools, err = flags.openTools(ctx); err != nil {
		return nil, p, err
	}
	p, err = personByEmail(ctx, tools.DB(), email)
	if err == nil && !slices.ContainsFunc(actions, p.IsAllowed) {
		err = fmt.Errorf("%s may not do this: it needs a role with the permission %v", p.Email, actions)
	}
	if err != nil {
		tools.Close()
		return nil, p, err
	}
	return tools, p, nil
}

// describeError adds the given id to an error if there is no such batch.
func (d batchFlags) describeError(err error, p member.Member) error {
	if fault.HasCode(err, fault.CodeNotFound) {
		return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"The organization of %s has no batch payout %.64q.", p.Email, d.ID)
	}
	return err
}

// act runs fn for a person with one of the permissions, and shows the batch afterwards.
func (d batchFlags) act(
	ctx context.Context, std streams, fn func(s *payout.Service, p member.Member) (payout.Batch, error),
	actions ...identity.Action,
) error {
	tools, p, err := openForPayout(ctx, d.configFlags, d.Email, actions...)
	if err != nil {
		return err
	}
	defer tools.Close()
	b, err := fn(tools.Payouts, p)
	if err != nil {
		return d.describeError(err, p)
	}
	return printBatch(ctx, std, tools, b)
}

// hashFlag is the content hash that a person saw.
type hashFlag struct {
	Hash string `required:"" help:"The content hash that coffer payouts show prints, sha256:…"`
}

func (h hashFlag) parse() (contenthash.Hash, error) {
	hash, err := contenthash.Parse(h.Hash)
	if err != nil {
		return hash, fmt.Errorf("--hash: %w", err)
	}
	return hash, nil
}

type payoutShow struct{ batchFlags }

func (c payoutShow) Run(ctx context.Context, std streams) error {
	return c.act(ctx, std, func(s *payout.Service, p member.Member) (payout.Batch, error) {
		return s.ByID(ctx, p.OrgID, c.ID)
	}, identity.WithdrawOwnMoney, identity.DecideWithdrawal)
}

type payoutSubmit struct {
	batchFlags
	hashFlag
}

func (c payoutSubmit) Run(ctx context.Context, std streams) error {
	hash, err := c.parse()
	if err != nil {
		return err
	}
	return c.act(ctx, std, func(s *payout.Service, p member.Member) (payout.Batch, error) {
		return s.Submit(ctx, p.OrgID, c.ID, hash, audit.User(p.ID))
	}, identity.WithdrawOwnMoney)
}

type payoutApprove struct {
	batchFlags
	hashFlag
}

func (c payoutApprove) Run(ctx context.Context, std streams) error {
	hash, err := c.parse()
	if err != nil {
		return err
	}
	return c.act(ctx, std, func(s *payout.Service, p member.Member) (payout.Batch, error) {
		return s.Approve(ctx, p.OrgID, c.ID, hash, audit.User(p.ID))
	}, identity.DecideWithdrawal)
}

type payoutReject struct {
	batchFlags
	Reason string `required:"" help:"Why, for the organization and the audit log."`
}

func (c payoutReject) Run(ctx context.Context, std streams) error {
	return c.act(ctx, std, func(s *payout.Service, p member.Member) (payout.Batch, error) {
		return s.Reject(ctx, p.OrgID, c.ID, c.Reason, audit.User(p.ID))
	}, identity.DecideWithdrawal)
}

type payoutCancel struct{ batchFlags }

func (c payoutCancel) Run(ctx context.Context, std streams) error {
	return c.act(ctx, std, func(s *payout.Service, p member.Member) (payout.Batch, error) {
		return s.Cancel(ctx, p.OrgID, c.ID, audit.User(p.ID))
	}, identity.WithdrawOwnMoney)
}

// printBatch prints a batch with its rows.
func printBatch(ctx context.Context, std streams, tools *app.App, b payout.Batch) error {
	items, err := tools.Payouts.Items(ctx, b.OrgID, b.ID)
	if err != nil {
		return err
	}
	var mints mint.Catalogue
	err = tools.DB().ReadOrg(ctx, b.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	return writeBatch(std.out, b, items, mints)
}

// writeBatch writes what printBatch prints.
func writeBatch(out io.Writer, b payout.Batch, items []payout.Item, mints mint.Catalogue) error {
	fmt.Fprintf(out, "%s is %s: %d rows.\n%s\n", b.ID, b.Status, b.Header.Rows, b.ContentHash)
	for _, t := range b.Header.Totals {
		m, _ := mints.ByID(t.MintID)
		fmt.Fprintf(out, "total %s on %s\n", formatUnits(t.Amount, m), m.Chain)
	}
	if b.Required > 0 {
		fmt.Fprintf(out, "%d of %d approvals\n", b.Approvals, b.Required)
	}
	if b.Problem != "" {
		fmt.Fprintln(out, b.Problem)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, i := range items {
		m, _ := mints.ByID(i.MintID)
		outcome := i.Refused
		if outcome == "" {
			outcome = strings.TrimSpace(i.WithdrawalID + " " + i.WithdrawalStatus)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", i.Number, formatUnits(i.Amount, m), i.ToAddress, i.Reference, outcome)
	}
	return w.Flush()
}
