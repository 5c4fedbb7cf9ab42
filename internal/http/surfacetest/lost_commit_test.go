package surfacetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/http/api"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/operatorapi"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/testing/part"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// process is the two interfaces of one process, and what the program's commands call, with their
// own connections to the database.
type process struct {
	*queue
	org, desk *testEnv
	pay       *withdrawal.Service
	ann       member.Member
	owner     *pgxpool.Pool
}

// subject is what one call is about. Each call has its own.
type subject struct {
	name       string // its customer and its idempotency key
	withdrawal string
	deposit    string
	freeze     string
	swap       string
	arrival    string // at a wallet of the swap
	checkout   string
	refund     string // of the checkout
	batch      reply  // the answer that made it
	stray      string // an unmatched payment
}

// moving are the calls that move money or let it move, by interface and name: those of the two
// documents, and what commands call that no document has. internal/cli has the commands.
var moving = map[string]struct {
	prepare func(p *process, s *subject) // by a process that loses no answer
	call    func(p *process, s *subject) reply
	// finds says that the call itself looks for what it has written when its COMMIT gets no answer.
	// It then answers with that as soon as it is visible.
	finds bool
	// half is a state between before and after that the service completes by itself.
	half string
}{
	"organizations createWithdrawal": {
		prepare: (*process).funds, finds: true,
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/withdraw", payment("customerId", s.name, "idempotencyKey", s.name))
		},
	},
	"organizations createWithdrawal that waits": {
		prepare: (*process).funds, finds: true,
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/withdraw",
				payment("customerId", s.name, "idempotencyKey", s.name, "requireApproval", true))
		},
	},
	"organizations cancelWithdrawal that waits for people": {
		prepare: func(p *process, s *subject) { p.withdraws(s, "requireApproval", true) },
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/withdrawals/"+s.withdrawal+"/cancel", nil)
		},
	},
	"organizations cancelWithdrawal": {
		prepare: func(p *process, s *subject) {
			p.withdraws(s)
			if _, err := p.owner.Exec(
				p.t.Context(), `UPDATE dispatch_orders SET waiting_for = $2 WHERE order_id = $1`, s.withdrawal,
				dispatch.WaitProviders,
			); err != nil {
				p.t.Fatal(err)
			}
		},
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/withdrawals/"+s.withdrawal+"/cancel", nil)
		},
		half: "withdrawals [PROCESSING], orders [PAYMENT WITHDRAWN]",
	},
	"organizations createTransfer": {
		prepare: (*process).funds, finds: true,
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/transfers", map[string]any{
				"mintId": usdc, "amount": "700", "from": map[string]any{"customerId": s.name},
				"to": map[string]any{"customerId": "carol"}, "idempotencyKey": s.name,
			})
		},
	},
	"organizations createTransfer of a product": {
		prepare: (*process).fundsProduct, finds: true,
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/transfers", map[string]any{
				"mintId": usdc, "amount": "700", "from": map[string]any{"product": "CHECKOUT"},
				"to": map[string]any{"product": "BATCH_PAYOUT"}, "idempotencyKey": s.name,
			})
		},
	},
	"organizations createCustomerSwap": {
		prepare: (*process).fundsSwap, finds: true,
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/customer-swap", swapBody(s.name, "customerId", s.name))
		},
	},
	"organizations createRefund": {
		prepare: (*process).paysCheckout,
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/checkouts/"+s.checkout+"/refunds", refundBody(s.name))
		},
	},
	"organizations createRefund to an address": {
		prepare: (*process).paysCheckout,
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/checkouts/"+s.checkout+"/refunds",
				refundBody(s.name, "toAddress", stranger))
		},
	},
	"organizations refundUnmatchedPayment": {
		prepare: func(p *process, s *subject) { s.stray = p.strayPayment(p.one, s.name, 60_000_000) },
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/unmatched-payments/"+s.stray+"/refund",
				map[string]any{"idempotencyKey": s.name})
		},
	},
	"organizations cancelRefund": {
		prepare: func(p *process, s *subject) {
			p.paysCheckout(s)
			s.refund = p.makeRefund(p.one, s.checkout, s.name).text("refundId")
		},
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/refunds/"+s.refund+"/cancel", nil)
		},
	},
	"organizations submitBatchPayout": {
		prepare: func(p *process, s *subject) {
			p.fundsBatch(s)
			s.batch = p.makeBatch(p.one, s.name)
		},
		call: func(p *process, s *subject) reply { return p.org.submitBatch(p.one, s.batch) },
	},
	"organizations resumeBatchPayout": {
		prepare: func(p *process, s *subject) {
			p.fundsBatch(s)
			s.batch = p.makeBatch(p.one, s.name)
			p.wantStatus(p.submitBatch(p.one, s.batch), 202)
			p.approveBatch(p.one, s.batch.text("batchPayoutId"))
			p.wantStatus(p.call(p.one, "POST", "/batch-payouts/"+s.batch.text("batchPayoutId")+"/pause", nil), 200)
		},
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/batch-payouts/"+s.batch.text("batchPayoutId")+"/resume", nil)
		},
	},
	"organizations cancelBatchPayout": {
		prepare: func(p *process, s *subject) {
			p.fundsBatch(s)
			s.batch = p.makeBatch(p.one, s.name)
			p.wantStatus(p.submitBatch(p.one, s.batch), 202)
		},
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/batch-payouts/"+s.batch.text("batchPayoutId")+"/cancel", nil)
		},
	},
	"organizations createDepositSwap": {
		prepare: (*process).fundsSwap, finds: true,
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/deposit-swap", depositSwapBody(s.name, "customerId", s.name))
		},
	},
	"organizations createOrganizationSwap": {
		prepare: (*process).fundsProductSwap, finds: true,
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/organization-swap", ownSwapBody(s.name))
		},
	},
	"organizations restoreCustomerSwap": {
		prepare: func(p *process, s *subject) {
			p.fundsSwap(s)
			s.swap = p.makeSwap(p.one, s.name, "customerId", s.name)
			p.fail(s.swap, "400000")
		},
		call: func(p *process, s *subject) reply {
			return p.org.call(p.one, "POST", "/customer-swap/"+s.swap+"/restore", nil)
		},
	},
	"organizations approveDeposit": {prepare: (*process).flags, call: decides("approve", "")},
	"organizations rejectDeposit":  {prepare: (*process).flags, call: decides("reject", "")},
	"operators approveDeposit":     {prepare: (*process).flags, call: decides("approve", "operator")},
	"operators rejectDeposit":      {prepare: (*process).flags, call: decides("reject", "operator")},
	"operators redirectDeposit":    {prepare: (*process).flags, call: decides("redirect", "operator")},
	"operators completeDeposit":    {prepare: (*process).sticks, call: decides("complete", "operator")},
	"organizations freezeCustomer": {prepare: (*process).funds, call: freezes("freeze")},
	"organizations unfreezeCustomer": {
		prepare: func(p *process, s *subject) {
			p.funds(s)
			p.wantStatus(p.call(p.one, "POST", "/customers/"+s.name+"/freeze", nil), 200)
		},
		call: freezes("unfreeze"),
	},
	"operators createFreeze": {
		prepare: (*process).funds,
		call: func(p *process, s *subject) reply {
			return p.desk.call(p.queue.ann, "POST", "/freezes", map[string]any{
				"scope": "CUSTOMER", "organizationId": p.one.id, "customerId": s.name, "reason": "a test",
			})
		},
	},
	"operators liftFreeze": {
		prepare: func(p *process, s *subject) {
			p.funds(s)
			s.freeze = p.queue.desk.wantStatus(p.queue.desk.call(p.queue.ann, "POST", "/freezes", map[string]any{
				"scope": "CUSTOMER", "organizationId": p.one.id, "customerId": s.name, "reason": "a test",
			}), 201).text("freezeId")
		},
		call: func(p *process, s *subject) reply {
			return p.desk.call(p.queue.ann, "DELETE", "/freezes/"+s.freeze, nil)
		},
	},
	"operators failSwap": {
		prepare: func(p *process, s *subject) {
			p.fundsSwap(s)
			s.swap = p.makeSwap(p.one, s.name, "customerId", s.name)
			p.paySwap(s.swap)
		},
		call: func(p *process, s *subject) reply {
			return p.desk.call(p.queue.ann, "POST", "/swaps/"+s.swap+"/fail", swapNote)
		},
	},
	"operators writeOffSwap": {
		prepare: func(p *process, s *subject) {
			p.fundsSwap(s)
			s.swap = p.claim(p.one, s.name, "customerId", s.name)
		},
		call: func(p *process, s *subject) reply {
			return p.desk.call(p.queue.ann, "POST", "/swaps/"+s.swap+"/write-off", swapNote)
		},
	},
	"operators decideSwapArrival": {
		prepare: func(p *process, s *subject) {
			p.fundsSwap(s)
			s.swap = p.claim(p.one, s.name, "customerId", s.name)
			s.arrival = p.stray(s.swap)
		},
		call: func(p *process, s *subject) reply {
			return p.desk.call(p.queue.ann, "POST", "/swap-arrivals/"+s.arrival+"/decide",
				map[string]any{"decision": "KEPT", "note": "case 9"})
		},
	},
	"commands withdrawals approve": {
		prepare: func(p *process, s *subject) { p.withdraws(s, "requireApproval", true) },
		call: func(p *process, s *subject) reply {
			return p.says(p.pay.Approve(p.t.Context(), p.one.id, s.withdrawal, audit.User(p.ann.ID)))
		},
	},
	"commands withdrawals remove": {
		prepare: func(p *process, s *subject) { p.withdraws(s, "requireApproval", true) },
		call: func(p *process, s *subject) reply {
			return p.says(p.pay.Remove(p.t.Context(), p.one.id, s.withdrawal, audit.User(p.ann.ID), "no"))
		},
	},
	"commands withdrawals organization": {
		prepare: (*process).fundsProduct, finds: true,
		call: func(p *process, s *subject) reply {
			w, _, err := p.pay.RequestOrganization(p.t.Context(), p.ann, withdrawal.OrganizationRequest{
				Product: "CHECKOUT", MintID: usdc, WhitelistedAddressID: vault, Amount: "400", IdempotencyKey: &s.name,
			})
			return p.says(w, err)
		},
	},
}

