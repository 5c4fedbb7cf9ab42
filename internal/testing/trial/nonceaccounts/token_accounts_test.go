package nonceaccounts

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const creations = `
	SELECT coalesce(string_agg(status, ' ' ORDER BY created_at, creation_id), '')
	FROM token_account_creations WHERE mint_id = $1`

// addTokens places further tokens on the chain, with mints from 10 on. Every second one is of Token-2022.
func (w *testEnv) addTokens(count int) map[int]surfpool.Mint {
	w.Helper()
	tokens, configured := map[int]surfpool.Mint{}, map[chain.Address]solana.Mint{
		surfpool.USDC: {Program: solanatx.TokenProgram, Decimals: 6},
	}
	var mints []mint.Mint
	w.mustSucceed(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		all, err := mint.LoadCatalogue(ctx, tx)
		mints = all.List(mint.Filter{})
		return err
	}))
	usual, _ := slices.BinarySearchFunc(mints, usdc, func(m mint.Mint, id int) int { return m.ID - id })
	for n := range count {
		key, err := surfpool.NewKey()
		w.mustSucceed(err)
		token := surfpool.Mint{Address: surfpool.AddressOf(key), Program: solanatx.TokenProgram, Decimals: 6}
		if n%2 == 1 {
			token.Program = solanatx.Token2022Program
		}
		w.mustSucceed(w.node.PlaceMint(w.ctx, token))
		m := mints[usual]
		m.ID, m.Contract, m.Symbol = 10+n, token.Address, fmt.Sprint("TOK", n)
		tokens[m.ID], configured[token.Address] = token, solana.Mint{Program: token.Program, Decimals: 6}
		mints = append(mints, m)
	}
	client, err := solana.New(w.ctx, solana.Config{
		Network: chain.Local, Endpoints: []string{w.node.URL}, Quorum: 1, Mints: configured,
	})
	w.mustSucceed(err)
	w.chainConf = client.Chain()
	w.mustSucceed(mint.Sync(w.ctx, w.db, mints))
	w.startParts()
	return tokens
}

// sell makes a checkout for a dollar that is paid in some mints, and opens these ways to pay.
func (w *testEnv) sell(mintIDs ...int) string {
	w.Helper()
	for _, mintID := range mintIDs {
		w.prices[mintID] = money.MustParseUSD("1")
	}
	d := checkout.NewDraft()
	d.Name, d.PriceType, d.Price, d.AcceptedMintIDs = "Tea", checkout.FixedPrice, new("1"), mintIDs
	p, _, err := w.Checkouts.Create(w.ctx, w.org, checkout.Request{Draft: d, Actor: audit.APIKey("key")})
	w.mustSucceed(err)
	c, _, err := w.Checkouts.CreateCheckout(w.ctx, w.org, checkout.CheckoutRequest{
		Items: []checkout.ItemRequest{{ProductID: p.ID, Quantity: 1}}, Actor: audit.APIKey("key"),
	})
	w.mustSucceed(err)
	for _, mintID := range mintIDs {
		_, err := w.Checkouts.OpenOption(w.ctx, w.org, c.ID, mintID)
		w.mustSucceed(err)
	}
	return c.ID
}

func (w *testEnv) loadOption(checkoutID string, mintID int) checkout.Option {
	w.Helper()
	c, err := w.Checkouts.CheckoutByID(w.ctx, w.org, checkoutID)
	w.mustSucceed(err)
	return c.Options[slices.IndexFunc(c.Options, func(o checkout.Option) bool { return o.Mint.ID == mintID })]
}

// rentOf is what the account of a token holds.
func rentOf(token surfpool.Mint) uint64 {
	if token.Program == solanatx.Token2022Program {
		return solanatx.Token2022AccountRent
	}
	return solanatx.TokenAccountRent
}

