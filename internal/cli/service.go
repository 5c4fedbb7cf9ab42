package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

type serve struct {
	ConfigFile string `name:"config" short:"c" type:"existingfile" env:"COFFER_CONFIG" required:"" help:"Configuration file."`
	roleFlags
}

// roleFlags select the parts of the service that a process runs.
type roleFlags struct {
	Roles string `placeholder:"LIST" help:"Parts that this process runs, such as api,workers: api, workers, scan, dispatch, signer. Without it, the parts in the configuration, or all if it names none."`
}

func (l roleFlags) readConfig(file string) (app.Config, error) {
	if l.Roles == "" {
		return app.ReadConfig(file)
	}
	roles, err := app.ParseRoles(l.Roles)
	if err != nil {
		return app.Config{}, fmt.Errorf("--roles: %w", err)
	}
	return app.ReadConfig(file, roles...)
}

func (s serve) Run(ctx context.Context, std streams) error {
	conf, err := s.readConfig(s.ConfigFile)
	if err != nil {
		return err
	}
	if conf.IsSignerOnly() {
		return serveSigner(ctx, conf, std)
	}
	log := newLogger(conf.Log, std.err)
	service, err := app.New(ctx, conf, log)
	if err != nil {
		return err
	}
	if conf.Network == chain.Local {
		if err := localworld.EquipService(service, s.ConfigFile, log); err != nil {
			return errors.Join(err, service.Close())
		}
	}
	return errors.Join(service.Run(ctx), service.Close())
}

type migrate struct {
	configFlags
	OwnerURLFile string `name:"owner-url-file" type:"existingfile" help:"File with the owner's login. Then the configuration, and so the service, does not have it."`
}

func (m migrate) Run(ctx context.Context, std streams) error {
	conf, err := m.readConfig()
	if err != nil {
		return err
	}
	if m.OwnerURLFile != "" {
		url, err := os.ReadFile(m.OwnerURLFile)
		if err != nil {
			return fmt.Errorf("read the owner's login: %w", err)
		}
		conf.Database.OwnerURL = strings.TrimSpace(string(url))
	}
	if conf.Database.OwnerURL == "" {
		return errors.New(
			"database.owner_url: is missing; migrations run as the owner of the database: name a file with " +
				"--owner-url-file",
		)
	}
	if err := pg.Migrate(ctx, pg.Config{URL: conf.Database.URL, OwnerURL: conf.Database.OwnerURL}); err != nil {
		return err
	}
	fmt.Fprintln(std.out, "The database is up to date.")
	return nil
}

type signerCmd struct {
	Serve  signerServe  `cmd:"" default:"withargs" help:"Serve at a unix socket, or other hosts by mutual TLS (the default)."`
	Init   signerInit   `cmd:"" help:"Begin an empty journal for a seed that has never signed."`
	Adopt  signerAdopt  `cmd:"" help:"Rebuild a permanently lost journal from its mirror in the database and the chains."`
	Import signerImport `cmd:"" help:"After a restore: import the signer's journal into the database."`
	Clock  signerClock  `cmd:"" help:"Show the signer's time, and confirm its clock after a jump."`

	Approvers signerApprovers `cmd:"" help:"Admit the passkeys of approvers at the signer's own host."`
}

type signerServe struct {
	ConfigFile string `name:"config" short:"c" type:"existingfile" env:"COFFER_CONFIG" required:"" help:"Configuration file with the signer's own files."`
	Socket     string `type:"path" help:"Unix socket, instead of the one in signer.serve."`
}

func (s signerServe) Run(ctx context.Context, std streams) error {
	conf, err := app.ReadSignerConfig(s.ConfigFile)
	if err != nil {
		return err
	}
	if s.Socket != "" {
		conf.Signer.Serve.Socket = s.Socket
	}
	return serveSigner(ctx, conf, std)
}

func serveSigner(ctx context.Context, conf app.Config, std streams) error {
	endpoints := strings.Fields(conf.Signer.Serve.Socket + " " + conf.Signer.Serve.Listen)
	return app.ServeSigner(ctx, conf, func(head signer.Head) {
		fmt.Fprintf(std.err, "signer: journal %s at entry %d, serving at %s\n", head.JournalID, head.Seq,
			strings.Join(endpoints, " and "))
	})
}