// unmoving are the writes that move no money and let none move.
var unmoving = []string{
	"organizations createBatchPayout", "organizations retryBatchPayout", "organizations pauseBatchPayout",
	"organizations createDepositAddress", "organizations createOrganizationDepositAddress",
	"organizations estimateWithdrawal", "organizations previewWithdrawal", "organizations updateCustomer",
	"organizations quoteCustomerSwap", "organizations quoteDepositSwap", "organizations quoteOrganizationSwap",
	"organizations createWebhookEndpoint", "organizations updateWebhookEndpoint", "organizations rotateWebhookSecret",
	"organizations testWebhookEndpoint", "organizations recoverWebhookEndpoint", "organizations resendEvent",
	"organizations deleteWebhookEndpoint",
	"organizations createProduct", "organizations updateProduct", "organizations archiveProduct",
	"organizations createPaymentLink", "organizations updatePaymentLink", "organizations pausePaymentLink",
	"organizations resumePaymentLink", "organizations endPaymentLink",
	"organizations unarchiveProduct", "organizations createCheckout", "organizations openCheckoutOption",
	"organizations cancelCheckout", "organizations acceptCheckout", "organizations replaceClaimKey",
	"organizations assignUnmatchedPayment",
	"organizations createApiKey", "organizations rollApiKey", "organizations deleteApiKey",
	"operators revokeOrganizationApiKey",
	"operators createOrganization", "operators rollApiKey", "operators changeSettings",
	"operators approveChangeRequest",
	"operators withdrawChangeRequest", "operators rescreenDeposit", "operators addWhitelistedAddress",
	"operators removeWhitelistedAddress",
	"operators setLocalRisk", "operators clearLocalRisk", "operators lookAtSwap", "operators suspendSwapProvider",
	"operators resumeSwapProvider", "operators runBilling", "operators markInvoicePaid", "operators creditInvoice",
	"operators setBillingTerms", "operators setOrganizationBillingTerms", "operators addPriceMark",
}

