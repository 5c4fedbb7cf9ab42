// Package pageset serves the pages of the dashboard, the console and approvals on a database that package population
// filled, to people with accounts and sessions of their own. It lists a path of every page from the tables of the
// kit, for tests and benchmarks that look at all pages.
//
// It adds the rows that a page needs and the population lacks. As those of the population, no trigger
// checks them. A crash leaves nothing that outlives a test or a benchmark.
package pageset

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/console"
	"github.com/cofferpay/coffer/internal/http/dashboard"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/swaptest"
	"github.com/cofferpay/coffer/internal/testing/trial/population"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Config says where the pages are served.
type Config struct {
	DB *pg.DB
	// Super is a connection of the superuser to the same database.
	Super *pgx.Conn
	OrgID string // whose customers the population added
	// Customers is how many of them have a history.
	Customers int
	Dir       string          // for keys
	Changes   *audit.Follower // nil: no page changes by itself
}

// Set is the pages with a person of each surface who may open all of them.
type Set struct {
	Surfaces []*Surface

	conf    Config
	attest  ed25519.PrivateKey
	owner   account.Account
	member  member.Member
	keyset  *seal.Keyset
	service *service.Service
	strayID string // a stray arrival of a swap
	batchID string // a batch payout
}

// attestsAll takes every wallet of a checkout as attested: the signer did not see those of the population.
type attestsAll struct{ checkout.WalletService }

// VerifyAttestation implements checkout.WalletService.
func (attestsAll) VerifyAttestation(wallet.Wallet) error { return nil }

// Surface is one surface with its table.
type Surface struct {
	Name    string
	Prefix  string
	Handler http.Handler
	Pages   []pages.Page
	Host    string // that requests name
	Cookie  string // of an open session

	set *Set
}

// Origins of the pages. A handler looks at the host of a request and not at its port.
const (
	memberHost    = "localhost:4001"
	operatorHost  = "localhost:4002"
	approvalsHost = "approvals.localhost:4003"
)

// Ids of the rows that are added.
const (
	treasuryID = "adr_pages_treasury"
	ownID      = "adr_pages_own"
	jobID      = "wj_00000000000000000000000000"
	changeID   = "mch_00000000000000000000000000"
	requestID  = "chg_00000000000000000000000000"
	noteID     = "crn_00000000000000000000000000"
	passkeyID  = "apk_00000000000000000000000000"

	operatorPasskeyID = "apk_00000000000000000000000001"
	addressID         = "wla_00000000000000000000000001"
)

// noMailer sends no mails.
type noMailer struct{}

func (noMailer) Queue(context.Context, pg.Tx, mail.Message) error { return nil }

// New adds people and rows, and builds the handlers of both surfaces.
func New(ctx context.Context, conf Config) (*Set, error) {
	s := &Set{conf: conf}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	s.attest = private
	file := filepath.Join(conf.Dir, "seal")
	if err := seal.CreateKeyset(file); err != nil {
		return nil, err
	}
	if s.keyset, err = seal.OpenKeyset(file); err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	prices := price.Fixed{Clock: time.Now, Prices: map[int]money.USD{
		1: money.MustParseUSD("1"), 2: money.MustParseUSD("3000"),
	}}
	s.service = service.New(service.Config{}, service.Parts{
		DB: conf.DB, AttestKey: public, Prices: prices, Log: log, Seal: s.keyset,
		Chains: chain.Chains{chain.Ethereum: {
			Name: chain.Ethereum, Network: chain.Local, CAIP2: "eip155:31337",
			AddressCodec: evmtx.AddressCodec{ChainID: 31337}, Sender: sim.New(sim.Config{}),
		}},
	})
	s.service.Checkouts.Wallets = attestsAll{s.service.Checkouts.Wallets}
	if err := s.addPeople(ctx); err != nil {
		return nil, fmt.Errorf("add the people of the pages: %w", err)
	}
	if err := s.addRows(ctx); err != nil {
		return nil, fmt.Errorf("add the rows of the pages: %w", err)
	}
	if err := s.addPayout(ctx); err != nil {
		return nil, fmt.Errorf("add a batch payout: %w", err)
	}
	if err := s.buildDashboard(ctx, prices, log); err != nil {
		return nil, err
	}
	if err := s.buildConsole(ctx, prices, log); err != nil {
		return nil, err
	}
	return s, s.buildApprovals(ctx, prices, log)
}