type signerInit struct{ keyFolderFlags }

func (s signerInit) Run(std streams) error {
	keyFiles, sign := app.KeyFiles(s.Dir)
	if err := app.CreateJournal(keyFiles, sign); err != nil {
		return err
	}
	fmt.Fprintf(
		std.out,
		"%s is an empty journal. If this seed ever signed anything, remove the file and restore the old journal: "+
			"without it the signer can make a payment a second time.\n",
		sign.Journal,
	)
	return nil
}

type signerClock struct {
	Show    signerClockShow    `cmd:"" default:"withargs" help:"Show the clock of this host and the journal's time (the default)."`
	Confirm signerClockConfirm `cmd:"" help:"Confirm that the clock of this host is right, after a jump or after it was wrong."`
}

type signerClockShow struct {
	ConfigFile string `name:"config" short:"c" type:"existingfile" env:"COFFER_CONFIG" required:"" help:"Configuration file with the signer's own files."`
}

func (c signerClockShow) Run(std streams) error {
	conf, err := app.ReadSignerConfig(c.ConfigFile)
	if err != nil {
		return err
	}
	status, err := app.SignerClock(conf)
	if err != nil {
		return err
	}
	printClock(std, status)
	return nil
}

func printClock(std streams, status app.SignerTime) {
	rfc := func(t time.Time) string { return t.Format(time.RFC3339) }
	fmt.Fprintf(std.out, "The clock of this host: %s\nThe journal's last entry: %s\nThe journal's time: %s\n",
		rfc(status.SystemTime), rfc(status.LastEntry), rfc(status.JournalTime))
	switch {
	case status.AheadBy > 0:
		fmt.Fprintf(
			std.out,
			"The clock is %s ahead of the time that the signer has seen pass. Payments with a limit wait until you "+
				"confirm the time.\n",
			status.AheadBy.Round(time.Second),
		)
	case status.BehindBy > 0:
		fmt.Fprintf(
			std.out,
			"The clock is %s behind the journal: one of them is or was wrong. After a confirmation, entries with a "+
				"later date count as made now.\n",
			status.BehindBy.Round(time.Second),
		)
	default:
		fmt.Fprintln(std.out, "They agree: there is nothing to confirm.")
	}
}

type signerClockConfirm struct {
	ConfigFile string    `name:"config" short:"c" type:"existingfile" env:"COFFER_CONFIG" required:"" help:"Configuration file with the signer's own files."`
	Time       time.Time `arg:"" format:"2006-01-02T15:04Z07:00" help:"The time as another clock shows it, such as 2026-11-23T06:10Z. The clock of this host has to be within five minutes of it."`
	Because    string    `required:"" help:"The reason, for the journal."`
}

func (c signerClockConfirm) Run(std streams) error {
	conf, err := app.ReadSignerConfig(c.ConfigFile)
	if err != nil {
		return err
	}
	status, entry, err := app.ConfirmSignerClock(conf, c.Time, c.Because)
	if err != nil {
		return err
	}
	printClock(std, status)
	fmt.Fprintf(
		std.out, "\nConfirmed in entry %d of the journal. Start the signer again: its time continues from here.\n",
		entry.Seq,
	)
	return nil
}

type signerAdopt struct {
	configFlags
	Yes bool `help:"Write the journal. Without it, the command only shows what it would do."`
}

const adoptExplained = `The journal is what keeps a payment from being made twice, and it outlives any
backup of the database. Rebuilding it is safe under three conditions, which only
you can know:

  1. The journal is permanently lost. Any copy of it is better than a rebuilt one.
  2. The database is the one that the lost journal worked with, up to its last
     transaction. An older backup does not have the latest signatures, and the
     service would make those payments again.
  3. No signer and no service of this installation runs anywhere.

The command asked the chains how often each wallet has paid. It refuses to rebuild
the journal if a wallet has paid more often than the mirror shows.
`