// Rules IDEM-7, TR-6. A call that moves money and gets no answer to one of its COMMITs says what it
// can prove: that it is done, or that it does not know and is to be repeated. It never says that
// nothing happened, whether what it wrote is visible, not visible yet or cannot be read. A
// repetition takes effect once.
func TestACallWhoseCommitIsUnknownNeverSaysThatNothingHappened(t *testing.T) {
	t.Parallel()
	for face, s := range map[string]*kernel.Surface{"organizations": organizations, "operators": operators} {
		for _, r := range s.Routes {
			name, moves := face+" "+r.Name, false
			for verb := range moving {
				moves = moves || verb == name || strings.HasPrefix(verb, name+" ")
			}
			if reads := r.Method == http.MethodGet; moves == (reads || slices.Contains(unmoving, name)) {
				t.Errorf(
					"%s: it stands in moving: %v; a write that moves money stands there, every other one in unmoving",
					name, moves,
				)
			}
		}
	}
	// Lost answers are waited for, so several worlds each play a part of the calls.
	const worlds = 4
	parts := make([][]string, worlds)
	for i, name := range part.OfToday(t, slices.Sorted(maps.Keys(moving)), 3) {
		parts[i%worlds] = append(parts[i%worlds], name)
	}
	for i, names := range parts {
		t.Run(fmt.Sprintf("world %d", i+1), func(t *testing.T) {
			t.Parallel()
			loseCommits(t, names)
		})
	}
}