func (s *Set) newSignIn(side account.Side, origin, invitation, device string) (*signin.Service, error) {
	return signin.NewService(signin.Config{
		DB: s.conf.DB, Keys: s.keyset, Hasher: password.NewHasher(password.Params{MemoryKiB: 64, Passes: 1}),
		Mailer: noMailer{}, Side: side, Site: "localhost", Origin: origin, Issuer: "Coffer",
		InvitationURL: origin + invitation, DeviceURL: origin + device,
	})
}

func (s *Set) buildDashboard(ctx context.Context, prices price.Source, log *slog.Logger) error {
	origin := &url.URL{Scheme: "http", Host: memberHost}
	people, err := s.newSignIn(
		account.MemberSide, origin.String(), dashboard.InvitationPath, dashboard.DevicePath,
	)
	if err != nil {
		return err
	}
	conf := s.newDashboardConfig(origin, people, prices, log)
	token, err := s.newSession(ctx, session.ForPages)
	if err != nil {
		return err
	}
	s.Surfaces = append(s.Surfaces, &Surface{
		Name: "dashboard", Prefix: dashboard.Prefix, Handler: dashboard.New(conf), Pages: dashboard.ListPages(conf),
		Host: memberHost, Cookie: pages.SessionCookie + "=" + token, set: s,
	})
	return nil
}

// buildApprovals adds the pages of approvals at an address of their own.
func (s *Set) buildApprovals(ctx context.Context, prices price.Source, log *slog.Logger) error {
	origin := &url.URL{Scheme: "http", Host: approvalsHost}
	people, err := signin.NewService(signin.Config{
		DB: s.conf.DB, Keys: s.keyset, Hasher: password.NewHasher(password.Params{MemoryKiB: 64, Passes: 1}),
		Mailer: noMailer{}, Side: account.MemberSide, Audience: session.ForApprovals, Site: origin.Hostname(),
		Origin: origin.String(), Issuer: "Coffer", DeviceURL: origin.String() + dashboard.ApprovalsDevicePath,
	})
	if err != nil {
		return err
	}
	conf := s.newDashboardConfig(origin, people, prices, log)
	conf.DashboardURL = "http://" + memberHost + dashboard.Prefix
	token, err := s.newSession(ctx, session.ForApprovals)
	if err != nil {
		return err
	}
	s.Surfaces = append(s.Surfaces, &Surface{
		Name: "approvals", Handler: dashboard.NewApprovals(conf), Pages: dashboard.ListApprovalPages(conf),
		Host: approvalsHost, Cookie: pages.SessionCookie + "=" + token, set: s,
	})
	return nil
}

// newDashboardConfig returns what the dashboard and the pages of approvals share.
func (s *Set) newDashboardConfig(
	origin *url.URL, people *signin.Service, prices price.Source, log *slog.Logger,
) dashboard.Config {
	return dashboard.Config{
		DB: s.conf.DB, SignIn: people, Withdrawals: s.service.Withdrawals, Deposits: s.service.Deposits,
		Transfers: s.service.Transfers, Swaps: s.service.Swaps, DepositSwaps: s.service.DepositSwaps,
		Checkouts: s.service.Checkouts, Payouts: s.service.Payouts,
		Whitelist: s.service.Whitelist, Approvers: s.service.Approvers, Wallets: s.service.Wallets,
		Chains: s.service.Chains, Prices: prices,
		Endpoints: s.service.Endpoints, SettingChanges: s.service.Changes,
		APIURL: origin.String() + "/v1", Origin: origin, CursorKey: []byte("the key of this run's cursors"),
		Changes: s.conf.Changes, Log: log,
		ExplorerURL: func(_ chain.Name, tx chain.TxHash) string { return "https://explorer.example/tx/" + string(tx) },
	}
}

