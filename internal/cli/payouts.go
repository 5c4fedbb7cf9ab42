package cli

import (
	"bytes"
	"context"
	"encoding/json"
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
	Show    payoutShow    `cmd:"" help:"Show a batch payout with its hash, its warnings and its rows."`
	Submit  payoutSubmit  `cmd:"" help:"Submit a draft: its whole sum is held, and its rows are checked."`
	Approve payoutApprove `cmd:"" help:"Approve a batch payout by its hash: the service pays its rows."`
	Reject  payoutReject  `cmd:"" help:"Reject a batch payout that waits for an approval: its sum is available again."`
	Pause   payoutPause   `cmd:"" help:"Stop the payments of a batch payout. What the signer has begun is paid."`
	Resume  payoutResume  `cmd:"" help:"Let the payments of a paused batch payout go on."`
	Cancel  payoutCancel  `cmd:"" help:"Take back a batch payout: what is not paid and not begun is available again."`
	Retry   payoutRetry   `cmd:"" help:"Make a draft of the rows that an ended batch payout did not pay."`
	Items   payoutItems   `cmd:"" help:"Write the rows as CSV, in the columns of the list, with what became of each."`
	Hash    payoutHash    `cmd:"" help:"Recompute the hash of a batch payout from its rows, or from an exported list."`
	Proof   payoutProof   `cmd:"" help:"Print the proof that a batch payout has a row, or verify one without a database."`
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
		fmt.Fprintln(std.out, formatProblem(p))
	}
}