// loseCommits plays the calls of these names in a world of their own, each with every COMMIT of it lost.
func loseCommits(t *testing.T, names []string) {
	t.Helper()
	q := newQueue(t, 0)
	q.setting(q.one, "flaggedDepositApiEnabled", true)
	q.openSwaps(q.one)
	q.conf.Withdrawals.Whitelist = onlyVault{}
	proxy := &pgtest.Proxy{}
	d := pgtest.DatabaseOf(t, q.db)
	d.URL = proxy.Start(t, d.URL)
	direct := q.process(q.db)
	torn := q.process(pgtest.Open(t, d, time.Now))
	// The use of a key is noted once a minute, which would be another COMMIT of some calls.
	if noted, err := direct.owner.Exec(
		t.Context(), `UPDATE api_key_uses SET last_used_at = 'infinity' WHERE org_id = $1`, q.one.id,
	); err != nil || noted.RowsAffected() != 1 {
		t.Fatal(noted, err)
	}
	for nth, name := range names {
		verb := moving[name]
		t.Run(name, func(t *testing.T) {
			for _, h := range []*testEnv{q.testEnv, q.desk, direct.org, direct.desk, torn.org, torn.desk} {
				h.t = t
			}
			var done string // the state after the call
			try := func(l pgtest.Loss) (lost bool) {
				t.Helper()
				s := &subject{name: fmt.Sprintf("%d-%d-%d-%v", nth, l.Action, l.Nth, l.KeepDown)}
				verb.prepare(direct, s)
				before := direct.state(s)
				proxy.LoseNext(l)
				got := verb.call(torn, s)
				lost = proxy.HasLost()
				seen := direct.state(s)
				proxy.Restore()
				settled := seen
				if l.Action == pgtest.CommitHeld {
					settled = direct.state(s)
				} else if lost {
					// The server may still be processing what it received.
					pgtest.Eventually(t, func() bool { settled = direct.state(s); return direct.idle() },
						"the server ends what it received")
				}
				if done == "" {
					done = settled
				}
				if before == done {
					t.Fatalf("the call changed nothing that the test looks at: got %v %s and %s", got.status, got.raw,
						done)
				}
				if settled != before && settled != done && (verb.half == "" || !strings.Contains(settled, verb.half)) {
					t.Errorf("%+v: got %s, want it done or not", l, settled)
				}
				words := got.text("error")
				switch {
				case got.status < 300:
					if settled != done {
						t.Errorf("%+v: got %v %s, and it is not done: %s", l, got.status, got.raw, settled)
					}
				case !lost:
					t.Errorf("nothing was lost: got %v %s, want it done", got.status, got.raw)
				case got.status == 503 && strings.Contains(words, "is being cancelled"):
					if settled == before {
						t.Errorf("%+v: got %s, and it is not taken back", l, got.raw)
					}
				case got.status == 503:
					if settled != before {
						t.Errorf("%+v: got %s, and something happened: %s", l, got.raw, settled)
					}
				case got.status != 500 || got.body["retryable"] != true ||
					!strings.Contains(words, "not known whether"):
					t.Errorf("%+v: got %v %s, want it done or unknown", l, got.status, got.raw)
				case verb.finds && !l.KeepDown && seen == done:
					t.Errorf("%+v: got %s, and what it wrote could be seen", l, got.raw)
				}
				// The turn of a request that could not end it is over later.
				if _, err := direct.owner.Exec(t.Context(), `UPDATE swap_turns SET ends_at = now()`); err != nil {
					t.Fatal(err)
				}
				// A caller that repeats it, in a process that loses no answer, has it once.
				again := verb.call(direct, s)
				if again.status >= 300 && (again.status != 409 || again.text("code") != "INVALID_STATE") {
					t.Errorf("%+v, repeated: got %v %s, want it done or the state that it has", l, again.status,
						again.raw)
				}
				if after := direct.state(s); after != done {
					t.Errorf("%+v, repeated: got %s, want %s", l, after, done)
				}
				return lost
			}
			if try(pgtest.Loss{}) {
				t.Fatal("a COMMIT was lost that was to pass")
			}
			const commitsMax = 50
			commits, first := 0, pgtest.Loss{Action: pgtest.AnswerLost, KeepDown: true}
			for first.Nth = 1; try(first); first.Nth++ {
				if commits++; commits == commitsMax {
					t.Fatal("it commits without end")
				}
			}
			if commits == 0 {
				t.Error("it has no COMMIT that could be lost")
			}
			for _, l := range []pgtest.Loss{
				// What it wrote is visible, or cannot be read.
				{Action: pgtest.AnswerLost},
				{Action: pgtest.CommitLost, KeepDown: true}, // it never arrives
				{Action: pgtest.CommitLost},
				{Action: pgtest.CommitHeld, KeepDown: true}, // it arrives later
				{Action: pgtest.CommitHeld},
				{Action: pgtest.AnswerHeard, KeepDown: true}, // the statement after it fails
			} {
				for l.Nth = 1; l.Nth <= commits && try(l); l.Nth++ {
				}
				if l.Nth == 1 || l.KeepDown && l.Nth <= commits {
					t.Errorf("%+v: nothing was lost, want each of %d COMMITs lost", l, commits)
				}
			}
		})
	}
}

