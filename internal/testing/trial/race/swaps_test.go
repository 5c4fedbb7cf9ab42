package race

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/remote"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/wallet"
)

// How much everyone has at the beginning: less than what all swaps together take.
const (
	swapFortune = 1_000_000_000
	coin        = 1_000_000_000_000_000_000
)

// swapDrainMax is within how many rounds every swap has to end after the race.
const swapDrainMax = 200

// swapSolver is the account of the provider, and the payer of deposit swaps.
var swapSolver = sim.Address("solver")

// swapRace is the process of the test: it reads and pays on the chain, and plays the provider.
type swapRace struct {
	*harness.Harness
	t       *testing.T
	task    swapTask
	db      *pg.DB
	net     *sim.Chain
	url     string
	org     string
	grants  *signer.GrantKey
	extra   atomic.Int64 // by how much the clock is ahead
	acted   map[chain.Address]bool
	paidFor map[string]bool // deposit swaps
	owner   *pgxpool.Pool
}

func (r *swapRace) clock() time.Time { return r.task.clock().Add(time.Duration(r.extra.Load())) }

func (r *swapRace) check(act string, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", act, err)
	}
}

// SWAP-R5 and I-60 to I-73 under contention. 64 workers in two processes request the same swaps of customers and
// of the organization, approve, reject and cancel them, follow them, restore refunds and decide about strays, while a
// third process pays the provider and reads what it delivers. Each key makes one swap, each swap has one end and one
// event of it, each payment is made once, and the books balance.
func TestSixtyFourWorkersOfTwoProcessesSwapOnce(t *testing.T) {
	t.Parallel()
	length := *forFlag
	if length == 0 {
		length = shortRace
	}
	r := newSwapRace(t)
	began := time.Now()
	forOthers := r.task
	forOthers.Ahead = time.Duration(r.extra.Load())
	tk := task{URL: r.url, Org: r.org, For: length, SwapRace: &forOthers}
	sum := result{Accepted: map[string]string{}, Decided: map[string]string{}, Resolved: map[string]string{}}
	ended := make(chan []result, 1)
	go func() { ended <- runBothProcesses(t, tk) }()
	var results []result
	for results == nil {
		r.turn()
		r.act()
		select {
		case results = <-ended:
		default:
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	for _, o := range results {
		sum.addResult(o)
	}
	raced := time.Since(began)
	rounds := r.drain()
	for _, w := range sum.Wrong {
		t.Error(w)
	}
	r.checkSwaps(sum)
	if *forFlag > 0 {
		r.report(sum, raced, rounds)
	}
}

// newSwapRace makes an organization whose customers and product have dollars and euros in the treasury.
func newSwapRace(t *testing.T) *swapRace {
	t.Helper()
	ctx := t.Context()
	r := &swapRace{
		t: t, net: sim.New(sim.Config{FinalityDepth: 1, BlockTime: 5 * time.Second}), acted: map[chain.Address]bool{},
		paidFor: map[string]bool{},
		task: swapTask{
			Socket: filepath.Join(t.TempDir(), "signer"), Provider: signertest.SwapProviderKey,
			GrantSeed: bytes.Repeat([]byte{7}, signer.GrantKeyBytes), Base: time.Now().UTC(),
		},
	}
	var err error
	r.grants, err = signer.NewGrantKey(r.task.GrantSeed)
	r.check("make the key of grants", err)
	sign, attest := signertest.OpenUnlimited(t, r.grants, r.clock)
	r.task.Attest = attest
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- remote.ServeSocket(serving, r.task.Socket, sign) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("serve the signer: %v", err)
		}
	})
	data := pgtest.NewDatabase(t)
	r.url, r.db = data.URL, pgtest.Open(t, data, r.clock)
	r.owner = pgtest.OwnerPool(t, r.db)
	r.Harness, err = openSwaps(r.task, 0, r.clock, r.db, r.net, sign)
	r.check("open the service", err)
	r.check("import the journal", journal.Import(ctx, r.db, sign, r.Wallets))
	first := mint.Mint{
		ID: dollars, Chain: signertest.Chain, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "DAI", Name: "Dollars", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true,
		MinDeposit: money.Units(10), MinWithdraw: money.Units(10), ConfirmationsRequired: 1, Finality: "FINALIZED",
	}
	second := first
	second.ID, second.Contract, second.Symbol, second.Name = euros, signertest.LimitedToken, "EURX", "Euros"
	native := first
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals = ether, mint.Native, "",
		"ETH", "Ether", 18
	r.check("sync the mints", mint.Sync(ctx, r.db, []mint.Mint{first, second, native}))
	made, _, err := org.Create(ctx, r.db, "Acme")
	r.check("create the organization", err)
	r.org = made.ID
	endorsement := signer.Endorsement{
		OrgID: r.org, ID: vaultID, Chain: chain.Ethereum, Address: vaultAddress, LabelHash: signer.HashLabel("vault"),
		NotBefore: signer.FormatMicros(time.Unix(1, 0)),
	}
	endorsement.MAC = r.grants.EndorsementMAC(endorsement)
	_, err = sign.EndorseAddress(ctx, endorsement)
	r.check("endorse the vault", err)
	r.check("set the organization up", r.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		r.task.People = nil
		for _, p := range []struct {
			name string
			role identity.Role
		}{{"fin", identity.Finance}, {"ben", identity.Approver}, {"cyd", identity.Approver}} {
			m, err := member.Add(ctx, tx, audit.Operator("op"), r.org, p.name+"@example.com", p.name, p.role)
			if err != nil {
				return err
			}
			r.task.People = append(r.task.People, m)
		}
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("op"), r.org, org.Changes{
			"customerSwapsEnabled": []byte("true"), "organizationSwapsEnabled": []byte("true"),
			"swappableMintIds": []byte("[1, 2]"), "swapFeeBps": []byte("25"),
			"twoFactorUsdThreshold": []byte(swapThreshold), "approvalQuorum": []byte(swapQuorum),
			"autoRestoreFailedSwaps": []byte("false"),
		})
		return err
	}))
	r.fund()
	return r
}