func (s *Set) buildConsole(ctx context.Context, prices price.Source, log *slog.Logger) error {
	origin := &url.URL{Scheme: "http", Host: operatorHost}
	people, err := s.newSignIn(account.OperatorSide, origin.String(), console.InvitationPath, console.DevicePath)
	if err != nil {
		return err
	}
	conf := console.Config{
		DB: s.conf.DB, SignIn: people, Chains: s.service.Chains, Withdrawals: s.service.Withdrawals,
		Deposits: s.service.Deposits, Swaps: s.service.Swaps, DepositSwaps: s.service.DepositSwaps,
		Billing:   s.service.Billing,
		Rescreens: s.service.NewRescreener(), Whitelist: s.service.Whitelist, Approvers: s.service.Approvers,
		Worker: s.service.DispatchWorker, Prices: prices,
		PriceAge:        func(int) time.Duration { return time.Hour },
		AllowedPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Origin:          origin, CursorKey: []byte("the key of this run's cursors"), Changes: s.conf.Changes, Log: log,
	}
	var token seal.Secret
	err = s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		const email, name = "ann@pages.example", "Ann Operator"
		made, err := account.Create(ctx, tx, account.OperatorSide, email, name, "Europe/Berlin", unusableHash)
		if err != nil {
			return err
		}
		actor := audit.System("bench")
		person, err := operator.AddPerson(ctx, tx, actor, email, name, []operator.Role{operator.RoleOperator})
		if err != nil {
			return err
		}
		if _, err := operator.JoinAccount(ctx, tx, person.ID, made.ID); err != nil {
			return err
		}
		_, token, err = session.Create(ctx, tx, made, session.Open, account.TOTPFactor, browser)
		return err
	})
	if err != nil {
		return err
	}
	s.Surfaces = append(s.Surfaces, &Surface{
		Name: "console", Prefix: console.Prefix, Handler: console.New(conf), Pages: console.ListPages(conf),
		Host: operatorHost, Cookie: pages.OperatorSessionCookie + "=" + token.Reveal(), set: s,
	})
	return nil
}

// unusableHash belongs to no password: these people have sessions and never sign in.
const unusableHash = "$argon2id$v=19$m=64,t=1,p=1$c2FsdA$aGFzaA"

var browser = session.Browser{
	UserAgent: "Mozilla/5.0 (X11; Linux x86_64) bench", Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}),
}

// addPeople makes the owner of the organization, with an account.
func (s *Set) addPeople(ctx context.Context) error {
	return s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		const email, name = "owner@pages.example", "Olga Owner"
		actor := audit.System("bench")
		if s.member, err = member.Add(ctx, tx, actor, s.conf.OrgID, email, name, identity.Owner); err != nil {
			return err
		}
		if s.owner, err = account.Create(
			ctx, tx, account.MemberSide, email, name, "Europe/Berlin", unusableHash,
		); err != nil {
			return err
		}
		_, err = member.JoinAccount(ctx, tx, s.member.ID, s.owner.ID)
		return err
	})
}

// NewSession makes an open session of the owner and returns its token.
func (s *Set) NewSession(ctx context.Context) (string, error) {
	return s.newSession(ctx, session.ForPages)
}

func (s *Set) newSession(ctx context.Context, audience session.Audience) (string, error) {
	var token seal.Secret
	opened := browser
	opened.Audience = audience
	err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		var sessionID string
		sessionID, token, err = session.Create(ctx, tx, s.owner, session.Open, account.TOTPFactor, opened)
		if err != nil {
			return err
		}
		return session.SetMember(ctx, tx, sessionID, s.member.ID)
	})
	return token.Reveal(), err
}

// prove returns the proof of a wallet, as the signer would give it.
func (s *Set) prove(ref signer.WalletRef, address string) []byte {
	return ed25519.Sign(s.attest, signer.AttestedBytes(ref, "m/bench", chain.Address(address)))
}