func (s signerAdopt) Run(ctx context.Context, std streams) error {
	conf, err := s.readConfig()
	if err != nil {
		return err
	}
	adoption, err := app.PrepareAdoption(ctx, conf, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer adoption.Close()
	fmt.Fprintf(std.out, "%s\nThe database has %d entries of journal %s, up to number %d.\n", adoptExplained,
		adoption.Entries, adoption.Lost, adoption.Last)
	for _, p := range adoption.Accounts {
		fmt.Fprintf(std.out, "  %s has paid %d times on %s (%s of %s)\n", p.Address, p.Paid, p.Chain, p.Wallet.Purpose,
			p.Wallet.OrgID)
	}
	if !s.Yes {
		return fmt.Errorf(
			"nothing was done; if all three conditions hold, repeat the command with --yes to write %s",
			adoption.Journal,
		)
	}
	if err := adoption.WriteJournal(); err != nil {
		return err
	}
	fmt.Fprintf(
		std.out,
		"\n%s is written and continues %s. Start the service: it compares the journal with the database before it "+
			"pays anything.\n",
		adoption.Journal, adoption.Lost,
	)
	return nil
}

type signerImport struct {
	configFlags
	Yes bool `help:"Write the change. Without it, the command only shows what it would do."`
}

const importExplained = `This command creates again, in a restored database, what the signer's journal
remembers. Only you can know whether these three conditions hold:

  1. No later state of the database is available: with the complete write-ahead log
     nothing is missing, and references, metadata and approvals are kept.
  2. Nothing has run on this database since the restore.
  3. No service of this installation runs anywhere. A separate signer may run.
`

func (s signerImport) Run(ctx context.Context, std streams) error {
	conf, err := s.readConfig()
	if err != nil {
		return err
	}
	report, err := app.ImportJournal(ctx, conf, newLogger(conf.Log, std.err), audit.Operator("cli"), !s.Yes)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out,
		"%s\nThe database has the journal up to entry %d of journal %s, which ends at %d.\nAfter it: %d addresses, "+
			"%d payments, sweeps and top-ups.\n",
		importExplained, report.From.Seq, report.To.JournalID, report.To.Seq, report.Wallets, report.Intents)
	for _, id := range report.Missing.Intents {
		fmt.Fprintf(std.out, "  %s is created again or completed\n", id)
	}
	for _, id := range report.Missing.Organizations {
		fmt.Fprintf(std.out, "  %s is created again, without an API key\n", id)
	}
	if !s.Yes {
		return errors.New("nothing was done; if all three conditions hold, repeat the command with --yes")
	}
	fmt.Fprintln(
		std.out,
		"\nImported. The sequences of events continue after every number that may have been used. Start the service.",
	)
	return nil
}

type withdrawals struct {
	List         withdrawalsList `cmd:"" help:"Show withdrawals, newest first."`
	Approve      approve         `cmd:"" help:"Approve a waiting withdrawal: the service pays it."`
	Remove       remove          `cmd:"" help:"Remove a waiting withdrawal: its amount returns to the balance that it came from."`
	Organization orgWithdraw     `cmd:"" help:"Withdraw the organization's own money to an address on its whitelist."`
}

// decisionFlags are the flags of both verbs.
type decisionFlags struct {
	configFlags
	ID string `arg:"" help:"The withdrawal, wd_…"`
	As string `placeholder:"EMAIL" help:"The person who decides; the first person of the local world if left out."`
}

// findPerson finds the member who decides, and checks the permission. Rule WD-56.
func (d decisionFlags) findPerson(ctx context.Context, db *pg.DB) (member.Member, error) {
	p, err := personByEmail(ctx, db, d.As)
	if err == nil && !p.IsAllowed(identity.DecideWithdrawal) {
		return p, fmt.Errorf("%s may not decide about withdrawals: this needs the role OWNER, ADMIN or APPROVER",
			p.Email)
	}
	return p, err
}

// personByEmail finds a member by e-mail; without one, the first member of the local world.
func personByEmail(ctx context.Context, db *pg.DB, email string) (p member.Member, err error) {
	if email == "" {
		info, err := localworld.ReadInfo(".")
		if err != nil || len(info.Users) == 0 {
			return p, errors.New("name who decides, with --as EMAIL")
		}
		email = info.Users[0].Email
	}
	err = db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		p, err = member.ByEmail(ctx, tx, email)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("%s: %w", email, err)
	}
	return p, nil
}