// fund pays everyone on the chain, and lets the treasury have it.
func (r *swapRace) fund() {
	r.t.Helper()
	ctx := r.t.Context()
	for _, contract := range []chain.Address{signertest.Token, signertest.LimitedToken} {
		r.net.Mint(swapSolver, contract, money.Units(1_000_000*uint64(swapFortune)))
	}
	r.net.Mint(swapSolver, "", money.Units(10*coin))
	treasury, err := r.Wallets.Treasury(ctx, r.org, chain.EVM)
	r.check("issue the treasury", err)
	r.net.Pay(swapSolver, treasury.Address, "", coin)
	refs := []signer.WalletRef{{
		OrgID: r.org, Family: chain.EVM, Purpose: wallet.OrganizationDeposit, Subject: swapProduct,
	}}
	for i := range swapCustomers {
		name := fmt.Sprintf("customer-%d", i)
		r.check("create a customer", r.db.InOrg(ctx, r.org, func(ctx context.Context, tx pg.Tx) error {
			_, _, err := customer.Ensure(ctx, tx, r.org, name, "")
			return err
		}))
		refs = append(refs, signertest.Deposit(r.org, name))
	}
	for _, ref := range refs {
		w, err := r.Wallets.Address(ctx, ref)
		r.check("issue an address", err)
		for _, contract := range []chain.Address{signertest.Token, signertest.LimitedToken} {
			r.net.Pay(swapSolver, w.Address, contract, swapFortune)
		}
	}
	want := money.Units(swapFortune * uint64(len(refs)))
	for range 100 {
		r.extra.Add(int64(10 * time.Second))
		r.turn()
		if !r.net.Balance(treasury.Address, signertest.Token).Less(want) &&
			!r.net.Balance(treasury.Address, signertest.LimitedToken).Less(want) {
			return
		}
	}
	r.t.Fatalf("the treasury has %v and %v, want %v: %v", r.net.Balance(treasury.Address, signertest.Token),
		r.net.Balance(treasury.Address, signertest.LimitedToken), want, r.texts(`
			SELECT purpose || ' ' || status || ' ' || coalesce(waiting_for, '') || ' ' || coalesce(last_error, '')
			FROM dispatch_orders UNION ALL SELECT 'deposit ' || status || ' ' || count(*) FROM deposits GROUP BY status
			UNION ALL SELECT 'sweep ' || status || ' ' || count(*) FROM sweeps GROUP BY status`))
}

