package mint_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func usdc() mint.Mint {
	return mint.Mint{
		ID: 1, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: "0xA0", Symbol: "USDC",
		Name:     "USD Coin",
		Decimals: 6, LogoURL: "https://example.com/usdc.svg", DepositEnabled: true, WithdrawEnabled: true,
		MinDeposit: money.Units(1_000_000), MinWithdraw: money.Units(2_000_000), ConfirmationsRequired: 12,
		Finality: "FINALIZED",
	}
}

func ether() mint.Mint {
	m := usdc()
	m.ID, m.Kind, m.Contract, m.Symbol, m.Name, m.Decimals, m.LogoURL, m.DepositEnabled = 2, mint.Native, "", "ETH",
		"Ether", 18, "", false
	return m
}

func catalogue(t *testing.T, db *pg.DB) (c mint.Catalogue) {
	t.Helper()
	err := db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		c, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Rules MINT-1, MINT-2.
func TestWhatIsSyncedIsTheCatalogue(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if err := mint.Sync(t.Context(), db, []mint.Mint{ether(), usdc()}); err != nil {
		t.Fatal(err)
	}
	renamed := usdc()
	renamed.Name, renamed.MinDeposit = "USD Coin (local)",
		money.MustParse("115792089237316195423570985008687907853269984665640564039457584007913129639935")
	for range 2 {
		if err := mint.Sync(t.Context(), db, []mint.Mint{renamed}); err != nil {
			t.Fatal(err)
		}
	}
	c := catalogue(t, db)
	if got, ok := c.ByID(1); !ok || got != renamed {
		t.Errorf("got %+v, want %+v", got, renamed)
	}
	if got, ok := c.Native(chain.Ethereum); !ok || got != ether() {
		t.Errorf("got %+v, want %+v", got, ether())
	}
	if got, ok := c.ByContract(chain.Ethereum, "0xA0"); !ok || got != renamed {
		t.Errorf("got %+v, want %+v", got, renamed)
	}
	for _, absent := range []bool{
		func() bool { _, ok := c.ByID(3); return ok }(),
		func() bool { _, ok := c.ByContract(chain.Base, "0xA0"); return ok }(),
		func() bool { _, ok := c.ByContract(chain.Ethereum, "0xa0"); return ok }(),
		func() bool { _, ok := c.Native(chain.Base); return ok }(),
	} {
		if absent {
			t.Error("found a mint that is not there")
		}
	}
	yes := true
	if got := c.List(mint.Filter{DepositEnabled: &yes}); len(got) != 1 || got[0].ID != 1 {
		t.Errorf("got %+v, want USDC", got)
	}
	isCoin := func(m mint.Mint) bool { return m.Kind == mint.Native }
	if got := c.List(mint.Filter{Swappable: &yes, IsSwappable: isCoin}); len(got) != 1 || got[0].ID != 2 {
		t.Errorf("got %+v, want ether", got)
	}
	no := false
	if got := c.List(mint.Filter{Swappable: &no, IsSwappable: isCoin}); len(got) != 1 || got[0].ID != 1 {
		t.Errorf("got %+v, want USDC", got)
	}
	if got := c.List(mint.Filter{Chain: chain.Ethereum, Symbol: "ETH"}); len(got) != 1 || got[0].ID != 2 {
		t.Errorf("got %+v, want ether", got)
	}
	if got := c.List(mint.Filter{}); len(got) != 2 || got[0].ID != 1 {
		t.Errorf("got %+v, want both by id", got)
	}
}

// Rule MINT-1. Anyone can deploy a token that is named USDC.
//
// Every transaction that writes a row with a mint's id holds a key share lock of the mint until it
// ends. A process that hangs in one must not prevent another process from starting.
func TestASyncWaitsForNobodyWhoUsesAMint(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if err := mint.Sync(t.Context(), db, []mint.Mint{usdc()}); err != nil {
		t.Fatal(err)
	}
	err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM mints WHERE mint_id = 1 FOR KEY SHARE`); err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		renamed := usdc()
		renamed.Name = "USD Coin (local)"
		for _, m := range []mint.Mint{usdc(), renamed} {
			if err := mint.Sync(soon, db, []mint.Mint{m}); err != nil {
				t.Errorf("beside a transaction that uses the mint: got %v, want nil", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := catalogue(t, db).ByID(1); got.Name != "USD Coin (local)" {
		t.Errorf("got the name %q, want the new one", got.Name)
	}
}

func TestTokensOfOneNameAreToldApartByTheirContract(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	twin := usdc()
	twin.ID, twin.Contract = 3, "0xC0"
	if err := mint.Sync(t.Context(), db, []mint.Mint{usdc(), twin}); err != nil {
		t.Fatal(err)
	}
	c := catalogue(t, db)
	for _, want := range []mint.Mint{usdc(), twin} {
		if got, ok := c.ByContract(want.Chain, want.Contract); !ok || got != want {
			t.Errorf("%s: got %+v, want %+v", want.Contract, got, want)
		}
	}
	if got, ok := c.ByContract(chain.Ethereum, "0xFA4E"); ok {
		t.Errorf("a third USDC: got %+v, want nothing", got)
	}
}

// Rule MINT-1.
func TestAMintNeverBecomesAnotherToken(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if err := mint.Sync(t.Context(), db, []mint.Mint{usdc(), ether()}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*mint.Mint){
		"chain":    func(m *mint.Mint) { m.Chain = chain.Base },
		"network":  func(m *mint.Mint) { m.Network = chain.Mainnet },
		"contract": func(m *mint.Mint) { m.Contract = "0xB0" },
		"decimals": func(m *mint.Mint) { m.Decimals = 18 },
		"id":       func(m *mint.Mint) { m.ID = 3 },
	} {
		m := usdc()
		change(&m)
		if err := mint.Sync(t.Context(), db, []mint.Mint{m}); err == nil ||
			!strings.Contains(err.Error(), "in the database") {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	if got, _ := catalogue(t, db).ByID(1); got != usdc() {
		t.Errorf("got %+v, want %+v", got, usdc())
	}
}

func TestEveryMistakeInTheListIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	twin := usdc()
	twin.ID = 4
	err := mint.Sync(
		t.Context(), nil, []mint.Mint{usdc(), usdc(), twin, {ID: -1, Kind: mint.Native, Contract: "0x1", Decimals: 99}},
	)
	if err == nil {
		t.Fatal("a list of mistakes was taken")
	}
	for _, want := range []string{
		"in the list twice", "same token", "above 0", "chain is missing", `network ""`, "NATIVE mint has no contract",
		"99 decimals", "minimums", "symbol",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestAQuarantineStaysUntilAPersonReleasesIt(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	if err := mint.Sync(ctx, db, []mint.Mint{usdc()}); err != nil {
		t.Fatal(err)
	}
	do := func(fn func(context.Context, pg.Tx) error) {
		t.Helper()
		if err := db.InSystem(ctx, fn); err != nil {
			t.Fatal(err)
		}
	}
	for _, reason := range []string{"first", "second"} {
		do(func(ctx context.Context, tx pg.Tx) error { return mint.Quarantine(ctx, tx, 1, reason) })
	}
	if err := mint.Sync(ctx, db, []mint.Mint{usdc()}); err != nil {
		t.Fatal(err)
	}
	if got, _ := catalogue(t, db).ByID(1); !got.Quarantined {
		t.Error("a sync released it")
	}
	var reason string
	var acts int
	err := pgtest.OwnerPool(t, db).QueryRow(
		ctx, `SELECT quarantine_reason, (SELECT count(*) FROM audit_log) FROM mints`,
	).Scan(&reason, &acts)
	if err != nil {
		t.Fatal(err)
	}
	if reason != "first" || acts != 1 {
		t.Errorf("got %q and %d audit rows, want the first reason and 1", reason, acts)
	}
	do(func(ctx context.Context, tx pg.Tx) error {
		return mint.ReleaseQuarantine(ctx, tx, 1, audit.Operator("op"), "looked at it")
	})
	if got, _ := catalogue(t, db).ByID(1); got.Quarantined {
		t.Error("it was not released")
	}
}