// process starts another process on the same database.
func (q *queue) process(db *pg.DB) *process {
	q.t.Helper()
	p := &process{queue: q, owner: pgtest.OwnerPool(q.t, q.db)}
	conf := q.conf
	book := wallet.New(db, q.signer, q.attest)
	conf.DB, conf.Wallets, conf.Transfers = db, book, transfer.New(db, wire.NewRecorder())
	conf.Deposits = &deposit.Service{
		Events: wire.NewRecorder(),
		DB:     db, Chains: conf.Chains, Wallets: book, Owners: depositOwners(), Log: newLogger(q.logs),
	}
	pay := *q.conf.Withdrawals
	pay.DB, pay.Wallets = db, book
	pay.Voider = &dispatch.Voider{
		DB: db, Signer: q.signer, Listeners: map[signer.Purpose]dispatch.VoidListener{signer.Payment: &pay},
		Log: newLogger(q.logs),
	}
	conf.Withdrawals, p.pay, conf.Swaps = &pay, &pay, q.newSwaps(db, book, conf.Chains)
	conf.DepositSwaps = q.newDepositSwaps(db, book, conf.Chains, conf.Swaps)
	conf.Payouts = service.NewPayouts(db, conf.Chains, &pay, nil, newLogger(q.logs))
	conf.Checkouts = &checkout.Service{
		DB: db, Images: imageOfOnePoint{}, Wallets: book, Chains: conf.Chains, ClaimURL: q.conf.Checkouts.ClaimURL,
		PaymentStatuses: q.conf.Checkouts.PaymentStatuses, Events: q.conf.Checkouts.Events, Log: q.conf.Checkouts.Log,
	}
	listener := func(face *kernel.Surface, handler http.Handler) *testEnv {
		h := *q.testEnv
		h.t, h.face, h.fails, h.conf = q.t, face, true, conf
		h.server = httptest.NewServer(handler)
		q.t.Cleanup(h.server.Close)
		return &h
	}
	p.org = listener(organizations, api.New(conf))
	p.desk = listener(operators, operatorapi.New(operatorapi.Config{
		DB: db, Chains: conf.Chains, Withdrawals: conf.Withdrawals, Deposits: conf.Deposits, Rescreens: q.rescreens,
		Whitelist:       q.white,
		Swaps:           conf.Swaps,
		DepositSwaps:    conf.DepositSwaps,
		Billing:         newBilling(db),
		AllowedPrefixes: here, CursorKey: conf.CursorKey, BaseURL: "http://127.0.0.1/v1", LocalRisk: true,
		Log: newLogger(q.logs),
	}))
	err := q.db.InSystem(q.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if p.ann, err = member.ByEmail(ctx, tx, "ann@example.com"); err == nil {
			return nil
		}
		p.ann, err = member.Add(ctx, tx, audit.Operator("test"), q.one.id, "ann@example.com", "Ann", identity.Owner)
		return err
	})
	if err != nil {
		q.t.Fatal(err)
	}
	return p
}