// describeError adds the given id to an error of a decision if there is no such withdrawal.
func (d decisionFlags) describeError(err error, p member.Member) error {
	if fault.HasCode(err, fault.CodeNotFound) {
		return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"The organization of %s has no withdrawal %.64q.", p.Email, d.ID).
			WithAdvice("Coffer withdrawals list shows the withdrawals.")
	}
	return err
}

type approve struct{ decisionFlags }

func (c approve) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	p, err := c.findPerson(ctx, tools.DB())
	if err != nil {
		return err
	}
	approved, err := tools.Withdrawals.Approve(ctx, p.OrgID, c.ID, audit.User(p.ID))
	if err != nil {
		return c.describeError(err, p)
	}
	w := wire.Withdrawal(approved)
	fmt.Fprintf(std.out, "%s of %s %s to %s is %s, approved by %s.\n", w.WithdrawalID, w.AmountDecimal, w.Mint.Symbol,
		w.ToAddress, w.Status, p.Email)
	if missing := w.Approvals.Required - w.Approvals.Received; missing > 0 &&
		w.Status == string(withdrawal.AwaitingApproval) {
		fmt.Fprintf(std.out, "It has %d of the %d approvals that it needs: other people have to approve it, too.\n",
			w.Approvals.Received, w.Approvals.Required)
	}
	return nil
}

type remove struct {
	decisionFlags
	Reason string `help:"The reason, for the record."`
}

func (c remove) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	p, err := c.findPerson(ctx, tools.DB())
	if err != nil {
		return err
	}
	removed, err := tools.Withdrawals.Remove(ctx, p.OrgID, c.ID, audit.User(p.ID), c.Reason)
	if err != nil {
		return c.describeError(err, p)
	}
	w := wire.Withdrawal(removed)
	fmt.Fprintf(std.out, "%s of %s %s is %s, removed by %s; the amount is available to %s again.\n",
		w.WithdrawalID, w.AmountDecimal, w.Mint.Symbol, w.Status, p.Email, balanceName(w))
	return nil
}

// balanceName returns the owner of the balance from which a withdrawal takes.
func balanceName(withdrawn webhook.Withdrawal) string {
	if withdrawn.Product != nil {
		return *withdrawn.Product
	}
	return *withdrawn.CustomerID
}

type orgWithdraw struct {
	configFlags
	Product string `required:"" enum:"CUSTODIAL,CHECKOUT,BATCH_PAYOUT" help:"The product whose balance pays: CUSTODIAL, CHECKOUT or BATCH_PAYOUT."`
	Mint    int    `required:"" help:"The id of the mint to pay."`
	To      string `required:"" placeholder:"wla_…" help:"The whitelist entry to pay."`
	Amount  string `xor:"amount" required:"" help:"What the destination receives, in whole tokens such as 1.5. The network fee of a native coin comes from the same balance, on top."`
	Max     bool   `xor:"amount" required:"" help:"The whole balance, less the network fee of a native coin."`
	Key     string `help:"Idempotency key: the same command with the same key shows the same withdrawal. Without it the command makes one, and shows it when there is no answer."`
	As      string `placeholder:"EMAIL" help:"The person who requests it; the first person of the local world if left out."`
	Preview bool   `help:"Only show what would happen."`
}

func (c orgWithdraw) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	p, err := personByEmail(ctx, tools.DB(), c.As)
	if err != nil {
		return err
	}
	r := withdrawal.OrganizationRequest{
		Product: c.Product, MintID: c.Mint, WhitelistedAddressID: c.To, Amount: c.Amount, UseDecimal: true, Max: c.Max,
	}
	// A missing key is generated, so that a command without an answer can be repeated.
	key := cmp.Or(c.Key, id.New("key", time.Now()))
	r.IdempotencyKey = &key
	if c.Preview {
		return c.printPreview(ctx, std, tools.Withdrawals, p, r)
	}
	requested, isReplay, err := tools.Withdrawals.RequestOrganization(ctx, p, r)
	if err != nil && fault.Find(err) == nil {
		return fmt.Errorf("it is not known whether the withdrawal was made; with --key %s the same command makes it "+
			"at most once: %w",
			key, err)
	}
	if err != nil {
		return err
	}
	w := wire.Withdrawal(requested)
	if isReplay {
		fmt.Fprintln(std.out, "The key is known: nothing more is paid. This is the withdrawal with the key.")
	}
	fmt.Fprintf(std.out, "%s of %s %s from %s to %s is %s, requested by %s.\n", w.WithdrawalID, w.AmountDecimal,
		w.Mint.Symbol, balanceName(w), w.ToAddress, w.Status, p.Email)
	if w.Status == string(withdrawal.AwaitingApproval) {
		fmt.Fprintf(std.out, "It waits for the approval of %d other people: %v.\n", w.Approvals.Required,
			strings.Join(w.ApprovalReasons, ", "))
	}
	return nil
}