// addRows adds what the population has none of, as the superuser and without triggers.
func (s *Set) addRows(ctx context.Context) error {
	tx, err := s.conf.Super.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`); err != nil {
		return err
	}
	org, n := s.conf.OrgID, s.middle()
	for _, w := range []struct{ id, purpose, subject, address string }{
		{treasuryID, wallet.Treasury, "", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
		{ownID, wallet.OrganizationDeposit, "CHECKOUT", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"},
	} {
		ref := signer.WalletRef{OrgID: org, Family: chain.EVM, Purpose: w.purpose, Subject: w.subject}
		if _, err := tx.Exec(ctx, `
			INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
			VALUES ($1, $2, 'EVM', $3, $4, 'm/bench', $5, $6, '2026-01-01Z') ON CONFLICT DO NOTHING`,
			w.id, org, w.purpose, w.subject, w.address, s.prove(ref, w.address)); err != nil {
			return err
		}
	}
	ref := signer.WalletRef{
		OrgID: org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: population.Customer(n),
	}
	if _, err := tx.Exec(ctx, `UPDATE wallets SET path = 'm/bench', proof = $2 WHERE wallet_id = $1`,
		population.ID("adr", n), s.prove(ref, population.Address(n))); err != nil {
		return err
	}
	fill := strings.NewReplacer(
		"$ORG", "'"+org+"'", "$MEMBER", "'"+s.member.ID+"'", "$EVENT", "'"+population.ID("evt", n)+"'",
		"$FLAGGED", "'"+s.flaggedID()+"'", "$INVOICE", "'"+s.invoiceID()+"'",
	)
	if err := s.addSwap(ctx, tx); err != nil {
		return err
	}
	for _, sql := range addedRows {
		if _, err := tx.Exec(ctx, fill.Replace(sql)); err != nil {
			return fmt.Errorf("%w\n%s", err, sql)
		}
	}
	return tx.Commit(ctx)
}

// swap is a failed swap of a customer in the middle, of which something came back.
func (s *Set) swap() swaptest.Row {
	created := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	paid, ended := created.Add(time.Minute), created.Add(time.Hour)
	return swaptest.Row{
		OrgID: s.conf.OrgID, CustomerID: population.Customer(s.middle()), IdempotencyKey: "pages", FromMintID: 1,
		ToMintID: 2, Chain: "ETHEREUM", AmountIn: 1_000_000, EstimatedOut: 1_000_000, Provider: swapProvider,
		Status: "FAILED", FailureReason: "PROVIDER_REFUNDED", Refunded: 500_000, OriginTx: population.Hash('s', 1),
		RefundTx: population.Hash('s', 2), CreatedAt: created, PaidAt: &paid, EndedAt: &ended,
	}
}

// ownSwap is a swap of the organization's own money, of which something came back.
func (s *Set) ownSwap() swaptest.Row {
	r := s.swap()
	r.IdempotencyKey, r.Product = "pages-own", "CUSTODIAL"
	r.PayoutAddress = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	r.OriginTx, r.RefundTx = population.Hash('s', 4), population.Hash('s', 5)
	return r
}

// swapProvider is the provider of the swap.
const swapProvider = "ONE_CLICK"

// payoutRows is the number of rows of the batch payout, which its page shows in parts.
const payoutRows = 300

// addPayout adds a draft of a list of payments.
func (s *Set) addPayout(ctx context.Context) error {
	var list strings.Builder
	list.WriteString("reference,mintId,toAddress,amount\n")
	for n := range payoutRows {
		fmt.Fprintf(&list, "salary-%d,1,0x%040x,%d\n", n+1, n*7919+1, n+1)
	}
	lines, err := rowfile.ReadCSV([]byte(list.String()))
	if err != nil {
		return err
	}
	made, err := s.service.Payouts.Create(ctx, s.conf.OrgID, payout.CreateRequest{
		Lines: lines, IdempotencyKey: new("pages"), Actor: s.member.Actor(),
	})
	s.batchID = made.ID
	return err
}

// addSwap adds a swap with its wallets, a report and a stray arrival.
func (s *Set) addSwap(ctx context.Context, tx pgx.Tx) error {
	r := s.swap()
	if err := swaptest.Insert(ctx, tx, r, s.ownSwap()); err != nil {
		return err
	}
	if err := swaptest.InsertReports(ctx, tx, r, swaptest.Report{
		Status: "REFUNDED", Word: "REFUNDED", Refund: "PENDING", CreatedAt: *r.EndedAt,
	}); err != nil {
		return err
	}
	for _, w := range []struct{ id, purpose, address string }{
		{r.DeliveryWalletID(), wallet.SwapDelivery, "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB"},
		{r.RefundWalletID(), wallet.SwapRefund, "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb"},
	} {
		ref := signer.WalletRef{OrgID: r.OrgID, Family: chain.EVM, Purpose: w.purpose, Subject: r.ID()}
		if _, err := tx.Exec(ctx, `
			INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
			VALUES ($1, $2, 'EVM', $3, $4, 'm/bench', $5, $6, '2026-01-01Z') ON CONFLICT DO NOTHING`,
			w.id, r.OrgID, w.purpose, r.ID(), w.address, s.prove(ref, w.address)); err != nil {
			return err
		}
	}
	var err error
	s.strayID, err = swaptest.InsertArrival(
		ctx, tx, r, "STRAY", "AFTER_END", population.Hash('s', 3), 2, 1_000_000, *r.EndedAt,
	)
	return err
}

// The statements are filled in as text: the values are our own.
var addedRows = []string{
	`INSERT INTO invoices (invoice_id, org_id, month, ends_at, series, sequence, tax_rate_bps, subtotal, tax, total,
		document, document_hash, status, issued_at)
	VALUES ($INVOICE, $ORG, '2026-06', '2026-07-01Z', 'PAGES', 1, 0, 100, 0, 100, '{"sections":[]}', sha256(''),
		'ISSUED', '2026-07-03Z') ON CONFLICT DO NOTHING`,
	`INSERT INTO credit_notes (credit_note_id, org_id, invoice_id, idempotency_key, request_digest, series, sequence,
		reason, lowers_debt, subtotal, tax, total, document, document_hash, issued_at, issued_by)
	VALUES ('` + noteID + `', $ORG, $INVOICE, 'pages', sha256(''), 'PAGESCN', 1, 'pages', true, 1, 0, 1,
		'{"sections":[]}', sha256(''), '2026-07-04Z', 'OPERATOR pages') ON CONFLICT DO NOTHING`,
	`INSERT INTO approver_keys (key_id, org_id, person, email, key_right, credential_id, public_key, rp_id, origin,
		possession, possession_until, created_at)
	VALUES ('` + passkeyID + `', $ORG, 'USER usr_pages', 'pages@example.test', 'APPROVE', 'pages', 'pages', 'localhost',
		'http://localhost', '{}', '2026-07-05Z', '2026-07-04Z'),
		('` + operatorPasskeyID + `', '` + signer.Operators + `', 'OPERATOR opr_pages', 'operator@example.test',
		'APPROVE', 'operator', 'operator', 'localhost', 'http://localhost', '{}', '2026-07-05Z', '2026-07-04Z')
	ON CONFLICT DO NOTHING`,
	`INSERT INTO address_funds (wallet_id, mint_id, org_id, gas) VALUES ('` + treasuryID + `', 2, $ORG, 1000)
	ON CONFLICT DO NOTHING`,
	`INSERT INTO whitelisted_addresses (whitelisted_address_id, org_id, chain, address, label, created_at, created_by,
		not_before, request_mac)
	VALUES ('wla_x', $ORG, 'ETHEREUM', '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', 'Exchange', '2026-01-01Z', 'ann',
		'2026-01-01Z', ''),
		('` + addressID + `', $ORG, 'ETHEREUM', '0x52908400098527886E0F7030069857D2E4169EE7', 'Bank', '2026-01-01Z',
		'ann', '2026-01-01Z', '') ON CONFLICT DO NOTHING`,
	`INSERT INTO webhook_jobs (job_id, org_id, kind, event_id, only_failed, status, after_sequence, last_sequence,
		created_at, updated_at, ended_at)
	VALUES ('` + jobID + `', $ORG, 'RESEND', $EVENT, false, 'COMPLETED', 1, 1, '2026-01-01Z', '2026-01-01Z',
		'2026-01-01Z') ON CONFLICT DO NOTHING`,
	`INSERT INTO member_changes (change_id, org_id, before, wanted, requested_by, created_at, expires_at)
	VALUES ('` + changeID + `', $ORG, '{"approvalQuorum": 2}', '{"approvalQuorum": 1}', $MEMBER, now(),
		now() + interval '7 days') ON CONFLICT DO NOTHING`,
	`INSERT INTO change_requests (change_id, org_id, kind, before, wanted, author, author_key, created_at, expires_at)
	VALUES ('` + requestID + `', $ORG, 'SETTINGS', '{"approvalQuorum": 2}', '{"approvalQuorum":
		1}', 'ann', 'key', now(),
		now() + interval '7 days') ON CONFLICT DO NOTHING`,
}

// middle is a customer whose rows are in the middle of the lists.
func (s *Set) middle() int { return s.conf.Customers/2/300*300 + 51 }

// flaggedID is a deposit that was flagged.
func (s *Set) flaggedID() string { return population.ID("dep", s.middle()/300*300+1) }

// heldID is a withdrawal that waits for approval.
func (s *Set) heldID() string { return population.ID("wd", s.middle()/300*300+2) }

// invoiceID is an invoice with the fees of some customers in the middle.
func (s *Set) invoiceID() string { return population.ID("inv", s.middle()/20*20+3) }

// values returns what stands for the parameters of the path of a page.
func (s *Set) values(path string) map[string]string {
	n := s.middle()
	values := map[string]string{
		"depositId": population.ID("dep", n), "withdrawalId": population.ID("wd", n),
		"transferId": population.ID("tr", n), "customerId": population.Customer(n), "product": "CUSTODIAL",
		"productId": population.ID("prod", n), "checkoutId": population.ID("co", n),
		"linkId": population.ID("plink", n), "refundId": population.ID("ref", n), "mintId": "1",
		"endpointId": population.Endpoint, "eventId": population.ID("evt", n), "keyId": apikey.MainID,
		"jobId": jobID, "memberId": s.member.ID, "changeId": changeID, "organizationId": s.conf.OrgID,
		"walletId": treasuryID, "freezeId": population.ID("frz", n/300*300), "orderId": population.ID("wd", n),
		"swapId": s.swap().ID(), "provider": swapProvider,
		"batchId": s.batchID, "row": "1", "invoiceId": s.invoiceID(), "creditNoteId": noteID,
		"approverKeyId": passkeyID, "whitelistedAddressId": addressID,
		"changeRequestId": requestID, "setting": "screeningUsdThreshold",
	}
	switch path {
	case "/approvals/deposits/{depositId}", "/flagged/{depositId}":
		values["depositId"] = s.flaggedID()
	case "/unmatched-payments/{depositId}":
		values["depositId"] = population.ID("dep", n/20*20) // every twentieth is unmatched
	case "/swap-arrivals/{depositId}":
		values["depositId"] = s.strayID
	case "/organization-swaps/{swapId}":
		values["swapId"] = s.ownSwap().ID()
	case "/approvals/withdrawals/{withdrawalId}":
		values["withdrawalId"] = s.heldID()
	}
	return values
}

// queries are what a page needs in its query.
func (s *Set) queries(path string) string {
	switch path {
	case "/gas/{walletId}":
		return "mintId=2"
	case "/balances/{product}/{mintId}/transfer":
		return "to=CHECKOUT&amount=0.0001"
	}
	return ""
}

// Visit is a request for a page.
type Visit struct {
	Page pages.Page
	Path string // with its query
}

// Unvisited are the pages that a person with an open session does not see, and why.
var Unvisited = map[string]string{
	"/withdraw/{product}/{mintId}/confirm": "needs an address that the signer endorsed; it reads what the form " +
		"before it and the preview of the interface read",
	"/organization-swaps/confirm": "needs an address that the signer endorsed and the offer of a provider; it reads " +
		"what the form before it reads",
	"/deposit-swaps/{depositSwapId}": "needs an address that a provider signed; it reads one row, its entries of the " +
		"log and at most twenty deposits, each by its id",
	"/sign-in":                "leads to the first page",
	"/sign-in/factor":         "leads to the first page",
	"/sign-in/device":         "needs a mailed link",
	"/sign-in/device/{token}": "needs a mailed link",
	"/sign-in/authenticator":  "needs a session that has no factor yet",
	"/sign-in/organization":   "needs a person of two organizations",
	"/invitation":             "needs a mailed link",
	"/invitation/{token}":     "needs a mailed link",
}

// Name names the visit by the path of its page and its query.
func (v Visit) Name() string {
	name := v.Page.Path
	if _, query, ok := strings.Cut(v.Path, "?"); ok {
		name += "?" + query
	}
	return name
}

// IsOfTransactions reports whether the visit is a search, or a list of transactions of one kind with one
// filter at most.
func (v Visit) IsOfTransactions() bool {
	return v.Page.Path == "/transactions/search" || v.Page.Path == "/transactions"
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// ListVisits returns a visit of each page of the table. It is an error if a page has a parameter without a
// value here.
func (f *Surface) ListVisits() ([]Visit, error) {
	var visits []Visit
	for _, p := range f.Pages {
		if Unvisited[p.Path] != "" {
			continue
		}
		values := f.set.values(p.Path)
		if f.Prefix == console.Prefix {
			values["approverKeyId"] = operatorPasskeyID
		}
		var missing []string
		path := placeholder.ReplaceAllStringFunc(p.Path, func(name string) string {
			value := values[strings.Trim(name, "{}")]
			if value == "" {
				missing = append(missing, name)
			}
			return url.PathEscape(value)
		})
		if len(missing) > 0 {
			return nil, fmt.Errorf("the page %s%s has no value for %s", f.Prefix, p.Path, strings.Join(missing, ", "))
		}
		path = cmp.Or(strings.TrimSuffix(f.Prefix+path, "/"), "/")
		if query := f.set.queries(p.Path); query != "" {
			path += "?" + query
		}
		visits = append(visits, Visit{Page: p, Path: path})
	}
	return visits, nil
}

// ListFiltered returns a visit of each page with each of its parameters and each value that one may have.
func (f *Surface) ListFiltered() (visits []Visit, err error) {
	plain, err := f.ListVisits()
	if err != nil {
		return nil, err
	}
	n := f.set.middle()
	values := map[string][]string{
		"customerId": {population.Customer(n)}, "mintId": {"1", "2"}, "txHash": {population.Hash('d', n)},
		"address": {population.Address(n)}, "reference": {"monthly"}, "from": {"2026-01-01"}, "to": {"2026-01-01"},
		"q": {
			population.Customer(n), population.Hash('d', n), population.Hash('e', n), population.Address(n), "monthly",
			"0xexchange", "unknown",
		},
		"search": {"crowd_1", population.Customer(n)}, "before": {"1500"}, "resourceId": {population.Customer(n)},
		"resource": {population.Customer(n)}, "action": {"customer.created", "none"},
		"organizationId": {f.set.conf.OrgID}, "eventId": {population.ID("evt", n)}, "email": {"a@example.test"},
		"idempotencyKey": {"pages", "unknown"}, "provider": {swapProvider},
		"checkoutId": {population.ID("co", n)}, "name": {"House"}, "status": {"QUEUED", "STUCK"}, "chain": {"ETHEREUM"},
		"walletId": {"adr_crowd_treasury"}, "month": {"2026-01", "2026-06"},
		"scope": {"CUSTOMER", "CHAIN"}, "source": {"OPERATOR", "VERIFY"}, "rows": {"1", "6"}, "unreadable": {"1"},
	}
	for _, v := range plain {
		if v.Page.Path == "/transactions" { // Each kind is a list of its own.
			plain = append(plain, Visit{v.Page, v.Path + "?kind=WITHDRAWAL"}, Visit{v.Page, v.Path + "?kind=TRANSFER"})
		}
	}
	var missing []string
	for _, v := range plain {
		for _, p := range v.Page.Query {
			words := values[p.Name]
			switch {
			case p.Name == pages.CursorParameter.Name || p.Name == pages.NextParameter.Name ||
				strings.Contains(v.Path, p.Name+"=") || isForm(v.Page.Path):
				continue
			case p.Kind == kernel.WordParameter:
				words = p.Enum
			case p.Kind == kernel.FlagParameter:
				words = []string{"true"}
			}
			if words == nil {
				missing = append(missing, v.Page.Path+"?"+p.Name)
			}
			for _, word := range words {
				separator := "?"
				if strings.Contains(v.Path, "?") {
					separator = "&"
				}
				visits = append(visits, Visit{
					Page: v.Page, Path: v.Path + separator + p.Name + "=" + url.QueryEscape(word),
				})
			}
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("these parameters have no value: %s", strings.Join(missing, ", "))
	}
	return visits, nil
}

// isForm reports whether the parameters of a page fill in its form and select nothing, or name a few rows that it reads
// as their own pages do.
func isForm(path string) bool {
	return strings.HasPrefix(path, "/withdraw/") || strings.HasPrefix(path, "/balances/{product}") ||
		path == "/organization-swaps/new" || path == "/gas/{walletId}" || path == "/approvals/several"
}

// NewRequest makes a request of the person of the surface.
func (f *Surface) NewRequest(ctx context.Context, base, path string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return nil, err
	}
	r.Host = f.Host
	r.Header.Set("Cookie", f.Cookie)
	return r, nil
}