// says returns what the interface would answer to the error of a command.
func (p *process) says(w withdrawal.Withdrawal, err error) reply {
	p.t.Helper()
	recorder := newRecorder()
	r := httptest.NewRequestWithContext(p.t.Context(), http.MethodPost, "/v1/says", nil)
	answering(p.db, io.Discard, kernel.Route{
		Method: http.MethodPost, Path: "/says", Handler: kernel.Handle(
			func(*kernel.Call[kernel.Caller]) (webhook.Withdrawal, error) { return wire.Withdrawal(w), err },
			webhook.Withdrawal{},
		),
	}).ServeHTTP(recorder, r)
	out := reply{status: recorder.Code, raw: recorder.Body.Bytes()}
	if err := json.Unmarshal(out.raw, &out.body); err != nil {
		p.t.Fatal(err)
	}
	return out
}

// funds gives the subject's customer money.
func (p *process) funds(s *subject) { p.deposit(p.one, s.name, 1000) }

// fundsBatch gives BATCH_PAYOUT what a batch of two rows pays.
func (p *process) fundsBatch(s *subject) {
	p.deposit(p.one, s.name, 3000)
	p.wantStatus(p.call(p.one, "POST", "/transfers", map[string]any{
		"mintId": usdc, "amount": "3000", "from": map[string]any{"customerId": s.name},
		"to": map[string]any{"product": "BATCH_PAYOUT"}, "idempotencyKey": "batch-" + s.name,
	}), 201)
}