// playTokenAccounts plays a shop whose shared address has no token account. The service creates each account once,
// wherever it dies, and pays nothing for one that exists. From then on a wallet pays there, and the account stays.
// Rules CO-136, CO-138 and CO-139.
func playTokenAccounts(t *testing.T, w *testEnv) {
	w.T = t
	const first, afterSend, beforeSend, afterEnd, existing = 10, 11, 12, 13, 14
	tokens := w.addTokens(5)
	payerKey, err := surfpool.NewKey()
	w.mustSucceed(err)
	payer := surfpool.AddressOf(payerKey)
	_, err = w.node.PayLamports(w.ctx, payer, surfpool.LamportsPerSOL)
	w.mustSucceed(err)
	w.mustSucceed(w.node.MintTo(w.ctx, tokens[first], payer, 2_000_000))
	w.mineBlocks(1)

	id := w.sell(first)
	option := w.loadOption(id, first)
	request := checkout.WalletRequest{MintID: first, Account: string(payer)}
	_, err = w.Checkouts.PublicWalletPayment(w.ctx, id, request)
	if f := fault.Find(err); option.TakesWallets || f == nil ||
		f.Details[checkout.RefusalDetail] != string(checkout.OptionRefused) {
		t.Fatalf("got %v and %v before there is an account, want no wallet", option.TakesWallets, err)
	}
	versions, err := w.Checkouts.PublicVersions(w.ctx, []string{id})
	w.mustSucceed(err)
	before := w.chainBalance(w.treasury.Address, sol)
	w.settleAll()
	w.wantText("the creation", "DONE", creations, first)
	w.mustRunAll()
	w.wantText("its fee has the rent", fmt.Sprint(before-w.chainBalance(w.treasury.Address, sol)),
		`SELECT fee FROM dispatch_orders WHERE purpose = 'TOKEN_ACCOUNT'`)
	if spent := before - w.chainBalance(w.treasury.Address, sol); spent < rentOf(tokens[first])+solanatx.SignatureFee ||
		spent > rentOf(tokens[first])+2*solanatx.SignatureFee {
		t.Errorf("got %d lamports spent, want the rent and a fee", spent)
	}
	after, err := w.Checkouts.PublicVersions(w.ctx, []string{id})
	w.mustSucceed(err)
	if !w.loadOption(id, first).TakesWallets || after[id] <= versions[id] {
		t.Fatalf("got versions %d and %d, and no wallets, want the open pages told", versions[id], after[id])
	}
	w.customers = append(w.customers, *option.Shared)
	w.checkBooks()

	// A wallet pays, and what it paid is swept. The account stays, however long it is idle.
	paid, err := w.Checkouts.PublicWalletPayment(w.ctx, id, request)
	w.mustSucceed(err)
	copy(paid.Transaction[1:], ed25519.Sign(payerKey, paid.Transaction[1+ed25519.SignatureSize:]))
	_, err = w.node.SendRaw(w.ctx, paid.Transaction)
	w.mustSucceed(err)
	w.mineBlocks(surfpool.Finality + 1)
	w.settleAll()
	w.settleAll()
	for range 3 {
		_, err := w.Checkouts.SettleDue(w.ctx)
		w.mustSucceed(err)
	}
	if c, err := w.Checkouts.CheckoutByID(w.ctx, w.org, id); err != nil || c.Status != "COMPLETED" {
		t.Errorf("got a checkout that is %s, %v, want it paid by the wallet", c.Status, err)
	}
	w.wantText("swept", "DONE", `SELECT status FROM sweeps WHERE wallet_id = $1`, option.Shared.ID)
	const month = 30 * 24 * time.Hour
	w.closeAfter = month
	w.startParts()
	w.advanceClock(month + time.Hour)
	w.settleAll()
	w.settleAll()
	w.wantText(
		"closes of the shared address", "0", `SELECT count(*) FROM closes WHERE wallet_id = $1`, option.Shared.ID,
	)
	w.closeAfter = 0

	// The service dies, and each account is paid for once.
	for mintID, call := range map[int]string{afterSend: "send", beforeSend: "send", afterEnd: "outcome"} {
		before := w.chainBalance(w.treasury.Address, sol)
		w.startParts()
		id := w.sell(mintID)
		w.crashPlan.name, w.crashPlan.after = call, mintID != beforeSend
		for range 3 {
			w.advanceClock(5 * time.Second)
			if w.runAllSteps() != nil || w.crashPlan.dead {
				break
			}
			w.mineBlocks(surfpool.Finality + 1)
		}
		if !w.crashPlan.dead {
			t.Fatalf("mint %d: got no call %s in %q", mintID, call, w.crashPlan.calls)
		}
		w.startParts()
		w.settleAll()
		w.settleAll()
		w.wantText(fmt.Sprint("dead at ", call), "DONE", creations, mintID)
		if !w.loadOption(id, mintID).TakesWallets {
			t.Errorf("dead at %s: got no wallets, want them", call)
		}
		if spent := before - w.chainBalance(w.treasury.Address, sol); spent < rentOf(tokens[mintID]) ||
			spent > rentOf(tokens[mintID])+2*solanatx.SignatureFee {
			t.Errorf("dead at %s: got %d lamports spent, want one rent and a fee", call, spent)
		}
	}

	// Another person creates the account, and it costs nothing.
	_, err = w.node.SendAndCheck(w.ctx, surfpool.Transaction{
		Keys: []ed25519.PrivateKey{w.node.FaucetPrivateKey()},
		Instructions: []surfpool.Instruction{
			tokens[existing].CreateAccount(w.node.FaucetAddress(), option.Shared.Address),
		},
	})
	w.mustSucceed(err)
	w.mineBlocks(surfpool.Finality + 1)
	before = w.chainBalance(w.treasury.Address, sol)
	id = w.sell(existing)
	w.settleAll()
	w.wantText("a creation of what exists", "", creations, existing)
	if got := w.chainBalance(w.treasury.Address, sol); got != before || !w.loadOption(id, existing).TakesWallets {
		t.Errorf("got %d lamports spent for an account that exists, want none and wallets", before-got)
	}
	w.wantText("each is known once", fmt.Sprint(len(tokens)), `SELECT count(*) FROM token_accounts`)
	w.wantText("frozen", "0", `SELECT count(*) FROM freezes WHERE lifted_at IS NULL`)
	w.checkBooks()
}
