package transfer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

const (
	usdc = 1
	eth  = 2
)

// testEnv is the service on a database of its own, with two organizations.
type testEnv struct {
	t       testing.TB
	db      *pg.DB
	owner   *pgxpool.Pool
	service *transfer.Service
	one     string
	two     string
}

// numberingRecorder is the recorder that the service gives to transfers.
func numberingRecorder() event.Recorder {
	r := wire.NewRecorder()
	r.Environment = webhook.Test
	return r
}

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	db := pgtest.New(t)
	h := &testEnv{t: t, db: db, owner: pgtest.OwnerPool(t, db), service: transfer.New(db, numberingRecorder())}
	token := mint.Mint{
		ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: "0x1", Symbol: "USDC",
		Name:     "USD Coin",
		Decimals: 6, MinDeposit: money.Units(1), MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = eth, mint.Native, "", "ETH", "Ether", 18
	if err := mint.Sync(t.Context(), db, []mint.Mint{token, coin}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []*string{&h.one, &h.two} {
		made, _, err := org.Create(t.Context(), db, "house")
		if err != nil {
			t.Fatal(err)
		}
		*id = made.ID
	}
	return h
}

func customer(id string) transfer.Party  { return transfer.Party{CustomerID: &id} }
func product(name string) transfer.Party { return transfer.Party{Product: &name} }

func (h *testEnv) partyAccount(org string, p transfer.Party) ledger.Account {
	if p.CustomerID != nil {
		return ledger.Account{OrgID: org, MintID: usdc, Kind: ledger.Customer, Subject: *p.CustomerID}
	}
	return ledger.Account{OrgID: org, MintID: usdc, Kind: ledger.Product, Subject: *p.Product}
}

// fundParty gives a party an amount, as a deposit would.
func (h *testEnv) fundParty(org string, p transfer.Party, n uint64) {
	h.t.Helper()
	post := ledgertest.PostWithCauses
	if p.Product != nil {
		// Only a transfer gives a product a balance, and the tests start from this one.
		post = ledger.Post
		h.insertCauses("DISABLE")
		defer h.insertCauses("ENABLE")
	}
	err := h.db.InOrg(h.t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		if p.CustomerID != nil {
			if err := h.makeCustomer(ctx, tx, org, *p.CustomerID); err != nil {
				return err
			}
		}
		return post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Deposit, ID: fmt.Sprint("dep_", org, h.partyAccount(org, p))},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: org, MintID: usdc, Kind: ledger.Custody},
				Credit: h.partyAccount(org, p), Amount: money.Units(n),
			}},
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// insertCauses enables or disables the trigger that looks up the causes of postings.
func (h *testEnv) insertCauses(what string) {
	h.t.Helper()
	if _, err := h.owner.Exec(
		h.t.Context(), `ALTER TABLE ledger_transfers `+what+` TRIGGER ledger_transfers_of_cause`,
	); err != nil {
		h.t.Fatal(err)
	}
}

func (h *testEnv) makeCustomer(ctx context.Context, tx pg.Tx, org, id string) error {
	_, err := tx.Exec(
		ctx,
		`INSERT INTO customers (org_id, customer_id, created_at, updated_at) VALUES ($1, $2, $3, $3) ON CONFLICT DO NOTHING`,
		org, id, tx.Now,
	)
	return err
}

func newRequest(key string, from, to transfer.Party, amount string) transfer.Request {
	return transfer.Request{
		MintID: usdc, Amount: amount, From: from, To: to, IdempotencyKey: key, Actor: audit.System("test"),
	}
}

func (h *testEnv) requestTransfer(r transfer.Request) (transfer.Outcome, error) {
	return h.service.Request(h.t.Context(), h.one, r)
}

func (h *testEnv) mustTransfer(r transfer.Request) transfer.Outcome {
	h.t.Helper()
	out, err := h.requestTransfer(r)
	if err != nil {
		h.t.Fatalf("transfer %s: %v", r.IdempotencyKey, err)
	}
	return out
}

func (h *testEnv) wantFault(r transfer.Request, code fault.Code, param string) {
	h.t.Helper()
	_, err := h.requestTransfer(r)
	if f := fault.Find(err); f == nil || f.Code != code || f.Param != param {
		h.t.Errorf("key %q: got %v, want %v on %q", r.IdempotencyKey, err, code, param)
	}
}

func (h *testEnv) wantBalance(org string, p transfer.Party, want uint64) {
	h.t.Helper()
	err := h.db.ReadOrg(h.t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Balance(ctx, tx, h.partyAccount(org, p))
		if err == nil && got != money.Units(want) {
			h.t.Errorf("%v: got %v, want %v", h.partyAccount(org, p), got, want)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// wantTransfers checks the counts of everything that a transfer writes: rows, postings, events and
// audit entries are as many as the transfers.
func (h *testEnv) wantTransfers(want int) {
	h.t.Helper()
	var rows, postings, events, entries int
	err := h.owner.QueryRow(h.t.Context(), `
		SELECT (SELECT count(*) FROM transfers), (SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'TRANSFER'),
			(SELECT count(*) FROM events WHERE type = 'TRANSFER_COMPLETED'), (SELECT count(*) FROM audit_log WHERE action = 'transfer.made')`).
		Scan(&rows, &postings, &events, &entries)
	if err != nil {
		h.t.Fatal(err)
	}
	if rows != want || postings != want || events != want || entries != want {
		h.t.Errorf(
			"got %d rows, %d postings, %d events, %d audit entries, want %d of each", rows, postings, events,
			entries, want,
		)
	}
	h.wantNumbers()
}

// wantNumbers checks that no event waits for the sequencer, that the numbers have no gap, and that each
// body says its own. Rule EVT-17.
func (h *testEnv) wantNumbers() {
	h.t.Helper()
	rows, err := h.owner.Query(h.t.Context(), `
		SELECT concat_ws(' ', org_id, 'has', count(*), 'events,', count(sequence), 'numbers up to', max(sequence),
			'and the counter at', min(last))
		FROM events LEFT JOIN event_sequences USING (org_id) GROUP BY org_id
		HAVING (count(sequence), max(sequence), min(last)) IS DISTINCT FROM (count(*), count(*), count(*))
			OR bool_or(convert_from(body, 'UTF8')::jsonb ->> 'sequence' IS DISTINCT FROM sequence::text)
			OR bool_or(convert_from(body, 'UTF8')::jsonb ->> 'id' IS DISTINCT FROM event_id)`)
	if err != nil {
		h.t.Fatal(err)
	}
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		h.t.Fatal(err)
	}
	for _, w := range wrong {
		h.t.Error(w)
	}
}

func (h *testEnv) wantNoDeadlock(dbs ...*pg.DB) {
	h.t.Helper()
	for _, db := range append(dbs, h.db) {
		if n := db.Counts().Deadlocks; n != 0 {
			h.t.Errorf("got %d deadlocks, want 0", n)
		}
	}
}