// fundsProductSwap lets the organization swap money of its own.
func (p *process) fundsProductSwap(s *subject) {
	p.fundsSwap(s)
	p.queue.change(p.one, org.Changes{"organizationSwapsEnabled": []byte("true")})
	p.wantStatus(p.call(p.one, "POST", "/transfers", map[string]any{
		"mintId": dai, "amount": "2000000", "from": map[string]any{"customerId": s.name},
		"to": map[string]any{"product": "CUSTODIAL"}, "idempotencyKey": "own-" + s.name,
	}), 201)
}

// fundsSwap gives the subject's customer what can be swapped.
func (p *process) fundsSwap(s *subject) {
	p.funds(s)
	p.fund(p.one, s.name, 5_000_000)
}

// paysCheckout pays a checkout of the subject.
func (p *process) paysCheckout(s *subject) { s.checkout = p.paidCheckout(p.one, s.name, 60_000_000) }

// fundsProduct gives CHECKOUT money.
func (p *process) fundsProduct(s *subject) {
	p.wantStatus(p.call(
		p.one, "POST", "/transfers",
		charge("for-"+s.name, "amount", "1000", "to", map[string]any{"product": "CHECKOUT"}),
	), 201)
}

// withdraws requests a withdrawal of the subject's customer.
func (p *process) withdraws(s *subject, change ...any) {
	p.t.Helper()
	p.funds(s)
	s.withdrawal = p.wantStatus(p.call(
		p.one, "POST", "/withdraw",
		payment(append([]any{"customerId", s.name, "idempotencyKey", s.name}, change...)...),
	), 202).text("withdrawalId")
}

// flags creates a flagged deposit.
func (p *process) flags(s *subject) {
	p.t.Helper()
	p.pays()
	if err := p.owner.QueryRow(
		p.t.Context(), `SELECT deposit_id FROM deposits WHERE status = 'FLAGGED' ORDER BY deposit_id DESC LIMIT 1`,
	).Scan(&s.deposit); err != nil {
		p.t.Fatal(err)
	}
}