// turn lets every part of this process work once, and mines a block.
func (r *swapRace) turn() {
	r.t.Helper()
	for _, step := range r.ListSteps(nil) {
		err := step.Run(r.t.Context())
		if err != nil && !isLockTimeout(err) {
			r.t.Errorf("%s: %v", step.Name, err)
		}
	}
	if lag := r.clock().Sub(r.net.Latest().Time); lag > 0 {
		r.net.SkipTime(lag)
	}
	r.net.Mine(1)
}

func (r *swapRace) rows(sql string, scan ...any) *rowsOf {
	return &rowsOf{r: r, sql: sql, targets: scan}
}

// rowsOf reads rows into the same targets, one after the other.
type rowsOf struct {
	r       *swapRace
	sql     string
	targets []any
}

func (o *rowsOf) each(do func()) {
	o.r.t.Helper()
	rows, err := o.r.owner.Query(o.r.t.Context(), o.sql)
	o.r.check("look", err)
	defer rows.Close()
	for rows.Next() {
		o.r.check("look", rows.Scan(o.targets...))
		do()
	}
	o.r.check("look", rows.Err())
}

func (r *swapRace) number(sql string, args ...any) (n int64) {
	r.t.Helper()
	if err := r.owner.QueryRow(r.t.Context(), sql, args...).Scan(&n); err != nil {
		r.t.Fatalf("%.80s: %v", strings.TrimSpace(sql), err)
	}
	return n
}

// act has the provider do what it plans with each payment that a block has, and pays for each deposit swap.
func (r *swapRace) act() {
	r.t.Helper()
	contracts := map[int]chain.Address{dollars: signertest.Token, euros: signertest.LimitedToken}
	pay := func(to chain.Address, mintID int, amount money.Amount) {
		r.net.SubmitTx(swapSolver, sim.Move{Contract: contracts[mintID], To: to, Amount: amount})
	}
	var deposit, delivery, refund chain.Address
	var from, to int
	var amountIn, out money.Amount
	r.rows(`
		SELECT s.deposit_address, d.address, r.address, s.from_mint_id, s.to_mint_id, s.amount_in, s.estimated_out
		FROM swaps s JOIN wallets d ON d.wallet_id = s.delivery_wallet_id
			JOIN wallets r ON r.wallet_id = s.refund_wallet_id WHERE s.deposit_address IS NOT NULL`,
		&deposit, &delivery, &refund, &from, &to, &amountIn, &out).each(func() {
		if r.acted[deposit] || r.net.Received(deposit, contracts[from]).Less(amountIn) {
			return
		}
		r.acted[deposit] = true
		switch planOf(deposit) {
		case solverDelivers:
			pay(delivery, to, out)
		case solverDeliversTwice:
			pay(delivery, to, out)
			pay(delivery, to, out)
		case solverDeliversInParts:
			half, err := out.Bps(5000)
			r.check("halve", err)
			pay(delivery, to, half)
			pay(delivery, to, money.SubOrZero(out, half))
		case solverRefunds:
			pay(refund, from, amountIn)
		case solverSendsOther:
			pay(delivery, from, money.Units(777))
			pay(delivery, to, out)
		}
	})
	var id string
	var receiver chain.Address
	var mintID int
	r.rows(`SELECT s.deposit_swap_id, w.address, s.to_mint_id, s.estimated_out FROM deposit_swaps s
		JOIN wallets w USING (wallet_id)`, &id, &receiver, &mintID, &out).each(func() {
		if r.paidFor[id] {
			return
		}
		r.paidFor[id] = true
		pay(receiver, mintID, out)
		pay(receiver, mintID, out) // and a second payment
	})
}