func (c orgWithdraw) printPreview(
	ctx context.Context, std streams, s *withdrawal.Service, p member.Member, r withdrawal.OrganizationRequest,
) error {
	e, err := s.EstimateOrganization(ctx, p, c.Product, c.Mint, c.To)
	if err != nil {
		return err
	}
	fmt.Fprintf(
		std.out,
		"The network takes at most %v atomic units of the native coin; %s could pay at most %v atomic units now.\n",
		e.NetworkFee, c.Product, e.MaxAmount,
	)
	evaluation, err := s.PreviewOrganization(ctx, p, r)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "It would be %s%s. Nothing was held and nothing was sent.\n", evaluation.WouldBe,
		formatReasons(evaluation.Reasons))
	return nil
}

func formatReasons(reasons []withdrawal.Reason) (s string) {
	for i, r := range reasons {
		s += [2]string{", for ", ", "}[min(i, 1)] + string(r)
	}
	return s
}

type sweepCmd struct {
	configFlags
	Chain chain.Name `default:"ETHEREUM" help:"The chain."`
}

func (c sweepCmd) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	s := tools.Sweeper(c.Chain)
	// On a chain with UTXOs a person has nothing to sweep: every UTXO pays from where it is.
	if s == nil || c.Chain.IsUTXO() {
		return fmt.Errorf(
			"%s is not configured, or has no sweeps because payments spend deposit addresses directly",
			c.Chain,
		)
	}
	n, err := s.SweepAll(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%d sweeps planned; the running service carries them out.\n", n)
	return nil
}

type verifyCmd struct{ configFlags }

func (c verifyCmd) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	books, err := verify.RunChecks(ctx, tools.DB(), verify.WithGrants(tools.GrantKey()),
		verify.WithApprovers(tools.AttestKey()))
	if err != nil {
		return err
	}
	chains, err := verify.CompareWithChains(ctx, tools.DB(), tools.Chains)
	if err != nil {
		return err
	}
	addresses, err := verify.CheckAddresses(ctx, tools.DB(), tools.Wallets)
	if err != nil {
		return err
	}
	printReport(std, "books", books)
	printReport(std, "chains", chains)
	printReport(std, "addresses", addresses)
	if n := len(books.Breaches) + len(chains.Breaches) + len(addresses.Breaches); n > 0 {
		return fmt.Errorf("%d breaches: send no payments before you understand them", n)
	}
	return nil
}

// printReport prints a report, with a line for each check and each breach.
func printReport(std streams, title string, r verify.Report) {
	fmt.Fprintf(std.out, "%s\n", title)
	for _, o := range r.Outcomes {
		mark := "ok"
		switch {
		case o.Breaches > 0:
			mark = fmt.Sprintf("%d BREACHES", o.Breaches)
		case o.NotChecked:
			mark = "not checked"
		case o.Remarks > 0:
			mark = fmt.Sprintf("%d remarks", o.Remarks)
		}
		fmt.Fprintf(std.out, "  %-12s %s\n", mark, o.Promise)
	}
	for _, b := range r.Breaches {
		fmt.Fprintf(std.out, "  !  %s  %s  %s\n", b.Check, b.Subject, b.Detail)
	}
	for _, b := range r.Remarks {
		fmt.Fprintf(std.out, "  *  %s  %s  %s\n", b.Check, b.Subject, b.Detail)
	}
}

type keysCmd struct {
	Create  keysCreate  `cmd:"" help:"Create every missing key file, including a seed with its journal."`
	Show    keysShow    `cmd:"" help:"Show the fingerprints of the seed, without the seed."`
	Backup  keysBackup  `cmd:"" help:"Back the seed up, encrypted with age."`
	Restore keysRestore `cmd:"" help:"Restore a seed from its backup."`
}