// sticks creates a deposit whose return failed on the chain.
func (p *process) sticks(s *subject) {
	p.t.Helper()
	p.flags(s)
	p.wantStatus(p.call(p.one, "POST", "/deposits/"+s.deposit+"/reject", nil), 202)
	tx, err := p.owner.Begin(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(p.t.Context())) }()
	for _, change := range []string{
		`SET LOCAL session_replication_role = replica`, // the triggers see that no chain has it
		`UPDATE dispatch_orders SET status = 'FAILED', tx_hash = 'hash', fee = 1, proof_id = (SELECT max(proof_id) FROM finality_proofs), broadcast_at = now(), ended_at = now()
			WHERE order_id = (SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $1)`,
		`UPDATE address_funds SET reserved = reserved - 1000000, held = held + 1000000 WHERE wallet_id = (SELECT wallet_id FROM deposits WHERE deposit_id = $1) AND mint_id = 1`,
		`UPDATE deposit_resolutions SET status = 'STUCK' WHERE deposit_id = $1`,
		`UPDATE deposits SET status = 'RESOLUTION_STUCK' WHERE deposit_id = $1`,
	} {
		var args []any
		if strings.Contains(change, "$1") {
			args = append(args, s.deposit)
		}
		if _, err := tx.Exec(p.t.Context(), change, args...); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := tx.Commit(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

func decides(verb, decider string) func(p *process, s *subject) reply {
	return func(p *process, s *subject) reply {
		var body any
		if verb == "redirect" {
			body = map[string]any{
				"toAddress": "0x2222222222222222222222222222222222222222",
				"reason":    "COMPLIANCE_HOLD", "reference": "case 1",
			}
		}
		if decider == "operator" {
			return p.desk.call(p.queue.ann, "POST", "/deposits/"+s.deposit+"/"+verb, body)
		}
		return p.org.call(p.one, "POST", "/deposits/"+s.deposit+"/"+verb, body)
	}
}

func freezes(verb string) func(p *process, s *subject) reply {
	return func(p *process, s *subject) reply {
		return p.org.call(p.one, "POST", "/customers/"+s.name+"/"+verb, nil)
	}
}

// idle reports whether no transaction of another process runs.
func (p *process) idle() (idle bool) {
	p.t.Helper()
	err := p.owner.QueryRow(p.t.Context(), `
		SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle' AND xact_start IS NOT NULL`).Scan(&idle)
	if err != nil {
		p.t.Fatal(err)
	}
	return idle
}

// state returns everything of a subject that a call may change, without ids.
func (p *process) state(s *subject) (text string) {
	p.t.Helper()
	err := p.owner.QueryRow(p.t.Context(), `
		WITH of AS (
			SELECT withdrawal_id AS id FROM withdrawals WHERE customer_id = $1 OR idempotency_key = $1
			UNION SELECT transfer_id FROM transfers WHERE idempotency_key = $1
			UNION SELECT swap_id || suffix FROM swaps, unnest(ARRAY['', '/1', '/2']) suffix
				WHERE customer_id = $1 OR idempotency_key = $1
			UNION SELECT refund_id FROM refunds WHERE idempotency_key = $1
			UNION SELECT batch_id FROM payout_batches WHERE idempotency_key = $1
			UNION SELECT batch_id || '/1' FROM payout_batches WHERE idempotency_key = $1
			UNION SELECT deposit_id FROM deposits WHERE deposit_id = $2
			UNION SELECT resolution_id FROM deposit_resolutions WHERE deposit_id = $2)
		SELECT format('batches [%s], refunds [%s], deposit swaps [%s], swaps [%s], arrivals [%s], withdrawals [%s], orders [%s], transfers %s, deposit %s, resolutions [%s], postings [%s], events [%s], decisions [%s], freezes %s',
			(SELECT string_agg(status || ' ' || (paused_at IS NOT NULL), ', ') FROM payout_batches
				WHERE idempotency_key = $1),
			(SELECT string_agg(status || ' ' || amount, ', ') FROM refunds WHERE idempotency_key = $1),
			(SELECT string_agg(status, ', ') FROM deposit_swaps WHERE customer_id = $1),
			(SELECT string_agg(status || ' ' || restored, ', ' ORDER BY swap_id) FROM swaps
				WHERE swap_id IN (TABLE of)),
			(SELECT string_agg(coalesce(decision, 'open'), ', ' ORDER BY deposit_id) FROM swap_arrivals
				WHERE swap_id IN (TABLE of)),
			(SELECT string_agg(status, ', ' ORDER BY withdrawal_id) FROM withdrawals WHERE withdrawal_id IN (TABLE of)),
			(SELECT string_agg(purpose || ' ' || status, ', ' ORDER BY order_id) FROM dispatch_orders WHERE order_id IN (TABLE of)),
			(SELECT count(*) FROM transfers WHERE transfer_id IN (TABLE of)),
			(SELECT status FROM deposits WHERE deposit_id = $2),
			(SELECT string_agg(decision || ' ' || status, ', ' ORDER BY resolution_id) FROM deposit_resolutions WHERE deposit_id = $2),
			(SELECT string_agg(cause_kind || ' ' || amount, ', ' ORDER BY cause_kind, amount) FROM ledger_transfers WHERE cause_id IN (TABLE of)),
			(SELECT string_agg(type, ', ' ORDER BY resource_id, resource_seq) FROM events WHERE resource_id IN (TABLE of)),
			(SELECT string_agg(act, ', ' ORDER BY act) FROM withdrawal_decisions WHERE withdrawal_id IN (TABLE of)),
			(SELECT count(*) FROM freezes WHERE customer_id = $1 AND lifted_at IS NULL))`,
		s.name, s.deposit).Scan(&text)
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}