// openSwapWork selects what is still under way, by kind; it is empty when nothing is.
const openSwapWork = `
	SELECT coalesce(string_agg(kind || ' ' || n, ', '), '') FROM (
		SELECT 'order ' || status AS kind, count(*) AS n FROM dispatch_orders
			WHERE status NOT IN ('PAID', 'FAILED', 'WITHDRAWN', 'REFUSED') GROUP BY status
		UNION ALL SELECT 'withdrawal ' || status, count(*) FROM withdrawals
			WHERE status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST') GROUP BY status
		UNION ALL SELECT 'deposit ' || status, count(*) FROM deposits
			WHERE status IN ('DETECTED', 'CONFIRMING', 'SCREENING') GROUP BY status
		UNION ALL SELECT 'swap ' || status, count(*) FROM swaps WHERE status NOT IN
			('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED') OR refunded > restored GROUP BY status
		UNION ALL SELECT 'deposit swap ' || status, count(*) FROM deposit_swaps
			WHERE status <> 'COMPLETED' GROUP BY status
		UNION ALL SELECT 'stray', count(*) FROM swap_arrivals WHERE role = 'STRAY' AND decision IS NULL
		UNION ALL SELECT 'sweep', count(*) FROM sweeps WHERE status = 'OPEN'
		UNION ALL SELECT 'event', count(*) FROM events WHERE sequence IS NULL
	) AS open WHERE n > 0`

// drain lets everything end. It returns within how many rounds.
func (r *swapRace) drain() int {
	r.t.Helper()
	ctx := r.t.Context()
	// Another swap may have taken the output of a delivered one out of the product, whose payout waits for the balance.
	product, err := r.Wallets.Address(ctx, signer.WalletRef{
		OrgID: r.org, Family: chain.EVM, Purpose: wallet.OrganizationDeposit, Subject: swapProduct,
	})
	r.check("find the address of the product", err)
	for _, contract := range []chain.Address{signertest.Token, signertest.LimitedToken} {
		r.net.Pay(swapSolver, product.Address, contract, swapFortune)
	}
	var left string
	for round := range swapDrainMax {
		for _, id := range r.texts(`SELECT swap_id FROM swaps WHERE status = 'AWAITING_APPROVAL'`) {
			_, err := r.Swaps.CancelOrganization(ctx, r.org, id, r.task.People[0])
			r.check("cancel "+id, err)
		}
		for _, id := range r.texts(`SELECT swap_id FROM swaps WHERE status = 'FAILED' AND refunded > restored`) {
			_, err := r.Swaps.Restore(ctx, r.org, id, audit.APIKey(r.org))
			r.check("restore "+id, err)
		}
		for _, id := range r.texts(`SELECT deposit_id FROM swap_arrivals WHERE role = 'STRAY' AND decision IS NULL`) {
			_, err := r.Swaps.DecideArrival(ctx, id, swap.CreditArrival, "by the race", audit.Operator("op"))
			r.check("credit "+id, err)
		}
		for _, id := range r.texts(`SELECT withdrawal_id FROM withdrawals WHERE status = 'AWAITING_APPROVAL'`) {
			for _, person := range r.task.People[1:] {
				_, err := r.Withdrawals.Approve(ctx, r.org, id, person.Actor())
				if err != nil && fault.Find(err) == nil {
					r.check("approve "+id, err)
				}
			}
		}
		if len(r.texts(`SELECT provider FROM swap_providers WHERE state = 'SUSPENDED'`)) > 0 {
			err := r.Swaps.ResumeProvider(ctx, signertest.SwapProvider, "by the race", audit.Operator("op"))
			if err != nil && fault.Find(err) == nil {
				r.check("resume the provider", err)
			}
		}
		r.act()
		r.extra.Add(int64(time.Minute))
		r.turn()
		_, err := r.Swaps.Follow(ctx)
		r.check("follow", err)
		_, err = r.Swaps.CollectOwed(ctx)
		r.check("collect what is owed", err)
		r.check("look", r.owner.QueryRow(ctx, openSwapWork).Scan(&left))
		if left == "" && len(r.net.Mempool()) == 0 {
			return round + 1
		}
	}
	for _, row := range r.texts(`
		SELECT to_jsonb(s)::text || (
			SELECT coalesce(string_agg(to_jsonb(d)::text || coalesce(to_jsonb(a)::text, ''), ' '), '')
			FROM deposits d LEFT JOIN swap_arrivals a USING (deposit_id) WHERE d.swap_id = s.swap_id)
		FROM swaps s WHERE status NOT IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED')`) {
		r.t.Log("is open:", row)
	}
	r.t.Fatalf("not everything has ended after %d rounds: %s", swapDrainMax, left)
	return 0
}