func formatProblem(p rowfile.Problem) string {
	label := fmt.Sprintf("row %d (line %d)", p.Row, p.Line)
	if p.Column != "" {
		label += ", " + p.Column
	}
	return label + ": " + p.Message
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
	Partial bool   `help:"Leave out rows that cannot be paid. Without it every row is paid, or none."`
	Key     string `help:"Idempotency key: a list with the same key is one batch. Without it the command makes one."`
	Email   string `name:"as" placeholder:"EMAIL" help:"Who makes it; by default the first person of the local world."`
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
	mode := contenthash.Strict
	if c.Partial {
		mode = contenthash.Partial
	}
	b, err := tools.Payouts.Create(ctx, p.OrgID, payout.CreateRequest{
		Lines: lines, UseDecimal: c.Decimal, Mode: mode, IdempotencyKey: &key, Actor: audit.User(p.ID),
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
	Acknowledge string `placeholder:"ID" help:"The batch payout of the same list that was submitted before."`
	Tick        []int  `placeholder:"ROW" help:"The rows whose look-alike was compared, as show prints them."`
}

func (c payoutSubmit) Run(ctx context.Context, std streams) error {
	hash, err := c.parse()
	if err != nil {
		return err
	}
	return c.act(ctx, std, func(s *payout.Service, p member.Member) (payout.Batch, error) {
		return s.Submit(ctx, p.OrgID, c.ID, payout.SubmitRequest{
			ContentHash: hash, AcknowledgeDuplicateOf: c.Acknowledge, Ticked: c.Tick, Actor: audit.User(p.ID),
		})
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

type payoutPause struct{ batchFlags }

func (c payoutPause) Run(ctx context.Context, std streams) error {
	return c.act(ctx, std, func(s *payout.Service, p member.Member) (payout.Batch, error) {
		return s.Pause(ctx, p.OrgID, c.ID, audit.User(p.ID))
	}, identity.WithdrawOwnMoney, identity.DecideWithdrawal)
}

type payoutResume struct{ batchFlags }

func (c payoutResume) Run(ctx context.Context, std streams) error {
	return c.act(ctx, std, func(s *payout.Service, p member.Member) (payout.Batch, error) {
		return s.Resume(ctx, p.OrgID, c.ID, audit.User(p.ID))
	}, identity.WithdrawOwnMoney, identity.DecideWithdrawal)
}

type payoutCancel struct{ batchFlags }

func (c payoutCancel) Run(ctx context.Context, std streams) error {
	return c.act(ctx, std, func(s *payout.Service, p member.Member) (payout.Batch, error) {
		return s.Cancel(ctx, p.OrgID, c.ID, audit.User(p.ID))
	}, identity.WithdrawOwnMoney)
}

type payoutRetry struct {
	batchFlags
	Key string `help:"Idempotency key: a retry with the same key is one batch. Without it the command makes one."`
}

func (c payoutRetry) Run(ctx context.Context, std streams) error {
	key := c.Key
	if key == "" {
		key = id.New("key", time.Now())
	}
	return c.act(ctx, std, func(s *payout.Service, p member.Member) (payout.Batch, error) {
		b, err := s.Retry(ctx, p.OrgID, c.ID, &key, audit.User(p.ID))
		if err != nil && fault.Find(err) == nil {
			err = fmt.Errorf("it is not known whether the batch was made; with --key %s the same command makes it at "+
				"most once: %w", key, err)
		}
		return b, err
	}, identity.WithdrawOwnMoney)
}

// read runs fn for a person who may see batches.
func (d batchFlags) read(ctx context.Context, fn func(s *payout.Service, p member.Member) error) error {
	tools, p, err := openForPayout(ctx, d.configFlags, d.Email, identity.WithdrawOwnMoney, identity.DecideWithdrawal)
	if err != nil {
		return err
	}
	defer tools.Close()
	return d.describeError(fn(tools.Payouts, p), p)
}

type payoutItems struct{ batchFlags }

func (c payoutItems) Run(ctx context.Context, std streams) error {
	return c.read(ctx, func(s *payout.Service, p member.Member) error {
		return s.WriteCSV(ctx, p.OrgID, c.ID, std.out)
	})
}

type payoutHash struct {
	configFlags
	ID     string `arg:"" help:"The batch payout, bp_… With --file, the id that the list has to be of."`
	Email  string `name:"as" placeholder:"EMAIL" help:"Who asks; by default the first person of the local world."`
	File   string `type:"existingfile" help:"An exported list, to recompute the hash from without a database."`
	Export string `help:"Write the list with all rows and salts to this file. Who has it can recompute the hash."`
}

// Run recomputes the hash of each row, of the tree and of the header.
func (c payoutHash) Run(ctx context.Context, std streams) error {
	var list contenthash.List
	if c.File != "" {
		if err := readJSONFile(c.File, &list); err != nil {
			return err
		}
		if list.Header.BatchID != c.ID {
			return fmt.Errorf("%s has the list of %.64q and not of %.64q", c.File, list.Header.BatchID, c.ID)
		}
		return c.print(std, list)
	}
	flags := batchFlags{configFlags: c.configFlags, ID: c.ID, Email: c.Email}
	err := flags.read(ctx, func(s *payout.Service, p member.Member) (err error) {
		list, err = s.ExportList(ctx, p.OrgID, c.ID)
		return err
	})
	if err != nil {
		return err
	}
	if c.Export != "" {
		text, err := json.MarshalIndent(list, "", "  ")
		if err != nil {
			return fmt.Errorf("export the list of %s: %w", c.ID, err)
		}
		if err := os.WriteFile(c.Export, append(text, '\n'), 0o600); err != nil {
			return fmt.Errorf("export the list of %s: %w", c.ID, err)
		}
	}
	return c.print(std, list)
}

func (c payoutHash) print(std streams, list contenthash.List) error {
	if err := list.VerifyList(); err != nil {
		return fmt.Errorf("%s is shown with %v: %w", c.ID, list.ContentHash, err)
	}
	fmt.Fprintf(std.out, "%s\n%d rows lead to it, of which %d are included.\n", list.ContentHash, list.Header.Rows,
		list.Header.Included)
	return nil
}

type payoutProof struct {
	Show   proofShow   `cmd:"" help:"Print the proof that a batch payout has a row, as JSON for its payee."`
	Verify proofVerify `cmd:"" help:"Verify the proof of a row. It needs no database and no configuration."`
}

type proofShow struct {
	batchFlags
	Row int `arg:"" help:"The number of the row, from 1."`
}

func (c proofShow) Run(ctx context.Context, std streams) error {
	return c.read(ctx, func(s *payout.Service, p member.Member) error {
		proof, err := s.RowProof(ctx, p.OrgID, c.ID, c.Row)
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(proof, "", "  ")
		if err != nil {
			return fmt.Errorf("print the proof of row %d: %w", c.Row, err)
		}
		fmt.Fprintf(std.out, "%s\n", text)
		return nil
	})
}

type proofVerify struct {
	File string `arg:"" type:"existingfile" help:"The proof, as coffer payouts proof show prints it."`
	Hash string `help:"The content hash that the batch is known by; by default that of the proof."`
}

// Run verifies a proof without the service.
func (c proofVerify) Run(std streams) error {
	var proof contenthash.RowProof
	if err := readJSONFile(c.File, &proof); err != nil {
		return err
	}
	if c.Hash != "" && c.Hash != proof.ContentHash.String() {
		return fmt.Errorf("the proof is of %v and not of %.80q", proof.ContentHash, c.Hash)
	}
	if err := proof.VerifyRow(); err != nil {
		return fmt.Errorf("%s proves nothing: %w", c.File, err)
	}
	verb := "pays"
	if !proof.Row.IsIncluded {
		verb = "leaves out"
	}
	fmt.Fprintf(std.out, "Batch payout %s with %v %s row %d: %v units of mint %d to %s on %s.\n",
		proof.Header.BatchID, proof.ContentHash, verb, proof.Row.Number, proof.Row.Amount, proof.Row.MintID,
		proof.Row.ToAddress, proof.Row.Chain)
	return nil
}

// readJSONFile decodes a file of a proof or of a list. A member that it does not know is an error.
func readJSONFile(path string, target any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(target); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// batchView is what is shown of a batch.
type batchView struct {
	batch    payout.Batch
	items    []payout.Item
	bad      []payout.BadRow
	warnings []payout.Warning
	mints    mint.Catalogue
}

// printBatch prints a batch with its rows.
func printBatch(ctx context.Context, std streams, tools *app.App, b payout.Batch) (err error) {
	v := batchView{batch: b}
	if v.items, err = tools.Payouts.Items(ctx, b.OrgID, b.ID); err != nil {
		return err
	}
	if v.bad, err = tools.Payouts.BadRows(ctx, b.OrgID, b.ID); err != nil {
		return err
	}
	if v.warnings, err = tools.Payouts.Warnings(ctx, b.OrgID, b.ID); err != nil {
		return err
	}
	err = tools.DB().ReadOrg(ctx, b.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		v.mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	return v.write(std.out)
}

// write writes what printBatch prints.
func (v batchView) write(out io.Writer) error {
	b := v.batch
	fmt.Fprintf(out, "%s is %s: %d rows, %s.\n%s\n", b.ID, b.Status, b.Header.Rows, b.Header.Mode, b.ContentHash)
	for _, t := range b.Header.Totals {
		m, _ := v.mints.ByID(t.MintID)
		fmt.Fprintf(out, "total %s on %s\n", formatUnits(t.Amount, m), m.Chain)
	}
	if left := b.Header.Rows - b.Header.Included; left > 0 {
		fmt.Fprintf(out, "%d rows are left out\n", left)
	}
	if b.RetryOf != "" {
		fmt.Fprintf(out, "retry of %s\n", b.RetryOf)
	}
	if b.AutoBelow != nil {
		fmt.Fprintf(out, "no person needed: below %s USD, worth %s USD\n", b.AutoBelow, b.AutoValue)
	}
	if b.Required > 0 {
		fmt.Fprintf(out, "%d of %d approvals\n", b.Approvals, b.Required)
	}
	if b.PausedAt != nil && b.EndedAt == nil {
		fmt.Fprintf(out, "paused since %s %s\n", formatTime(*b.PausedAt), b.PauseReason)
	}
	if b.StoppedAt != nil {
		fmt.Fprintf(out, "cancelled at %s while it was being paid\n", formatTime(*b.StoppedAt))
	}
	if b.Problem != "" {
		fmt.Fprintln(out, b.Problem)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, i := range v.items {
		m, _ := v.mints.ByID(i.MintID)
		outcome := strings.TrimSpace(strings.Join([]string{i.WithdrawalID, i.State(), i.Reason()}, " "))
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", i.Number, formatUnits(i.Amount, m), i.ToAddress, i.Reference, outcome)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, row := range v.bad {
		for _, p := range row.Problems {
			fmt.Fprintf(out, "cannot be read: %s\n", formatProblem(p))
		}
	}
	for _, n := range v.warnings {
		mark := ""
		switch {
		case n.IsTicked:
			mark = " (ticked)"
		case n.NeedsTick:
			mark = fmt.Sprintf(" (submit with --tick %d once it was compared)", n.Row)
		}
		fmt.Fprintf(out, "warning, row %d: %s%s\n", n.Row, n.Text, mark)
	}
	return nil
}
