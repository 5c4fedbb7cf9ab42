package deposit_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// The addresses that were issued are listed with every mint that arrives at them, and only if the proof
// holds. Nothing is issued. Rules DEP-24 and PAGE-18.
func TestIssuedAddressesOfProductsAreListedAndNoneIsIssued(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	newMint := func(id int, name chain.Name, contract chain.Address, isOpen bool) mint.Mint {
		m := mint.Mint{
			ID: id, Chain: name, Network: chain.Local, Kind: mint.Token, Contract: contract, Symbol: "T", Name: "Token",
			Decimals: 6, DepositEnabled: isOpen, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
			Finality: "FINALIZED",
		}
		if contract == "" {
			m.Kind = mint.Native
		}
		return m
	}
	const base, closed, elsewhere = 11, 12, 13
	err := mint.Sync(t.Context(), db, []mint.Mint{
		newMint(eth, chain.Ethereum, "", true), newMint(base, chain.Base, "", true),
		newMint(closed, chain.Ethereum, usdcAt, false), newMint(elsewhere, chain.Polygon, "", true),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, attest := signertest.New(t)
	book := wallet.New(db, s, attest)
	if err := journal.Import(t.Context(), db, s, book); err != nil {
		t.Fatal(err)
	}
	chains := chain.Chains{}
	for _, name := range []chain.Name{chain.Ethereum, chain.Base} { // Polygon does not run here
		chains[name] = chain.Chain{
			Name: name, Network: chain.Local, AddressCodec: evmtx.AddressCodec{ChainID: signertest.ChainID},
		}
	}
	one, _, err := org.Create(t.Context(), db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := org.Create(t.Context(), db, "Other")
	if err != nil {
		t.Fatal(err)
	}
	list := func(who string) (found []deposit.ProductAddress, err error) {
		err = db.ReadOrg(t.Context(), who, func(ctx context.Context, tx pg.Tx) (err error) {
			found, err = deposit.ListProductAddresses(ctx, tx, book, chains, who)
			return err
		})
		return found, err
	}
	if found, err := list(one.ID); err != nil || len(found) != 0 {
		t.Errorf("got %v %v before one was issued, want none", found, err)
	}
	counter := &deposit.AddressService{DB: db, Wallets: book, Chains: chains}
	issued, err := counter.IssueForProduct(t.Context(), one.ID, eth, "CHECKOUT")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := counter.IssueForCustomer(t.Context(), one.ID, eth, "CUSTODIAL", ""); err != nil {
		t.Fatal(err)
	}
	found, err := list(one.ID)
	if err != nil || len(found) != 3 {
		t.Fatalf("got %+v %v, want the address for three mints", found, err)
	}
	for i, want := range []struct {
		mintID int
		isOpen bool
	}{{eth, true}, {base, true}, {closed, false}} {
		if a := found[i]; a.Mint.ID != want.mintID || a.IsOpen != want.isOpen || a.Product != "CHECKOUT" ||
			a.Address != issued.Address {
			t.Errorf("got %+v, want %s for mint %d, open: %v", a, issued.Address, want.mintID, want.isOpen)
		}
	}
	if found[0].PaymentURI != issued.PaymentURI {
		t.Errorf("got %q, want %q", found[0].PaymentURI, issued.PaymentURI)
	}
	if found, err := list(two.ID); err != nil || len(found) != 0 {
		t.Errorf("got %v %v, want none of another organization", found, err)
	}
	// An address that the signer did not attest is not shown.
	_, err = pgtest.OwnerPool(t, db).Exec(t.Context(), `
		UPDATE wallets SET proof = decode(repeat('00', 64), 'hex') WHERE purpose = 'ORGANIZATION_DEPOSIT'`)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := list(one.ID); !errors.Is(err, wallet.ErrProof) {
		t.Errorf("got %v %v, want the proof that does not hold", found, err)
	}
}

// Rule DEP-24.
func TestAProductHasOneProvenAddressOnAChain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	err := mint.Sync(t.Context(), db, []mint.Mint{
		{
			ID: eth, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Native, Symbol: "ETH", Name: "Ether",
			Decimals: 18, DepositEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
			Finality: "FINALIZED",
		},
		{
			ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: usdcAt, Symbol: "USDC",
			Name: "USD Coin", Decimals: 6, DepositEnabled: true, MinDeposit: money.Units(1),
			MinWithdraw: money.Units(1), Finality: "FINALIZED",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, attest := signertest.New(t)
	book := wallet.New(db, s, attest)
	if err := journal.Import(t.Context(), db, s, book); err != nil {
		t.Fatal(err)
	}
	counter := &deposit.AddressService{DB: db, Wallets: book, Chains: chain.Chains{chain.Ethereum: {
		Name: chain.Ethereum, Network: chain.Local, AddressCodec: evmtx.AddressCodec{ChainID: signertest.ChainID},
	}}}
	given := map[chain.Address]string{}
	var first string
	for range 2 {
		o, _, err := org.Create(t.Context(), db, "Acme")
		if err != nil {
			t.Fatal(err)
		}
		first = o.ID
		for _, product := range ledger.Products {
			token, err := counter.IssueForProduct(t.Context(), o.ID, usdc, product)
			if err != nil {
				t.Fatal(err)
			}
			coin, err := counter.IssueForProduct(t.Context(), o.ID, eth, product)
			if err != nil || coin.Address != token.Address || coin.PaymentURI == token.PaymentURI {
				t.Errorf("%s: got %+v and %+v %v, want one address", product, token, coin, err)
			}
			if whose := given[token.Address]; whose != "" {
				t.Errorf("%s of %s has the address of %s", product, o.ID, whose)
			}
			given[token.Address] = product + " of " + o.ID
		}
		// A customer with the name of a product has another address.
		customers, err := counter.IssueForCustomer(t.Context(), o.ID, usdc, "CUSTODIAL", "")
		if err != nil || given[customers.Address] != "" {
			t.Errorf("customer CUSTODIAL: got %v %v, want an address of its own", customers.Address, err)
		}
	}
	for _, wrong := range []string{"", "custodial", "SAVINGS", "CUSTODIAL ", "CHECKOUT\x00"} {
		if _, err := counter.IssueForProduct(
			t.Context(), first, usdc, wrong,
		); !fault.HasCode(err, fault.InvalidRequest) {
			t.Errorf("%q: got %v, want it refused", wrong, err)
		}
	}
	if _, err := counter.IssueForProduct(t.Context(), first, 99, "CHECKOUT"); !fault.HasCode(err, fault.MintNotFound) {
		t.Errorf("got %v, want no such mint", err)
	}
	// Write access to the rows is not enough to redirect deposits.
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(),
		`UPDATE wallets SET address = $1 WHERE purpose = 'ORGANIZATION_DEPOSIT' AND subject = 'CHECKOUT' AND org_id = $2`,
		string(sim.Address("mallory")), first); err != nil {
		t.Fatal(err)
	}
	if got, err := counter.IssueForProduct(t.Context(), first, usdc, "CHECKOUT"); err == nil {
		t.Errorf("got %v after its row was changed, want an error", got.Address)
	}
}

// Rules DEP-24 and DEP-25.
func TestWhatReachesAProductsAddressIsTheOrganizationsOwn(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.SubmitTx(payer, moveTo(checkout, 300), moveTo(checkout, 3), moveTo(alice, 40))
	w.c.Mine(1)
	w.walkBlocks(t)
	pending := func() (found []deposit.ProductAmount) {
		t.Helper()
		err := w.db.ReadOrg(t.Context(), w.org, func(ctx context.Context, tx pg.Tx) (err error) {
			found, err = deposit.PendingByProduct(ctx, tx, w.org)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if got, want := pending(), []deposit.ProductAmount{
		{Product: "CHECKOUT", MintID: usdc, Amount: money.Units(300)},
	}; !slices.Equal(got, want) {
		t.Errorf("pending: got %v, want %v", got, want)
	}
	w.c.Mine(3)
	w.walkBlocks(t)
	if got := pending(); len(got) != 0 {
		t.Errorf("pending: got %v, want nothing", got)
	}
	if got := w.loadBalance(t, ledger.Product, "CHECKOUT", usdc); got != money.Units(300) {
		t.Errorf("CHECKOUT: got %v, want 300", got)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(40) {
		t.Errorf("alice: got %v, want 40", got)
	}
	if f := w.loadFunds(t, "adr_checkout", usdc); f.Credited != money.Units(300) || f.Dust != money.Units(3) {
		t.Errorf("on the address: got %+v, want 300 and 3 of dust", f)
	}
	own := w.listDeposits(t, deposit.Filter{Product: "CHECKOUT", Status: "CREDITED"})
	if len(own) != 1 || own[0].CustomerID != nil || own[0].CustomerEmail != nil || *own[0].Product != "CHECKOUT" ||
		own[0].Amount != "300" {
		t.Fatalf("got %+v, want the organization's deposit", own)
	}
	if n := len(w.listDeposits(t, deposit.Filter{CustomerID: "alice"})); n != 1 {
		t.Errorf("got %d of alice's, want one", n)
	}
	if n := w.countEvents(t, "CUSTOMER_DEPOSIT"); n != 1 {
		t.Errorf("got %d events of customers, want alice's alone", n)
	}
	var data []byte
	var customerID *string
	err := pgtest.OwnerPool(t, w.db).QueryRow(
		t.Context(), `SELECT data, customer_id FROM events WHERE type = 'ORGANIZATION_DEPOSIT'`,
	).Scan(&data, &customerID)
	if err != nil {
		t.Fatalf("read the event: %v", err)
	}
	var told webhook.Deposit
	if err := json.Unmarshal(data, &told); err != nil || told.DepositID != own[0].DepositID ||
		told.CustomerID != nil || customerID != nil || *told.Product != "CHECKOUT" {
		t.Errorf("event: got %s of customer %v, %v, want the deposit as it is shown", data, customerID, err)
	}
	w.checkBooks(t)
}

// Rules DEP-4 and DEP-25, enforced by the tables alone.
func TestTheTablesKeepWhoseADepositIs(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, checkout, usdcAt, 100)
	w.c.Mine(4)
	w.wantWaiting(t)
	fresh := w.onlyDeposit(t).DepositID
	for name, c := range map[string]struct{ sql, constraint string }{
		"another product's": {
			`UPDATE deposits SET product = 'BATCH_PAYOUT' WHERE deposit_id = $1`,
			"deposits_identity_fixed",
		},
		"nobody's": {
			`UPDATE deposits SET product = NULL WHERE deposit_id = $1`,
			"deposits_identity_fixed",
		},
		"a customer's as well": {
			`UPDATE deposits SET customer_id = 'alice' WHERE deposit_id = $1`,
			"deposits_identity_fixed",
		},
		"a customer's": {
			`UPDATE deposits SET purpose = 'CUSTOMER_DEPOSIT' WHERE deposit_id = $1`,
			"deposits_final_fixed",
		},
		"of a product there is not": {
			`INSERT INTO deposits SELECT (jsonb_populate_record(d, '{"deposit_id": "dep_2", "tx_hash": "x", "product": "SAVINGS"}')).* FROM deposits d WHERE deposit_id = $1`,
			"deposits_product",
		},
		"a product's with no name": {
			`INSERT INTO deposits SELECT (jsonb_populate_record(d, '{"deposit_id": "dep_2", "tx_hash": "x", "product": null}')).* FROM deposits d WHERE deposit_id = $1`,
			"deposits_product",
		},
		"a customer's and product's": {
			`INSERT INTO deposits SELECT (jsonb_populate_record(d, '{"deposit_id": "dep_2", "tx_hash": "x", "customer_id": "alice"}')).* FROM deposits d WHERE deposit_id = $1`,
			"deposits_subject",
		},
	} {
		if _, err := pgtest.OwnerPool(t, w.db).Exec(
			t.Context(), c.sql, fresh,
		); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, c.constraint)
		}
	}
	if _, err := pgtest.OwnerPool(t, w.db).Exec(
		t.Context(), `UPDATE wallets SET subject = 'SAVINGS' WHERE wallet_id = 'adr_checkout'`,
	); !pg.ViolatesConstraint(err, "wallets_purpose_known") {
		t.Errorf("got %v, want no wallet of a product that there is not", err)
	}
	// Its credit can only be posted to its product.
	for _, to := range []ledger.Account{
		{Kind: ledger.Customer, Subject: "alice"},
		{Kind: ledger.Customer, Subject: "CHECKOUT"},
		{Kind: ledger.Withdrawing, Subject: "CHECKOUT"},
		{Kind: ledger.Product, Subject: "CUSTODIAL"},
		{Kind: ledger.Suspense},
	} {
		to.OrgID, to.MintID = w.org, usdc
		err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			if _, err := tx.Exec(
				ctx, `UPDATE deposits SET status = 'CREDITED', credited_at = now() WHERE deposit_id = $1`, fresh,
			); err != nil {
				return err
			}
			return ledger.Post(ctx, tx,
				ledger.Posting{Cause: ledger.Cause{Kind: ledger.Deposit, ID: fresh}, Legs: []ledger.Leg{{
					Debit: ledger.Account{OrgID: w.org, MintID: usdc, Kind: ledger.Custody}, Credit: to,
					Amount: money.Units(100),
				}}})
		})
		if !pg.ViolatesConstraint(err, "ledger_transfers_of_cause") {
			t.Errorf("%v: got %v, want a violation of ledger_transfers_of_cause", to, err)
		}
	}
	if n := w.creditAll(t); n != 1 {
		t.Errorf("got %d credited, want it", n)
	}
}

// Rules DEP-2 and DEP-25. A wallet row with another product is not the attested wallet.
func TestAProductsRowThatWasChangedIsNotCredited(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, checkout, usdcAt, 100)
	w.c.Mine(4)
	w.walkFinal(t)
	if _, err := pgtest.OwnerPool(t, w.db).Exec(
		t.Context(), `UPDATE wallets SET subject = 'BATCH_PAYOUT' WHERE wallet_id = 'adr_checkout'`,
	); err != nil {
		t.Fatal(err)
	}
	if n := w.creditAll(t); n != 0 {
		t.Errorf("got %d credited, want none", n)
	}
}

// Rules DEP-20, DEP-22, DEP-23 and DEP-26.
func TestAnOrganizationsDepositThatTheNewForkDoesNotHaveIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newReorgEnv(t)
	w.c.Pay(payer, checkout, usdcAt, 100)
	w.c.Mine(9)
	w.walkBlocks(t)
	w.transferToCustomer(t, "CHECKOUT", "alice", 30)
	w.c.Fork(9, w.c.BlockAt(1).Transfers[0].Tx)
	w.c.MineEmpty(10)
	w.partChain(t)
	w.wantFrozen(t, "FINALITY CHAIN ETHEREUM", "FINALITY ORGANIZATION")
	w.settleReorgs(t)
	w.wantFrozen(t, "FINALITY CHAIN ETHEREUM", "FINALITY ORGANIZATION")
	w.repointChain(t)
	w.walkFinal(t)
	w.settleReorgs(t)
	w.c.Pay(payer, checkout, usdcAt, 20)
	w.c.Mine(1)
	w.c.MineEmpty(12)
	w.walkFinal(t)
	w.settleReorgs(t)
	d := w.listDeposits(t, deposit.Filter{Status: "REVERSED"})
	if len(d) != 1 || d[0].Reversal.TakenBack != "70" || d[0].Reversal.Loss != "30" || *d[0].Product != "CHECKOUT" {
		t.Fatalf("got %+v, want it reversed, 70 of it taken", d)
	}
	if n, m := w.countEvents(t, "ORGANIZATION_DEPOSIT_REVERSED"),
		w.countEvents(t, "CUSTOMER_DEPOSIT_REVERSED"); n != 1 || m != 0 {
		t.Errorf("got %d events of the organization and %d of customers, want one and none", n, m)
	}
	w.wantLoss(t, usdc, 30)
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(30) {
		t.Errorf("alice: got %v, want 30 untouched", got)
	}
	w.liftFreezes(t)
	w.settleReorgs(t)
	w.wantFrozen(t, "FINALITY ORGANIZATION")
	// An arrival during the freeze is taken for the loss.
	w.creditAll(t)
	w.settleReorgs(t)
	w.settleReorgs(t)
	if got := w.loadBalance(t, ledger.Product, "CHECKOUT", usdc); !got.IsZero() {
		t.Errorf("CHECKOUT: got %v, want nothing yet", got)
	}
	w.wantLoss(t, usdc, 10)
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		for _, f := range all {
			if err == nil && f.Scope == freeze.ScopeOrganization {
				err = freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.c.Pay(payer, checkout, usdcAt, 50)
	w.c.Mine(4)
	w.walkBlocks(t)
	w.settleReorgs(t)
	if got := w.loadBalance(t, ledger.Product, "CHECKOUT", usdc); got != money.Units(50) {
		t.Errorf("CHECKOUT after the freeze was lifted: got %v, want 50", got)
	}
	w.wantLoss(t, usdc, 10)
}

// Rules DEP-21 and DEP-26.
func TestAnOrganizationIsReleasedWhenItsDepositIsFoundAgain(t *testing.T) {
	t.Parallel()
	w := newReorgEnv(t)
	w.c.Pay(payer, checkout, usdcAt, 100)
	w.c.Mine(9)
	w.walkBlocks(t)
	w.c.Fork(9)
	w.c.MineEmpty(2)
	w.c.Mine(10)
	w.partChain(t)
	w.wantFrozen(t, "FINALITY CHAIN ETHEREUM", "FINALITY ORGANIZATION")
	w.repointChain(t)
	w.walkFinal(t)
	w.settleReorgs(t)
	w.wantFrozen(t, "FINALITY CHAIN ETHEREUM")
	if got := w.loadBalance(t, ledger.Product, "CHECKOUT", usdc); got != money.Units(100) {
		t.Errorf("CHECKOUT: got %v, want 100", got)
	}
	if n := w.countEvents(t, "ORGANIZATION_DEPOSIT"); n != 1 {
		t.Errorf("got %d events, want one", n)
	}
	w.checkBooks(t)
}

// transferToCustomer moves USDC from a product to a customer, as a transfer does.
func (w *testEnv) transferToCustomer(t *testing.T, product, customer string, units uint64) {
	t.Helper()
	err := w.db.InOrg(t.Context(), w.org, func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `
			INSERT INTO transfers (transfer_id, org_id, idempotency_key, request_digest, mint_id, amount, from_product, to_customer, created_at)
			VALUES ('tr_1', $1, 'k', '', $2, $3, $4, $5, now())`,
			w.org, usdc, money.Units(units), product, customer); err != nil {
			return err
		}
		return ledger.Post(ctx, tx,
			ledger.Posting{Cause: ledger.Cause{Kind: ledger.Transfer, ID: "tr_1"}, Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: w.org, MintID: usdc, Kind: ledger.Product, Subject: product},
				Credit: ledger.Account{OrgID: w.org, MintID: usdc, Kind: ledger.Customer, Subject: customer},
				Amount: money.Units(units),
			}}})
	})
	if err != nil {
		t.Fatal(err)
	}
}