func (r *swapRace) texts(sql string) (found []string) {
	r.t.Helper()
	var text string
	r.rows(sql, &text).each(func() { found = append(found, text) })
	return found
}

// checkSwaps compares what the workers were told with the rows, the events, the chain and the books.
func (r *swapRace) checkSwaps(sum result) {
	r.t.Helper()
	t, ctx := r.t, r.t.Context()
	want := func(what string, got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %d, want %d", what, got, want)
		}
	}
	ids := slices.Sorted(maps.Values(sum.Accepted))
	want("swaps that a worker was told of", int64(len(slices.Compact(ids))), int64(len(sum.Accepted)))
	want("swaps and deposit swaps", r.number(`
		SELECT (SELECT count(*) FROM swaps) + (SELECT count(*) FROM deposit_swaps)`),
		int64(len(sum.Accepted)))
	want("swaps that no worker was told of", r.number(`
		SELECT (SELECT count(*) FROM swaps WHERE NOT swap_id = ANY ($1))
			+ (SELECT count(*) FROM deposit_swaps WHERE NOT deposit_swap_id = ANY ($1))`, ids), 0)
	for id, verdict := range sum.Decided {
		status := r.texts(`SELECT status FROM swaps WHERE swap_id = '` + id + `'`)[0]
		isEnded := status == decidedRejected || status == decidedCancelled
		if verdict == decidedApproved && isEnded || verdict != decidedApproved && status != verdict {
			t.Errorf("a worker was told that %s is %s, and it is %s", id, verdict, status)
		}
	}
	for id, verdict := range sum.Resolved {
		decision := r.texts(`SELECT decision FROM swap_arrivals WHERE deposit_id = '` + id + `'`)[0]
		if decision != verdict {
			t.Errorf("a worker was told that arrival %s is %s, and it is %s", id, verdict, decision)
		}
	}
	want("swaps that have not exactly the one event of their end", r.number(`
		SELECT count(*) FROM swaps s WHERE
			(SELECT count(*) FROM events WHERE resource_id = s.swap_id AND type = s.kind || '_SWAP_FAILED')
				<> (s.status = 'FAILED')::int
			OR s.kind = 'ORGANIZATION' AND (SELECT count(*) FROM events WHERE resource_id = s.swap_id
				AND type = 'ORGANIZATION_SWAP_COMPLETED') <> (s.status = 'COMPLETED')::int
			OR s.kind = 'CUSTOMER' AND (SELECT count(*) FROM events v JOIN deposits d ON v.resource_id = d.deposit_id
				WHERE d.swap_id = s.swap_id AND d.completes_swap AND v.type = 'CUSTOMER_DEPOSIT')
				<> (s.status = 'COMPLETED')::int`), 0)
	want("deposits that have not exactly one event", r.number(`
		SELECT count(*) FROM deposits d WHERE d.deposit_swap_id IS NOT NULL AND
			(SELECT count(*) FROM events WHERE resource_id = d.deposit_id AND type = 'CUSTOMER_DEPOSIT') <> 1`), 0)
	want("deposits of deposit swaps", r.number(`SELECT count(*) FROM deposits WHERE deposit_swap_id IS NOT NULL`),
		2*r.number(`SELECT count(*) FROM deposit_swaps`))
	want("fee lines", r.number(`SELECT count(*) FROM fee_lines WHERE kind = 'SWAP_FEE'`),
		r.number(`SELECT count(*) FROM swaps WHERE kind = 'CUSTOMER' AND status = 'COMPLETED'`))
	want("payouts of one swap that are more than one", r.number(`
		SELECT count(*) FROM (SELECT FROM withdrawals GROUP BY idempotency_key HAVING count(*) > 1) w`), 0)
	want("swaps of the organization that are paid to the vault", r.number(`
		SELECT count(*) FROM withdrawals WHERE status = 'COMPLETED'`), r.number(`
		SELECT count(*) FROM swaps WHERE kind = 'ORGANIZATION' AND status = 'COMPLETED'`))
	var deposit chain.Address
	var from int
	var amountIn money.Amount
	var isPaid bool
	contracts := map[int]chain.Address{dollars: signertest.Token, euros: signertest.LimitedToken}
	r.rows(`SELECT deposit_address, from_mint_id, amount_in, paid_at IS NOT NULL FROM swaps
		WHERE deposit_address IS NOT NULL`, &deposit, &from, &amountIn, &isPaid).each(func() {
		paid := r.net.Received(deposit, contracts[from])
		if isPaid && paid != amountIn || !isPaid && !paid.IsZero() {
			t.Errorf("the provider got %v at %s, of %v, and it counts as paid: %v", paid, deposit, amountIn, isPaid)
		}
	})
	for _, mintID := range []int{dollars, euros} {
		got := r.net.Received(vaultAddress, contracts[mintID])
		paid := r.texts(fmt.Sprintf(`SELECT coalesce(sum(amount_out), 0)::text FROM swaps
			WHERE kind = 'ORGANIZATION' AND status = 'COMPLETED' AND to_mint_id = %d`, mintID))
		if paid[0] != got.String() {
			t.Errorf("the vault got %v of mint %d, and the swaps brought %s", got, mintID, paid[0])
		}
	}
	want("deadlocks", sum.Deadlocks+r.db.Counts().Deadlocks, 0)
	verifyQuote := func(_ string, _ signedquote.Scheme, raw []byte) (signedquote.Quote, error) {
		return (&solverProvider{swapTask: r.task}).VerifyQuote(raw)
	}
	books, err := verify.RunChecks(ctx, r.db, verify.WithGrants(r.grants), verify.WithQuotes(verifyQuote),
		verify.WithoutSchema)
	r.check("verify", err)
	onChain, err := verify.CompareWithChains(ctx, r.db, r.Chains)
	r.check("verify on the chain", err)
	for _, report := range []verify.Report{books, onChain} {
		if !report.IsIntact() {
			var b bytes.Buffer
			_, _ = report.WriteTo(&b)
			t.Errorf("the books: %s", b.String())
		}
	}
	paid := r.number(`SELECT count(*) FROM swaps WHERE paid_at IS NOT NULL`)
	if len(sum.Accepted) == 0 || sum.Looks == 0 || paid == 0 {
		t.Errorf("some workers did nothing: %s", encodeJSON(sum))
	}
}

