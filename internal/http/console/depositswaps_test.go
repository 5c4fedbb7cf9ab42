package console

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/swaptest"
)

// newDepositSwaps makes deposit swaps of a token on a chain that the service does not read.
func (h *testEnv) newDepositSwaps(chains chain.Chains, prices price.Source, log *slog.Logger) {
	h.t.Helper()
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		h.t.Fatal(err)
	}
	var dollars provider.Token
	err = h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		mints, err := mint.LoadCatalogue(ctx, tx)
		m, _ := mints.ByID(usdc)
		dollars = provider.Token{Chain: m.Chain, Contract: m.Contract}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	scripted := &swaptest.ScriptedProvider{Clock: h.now, Listed: []provider.Asset{
		swaptest.NewAsset(dollars, "USDC", 6), swaptest.NewAsset(provider.Token{Chain: "NEAR"}, "<b>N</b>", 24),
	}}
	h.depositSwaps = &depositswap.Service{
		DB: h.db, Chains: chains, Wallets: h.book, Prices: prices, GrantKey: grants, Destination: dollars, Log: log,
		Panel: provider.NewPanel([]provider.Member{{Provider: scripted}}, swap.Suspensions{DB: h.db}, h.now, log),
	}
}

// addDepositSwap makes a deposit swap of a customer.
func (h *testEnv) addDepositSwap(key string) depositswap.DepositSwap {
	h.t.Helper()
	made, _, _, err := h.depositSwaps.Request(h.t.Context(), h.orgID, depositswap.Request{
		IdempotencyKey: &key, CustomerID: "carol <b>", OriginTokenID: "near:native", RefundAddress: "refunds.near",
		Actor: audit.APIKey(h.orgID),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return made
}

// The page of a deposit swap shows who paid the provider, and how that is known. Rule PAGE-80.
func TestThePageOfADepositSwapSaysWhoPaid(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	s := h.addDepositSwap("top-up-1")
	token, path := h.signInAs(h.eve), Prefix+"/deposit-swaps/"+s.ID
	h.get(token, Prefix+"/deposit-swaps").want(t, http.StatusOK, path, "any amount of", "Waits for a payment")
	body := h.get(token, path).want(t, http.StatusOK, `data-copy="`+s.DepositAddress+`"`, "refunds.near",
		"Not known. Screening treats what arrives like a deposit of an unknown sender.").body
	if strings.Contains(body, "<b>N") || strings.Contains(body, "<b>\n") && strings.Contains(body, "carol <b>") {
		t.Error("the page has markup of a stranger")
	}
	for source, text := range map[string]string{"PROVIDER": "The provider says so", "OWN_NODE": "By a final block"} {
		h.insertRows(func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `
				UPDATE deposit_swaps SET origin_payers = ARRAY['payer.near'], payer_source = $2, payers_at = now()
				WHERE deposit_swap_id = $1`, s.ID, source)
			return err
		})
		h.get(token, path).want(t, http.StatusOK, text, `data-copy="payer.near"`)
	}
	h.get(token, Prefix+"/deposit-swaps.csv?organizationId="+h.orgID).want(t, http.StatusOK, s.ID, s.DepositAddress)
	h.get(token, Prefix+"/deposit-swaps?provider=NONE").want(t, http.StatusOK, "No deposit swap here")
	h.get(token, Prefix+"/deposit-swaps/ds_00000000000000000000000000").want(t, http.StatusNotFound)
}

// The page of a deposit leads to the deposit swap for which it arrived. Rule PAGE-80.
func TestADepositLeadsToItsDepositSwap(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	s, depositID := h.addDepositSwap("top-up-1"), h.flag()
	token, link := h.signInAs(h.ann), `href="`+Prefix+"/deposit-swaps/"+s.ID+`"`
	if strings.Contains(h.get(token, Prefix+"/flagged/"+depositID).want(t, http.StatusOK).body, link) {
		t.Error("the page of another deposit leads to the deposit swap")
	}
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE deposits SET purpose = 'DEPOSIT_SWAP', deposit_swap_id = $2
			WHERE deposit_id = $1`, depositID, s.ID)
		return err
	})
	h.get(token, Prefix+"/flagged/"+depositID).want(t, http.StatusOK, link)
}

// Rule DEP-56: the page of a flagged deposit of a checkout names the checkout.
func TestADepositNamesItsCheckout(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	depositID := h.flag()
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE deposits SET purpose = 'CHECKOUT', checkout_id = 'co_seen', product = 'CHECKOUT',
			customer_id = NULL WHERE deposit_id = $1`, depositID)
		return err
	})
	token := h.signInAs(h.ann)
	h.get(token, Prefix+"/flagged/"+depositID).want(t, http.StatusOK, "co_seen")
	h.get(token, Prefix+"/flagged").want(t, http.StatusOK, depositID)
}

// Each status of a deposit swap has words of its own.
func TestEachStatusOfADepositSwapHasWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, status := range depositswap.Statuses {
		word := depositSwapChip(status).Word
		if word == "" || seen[word] {
			t.Errorf("%s: got the words %q, want words of its own", status, word)
		}
		seen[word] = true
	}
}