type keyFolderFlags struct {
	Dir string `arg:"" type:"path" help:"Folder of the key files."`
}

func (k keyFolderFlags) keyFiles() keys.Files {
	serviceKeys, sign := app.KeyFiles(k.Dir)
	return keys.Files{Key: sign.Seed, KEK: sign.Wrap, Attest: serviceKeys.Attest}
}

type keysCreate struct{ keyFolderFlags }

func (k keysCreate) Run(std streams) error {
	serviceKeys, sign := app.KeyFiles(k.Dir)
	if err := app.CreateKeys(serviceKeys, sign); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Keys are in %s. Back up the seed before any money arrives: coffer keys backup.\n", k.Dir)
	return keysShow(k).Run(std)
}

type keysShow struct{ keyFolderFlags }

func (k keysShow) Run(std streams) error {
	info, err := keys.ReadInfo(k.keyFiles())
	if err != nil {
		return err
	}
	printSeed(std, info)
	return nil
}

type keysBackup struct {
	keyFolderFlags
	To             string `type:"path" required:"" help:"File to write."`
	Recipient      string `xor:"who" required:"" help:"age recipient, age1…"`
	PassphraseFile string `xor:"who" required:"" type:"existingfile" help:"File with a passphrase, instead of a recipient."`
}

func (k keysBackup) Run(std streams) error {
	pass, err := secretFile(k.PassphraseFile)
	if err != nil {
		return err
	}
	if err := keys.BackupSeed(
		k.keyFiles(), keys.BackupRecipient{Recipient: k.Recipient, Passphrase: pass}, k.To,
	); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "The seed's backup is %s. Restore it somewhere once, to prove that it works.\n", k.To)
	return nil
}

type keysRestore struct {
	keyFolderFlags
	From           string `type:"existingfile" required:"" help:"The backup."`
	IdentityFile   string `xor:"who" required:"" type:"existingfile" help:"File with the age identity, AGE-SECRET-KEY-1…"`
	PassphraseFile string `xor:"who" required:"" type:"existingfile" help:"File with the passphrase."`
}

func (k keysRestore) Run(std streams) error {
	identity, err := secretFile(k.IdentityFile)
	if err != nil {
		return err
	}
	pass, err := secretFile(k.PassphraseFile)
	if err != nil {
		return err
	}
	info, err := keys.RestoreSeed(k.keyFiles(), keys.BackupIdentity{Identity: identity, Passphrase: pass}, k.From)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Restored. Restore the journal next to it before the signer signs anything.\n")
	printSeed(std, info)
	return nil
}

func printSeed(std streams, info keys.SeedInfo) {
	fmt.Fprintf(std.out, "seed of %s, attestation key %x\n", info.CreatedAt.UTC().Format(time.RFC3339), info.AttestKey)
}

// secretFile reads a secret from a file: the last line that is not a comment. An empty path means
// no secret.
func secretFile(path string) (seal.Secret, error) {
	if path == "" {
		return seal.Secret{}, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return seal.Secret{}, err
	}
	secret := ""
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			secret = line
		}
	}
	return seal.NewSecret(secret), nil
}

type configCmd struct {
	Check  configCheck  `cmd:"" help:"Check a configuration file and list all its errors."`
	Sample configSample `cmd:"" help:"Print a configuration with comments, from the catalogue of the program."`
}

type configSample struct {
	Network chain.Network `default:"MAINNET" enum:"MAINNET,TESTNET,LOCAL" help:"MAINNET, TESTNET or LOCAL."`
	Chain   []chain.Name  `placeholder:"NAME" help:"Chains, such as ETHEREUM,BASE; all that this version can run if left out."`
	Policy  bool          `help:"Print the signer's policy for it instead."`
}

func (c configSample) Run(std streams) error {
	print := app.SampleConfig
	if c.Policy {
		print = app.SamplePolicy
	}
	text, err := print(c.Network, c.Chain...)
	if err != nil {
		return err
	}
	_, err = std.out.Write(text)
	return err
}

type configCheck struct {
	File string `arg:"" type:"existingfile" help:"Configuration file."`
	roleFlags
}

func (c configCheck) Run(std streams) error {
	if _, err := c.readConfig(c.File); err != nil {
		return err
	}
	fmt.Fprintln(std.out, "The configuration is valid.")
	return nil
}