// report prints the figures.
func (r *swapRace) report(sum result, raced time.Duration, rounds int) {
	fmt.Printf("race: swaps of two processes, %d workers each, for %v, and %d rounds to their end\n", workers,
		raced.Round(time.Second), rounds)
	for _, row := range []struct {
		name string
		n    any
	}{
		{"requests", sum.Requests},
		{"  keys", len(sum.Accepted)},
		{"  refused now", sum.Conflicts},
		{"  swaps of customers", r.number(`SELECT count(*) FROM swaps WHERE kind = 'CUSTOMER'`)},
		{"  swaps of the organization", r.number(`SELECT count(*) FROM swaps WHERE kind = 'ORGANIZATION'`)},
		{"  deposit swaps", r.number(`SELECT count(*) FROM deposit_swaps`)},
		{"payments to the provider", r.number(`SELECT count(*) FROM swaps WHERE paid_at IS NOT NULL`)},
		{"completed", r.number(`SELECT count(*) FROM swaps WHERE status = 'COMPLETED'`)},
		{"failed", r.number(`SELECT count(*) FROM swaps WHERE status = 'FAILED'`)},
		{"  restored", r.number(`SELECT count(*) FROM swaps WHERE restored > 0`)},
		{"swaps decided by people", len(sum.Decided)},
		{"  too late", sum.DecisionsLate},
		{"strays decided", len(sum.Resolved)},
		{"looks and settlements", sum.Ends},
		{"snapshots looked at", sum.Looks},
		{"waits for a lock given up", sum.Vain},
		{"deadlocks", sum.Deadlocks},
		{"breaches", len(sum.Wrong)},
	} {
		fmt.Printf("  %-32s %12v\n", row.name, row.n)
	}
}
