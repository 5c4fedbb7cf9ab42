package ledger_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// newBooks opens a database with organizations and two mints.
func newBooks(t testing.TB, orgs ...string) *pg.DB {
	t.Helper()
	db := pgtest.New(t)
	token := mint.Mint{
		ID: 1, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: "0x1", Symbol: "USDC",
		Name:     "USD Coin",
		Decimals: 6, MinDeposit: money.Units(1), MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = 2, mint.Native, "", "ETH", "Ether", 18
	if err := mint.Sync(t.Context(), db, []mint.Mint{token, coin}); err != nil {
		t.Fatal(err)
	}
	for _, org := range orgs {
		if _, err := pgtest.OwnerPool(t, db).Exec(
			t.Context(), `INSERT INTO organizations VALUES ($1, $1, now())`, org,
		); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func customerAccount(org, id string) ledger.Account {
	return ledger.Account{OrgID: org, MintID: 1, Kind: ledger.Customer, Subject: id}
}

func withdrawingAccount(org, id string) ledger.Account {
	return ledger.Account{OrgID: org, MintID: 1, Kind: ledger.Withdrawing, Subject: id}
}

func custodyAccount(org string) ledger.Account {
	return ledger.Account{OrgID: org, MintID: 1, Kind: ledger.Custody}
}

func depositPosting(org, cust, id string, n uint64) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.Deposit, ID: id},
		Legs:  []ledger.Leg{{Debit: custodyAccount(org), Credit: customerAccount(org, cust), Amount: money.Units(n)}},
	}
}

func holdPosting(org, cust, id string, n uint64) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.WithdrawalHold, ID: id},
		Legs: []ledger.Leg{
			{Debit: customerAccount(org, cust), Credit: withdrawingAccount(org, cust), Amount: money.Units(n)},
		},
	}
}

func settlePosting(org, cust, id string, n uint64) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.WithdrawalEnd, ID: id},
		Legs: []ledger.Leg{
			{Debit: withdrawingAccount(org, cust), Credit: custodyAccount(org), Amount: money.Units(n)},
		},
	}
}

func releasePosting(org, cust, id string, n uint64) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.WithdrawalEnd, ID: id},
		Legs: []ledger.Leg{
			{Debit: withdrawingAccount(org, cust), Credit: customerAccount(org, cust), Amount: money.Units(n)},
		},
	}
}

func post(ctx context.Context, db *pg.DB, org string, p ...ledger.Posting) error {
	return db.InOrg(
		ctx, org, func(ctx context.Context, tx pg.Tx) error { return ledgertest.PostWithCauses(ctx, tx, p...) },
	)
}

func mustPost(t testing.TB, db *pg.DB, org string, p ...ledger.Posting) {
	t.Helper()
	if err := post(t.Context(), db, org, p...); err != nil {
		t.Fatal(err)
	}
}

func wantBalance(t testing.TB, db *pg.DB, a ledger.Account, want money.Amount) {
	t.Helper()
	err := db.ReadOrg(t.Context(), a.OrgID, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Balance(ctx, tx, a)
		if err == nil && got != want {
			t.Errorf("%v: got %v, want %v", a, got, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAWithdrawalIsHeldAndEndsOnce(t *testing.T) {
	t.Parallel()
	db := newBooks(t, "org_a")
	mustPost(t, db, "org_a", depositPosting("org_a", "ann", "dep_1", 100), depositPosting("org_a", "bob", "dep_2", 7))
	mustPost(t, db, "org_a", holdPosting("org_a", "ann", "wd_1", 60))
	wantBalance(t, db, customerAccount("org_a", "ann"), money.Units(40))
	wantBalance(t, db, withdrawingAccount("org_a", "ann"), money.Units(60))

	mustPost(t, db, "org_a", settlePosting("org_a", "ann", "wd_1", 60))
	for _, again := range []ledger.Posting{
		settlePosting("org_a", "ann", "wd_1", 60), releasePosting("org_a", "ann", "wd_1", 60),
		holdPosting("org_a", "ann", "wd_1", 1),
	} {
		if err := post(t.Context(), db, "org_a", again); !errors.Is(err, ledger.ErrPosted) &&
			!errors.Is(err, ledger.ErrOverdraft) {
			t.Errorf("%v again: got %v, want %v", again.Cause, err, ledger.ErrPosted)
		}
	}
	wantBalance(t, db, withdrawingAccount("org_a", "ann"), money.Zero)
	wantBalance(t, db, customerAccount("org_a", "ann"), money.Units(40))
	wantBalance(t, db, customerAccount("org_a", "bob"), money.Units(7))
	wantBalance(t, db, customerAccount("org_a", "nobody"), money.Zero)

	err := db.ReadOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
		owned, err := ledger.Sum(ctx, tx, custodyAccount("org_a"))
		if err != nil {
			return err
		}
		if owned.Int64() != -47 {
			t.Errorf("custody: got %v, want -47", owned)
		}
		all, err := ledger.CustomerBalances(ctx, tx, "org_a", "ann", "bob")
		if err != nil {
			return err
		}
		if len(all) != 3 || all[0].Balance != money.Units(40) || all[1].Balance != money.Zero ||
			all[2].Balance != money.Units(7) {
			t.Errorf("got %v, want ann's 40 and 0 and bob's 7", all)
		}
		var walked []ledger.Entry
		p := pagination.Page{Limit: 1}
		for {
			r, err := ledger.ListEntries(ctx, tx, "org_a", ledger.Filter{Subject: "ann"}, p)
			if err != nil {
				return err
			}
			walked = append(walked, r.Items...)
			if r.NextCursor == nil {
				break
			}
			p.Cursor = r.NextCursor
		}
		// The hold has an entry on both of ann's accounts.
		if len(walked) != 4 || walked[0].Cause.ID != "dep_1" || !walked[0].Credit ||
			walked[3].ContraAccount != custodyAccount("org_a") || walked[3].Credit {
			t.Errorf("got %+v, want a credit, the hold twice, and the settlement", walked)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPostRefusesOverdraft(t *testing.T) {
	t.Parallel()
	db := newBooks(t, "org_a")
	mustPost(t, db, "org_a", depositPosting("org_a", "ann", "dep_1", 100))
	if err := post(
		t.Context(), db, "org_a", holdPosting("org_a", "ann", "wd_1", 101),
	); !errors.Is(err, ledger.ErrOverdraft) {
		t.Errorf("got %v, want %v", err, ledger.ErrOverdraft)
	}
	wantBalance(t, db, customerAccount("org_a", "ann"), money.Units(100))
	wantBalance(t, db, withdrawingAccount("org_a", "ann"), money.Zero)
}
