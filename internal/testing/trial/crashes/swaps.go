package crashes

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/localworld/swapdesk"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/webhook"
)

// swapToSymbol is what every swap of the trial brings, on Ethereum: the native coin, whose delivery only a
// tracing node shows.
const swapToSymbol = "ETH"

// isOfSwap reports whether a point is one of swaps, which are played in worlds of their own. The points of a
// payment to a provider have the names of those of other payments, after a Q.
func (p point) isOfSwap() bool { return p.name[0] == 'Q' }

// customerSwap is a swap of the rich customer.
type customerSwap struct {
	body             map[string]any
	created, current webhook.CustomerSwap
	lateOut          *big.Int // what arrived after its failure and is credited; nil: nothing
}

// newSwap returns a swap that is not requested yet.
func (s *cellRun) newSwap() *customerSwap {
	w := &customerSwap{body: map[string]any{
		"fromMintId": s.mint.ID, "toMintId": s.swapTo.ID, "amountIn": s.site.swaps.units.String(),
		"customerId": richCustomer, "idempotencyKey": s.name,
	}}
	s.swaps = append(s.swaps, w)
	return w
}

// requestSwap requests a swap until it is answered.
func (s *cellRun) requestSwap(ctx context.Context, w *customerSwap) error {
	status, err := s.callAPI(ctx, http.MethodPost, "/customer-swap", w.body, &w.created)
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("POST /customer-swap: got %d, want 202", status)
	}
	return err
}

// startSwap requests a swap, and does not wait for the answer.
func (s *cellRun) startSwap(w *customerSwap) func(context.Context) error {
	return func(ctx context.Context) error {
		s.startAsync(func() error { return s.requestSwap(ctx, w) })
		return nil
	}
}

// waitSwapEnd waits for the end of a swap. A request with the same key returns the same swap.
func (s *cellRun) waitSwapEnd(ctx context.Context, w *customerSwap, end string) error {
	if err := s.waitAsync(ctx); err != nil {
		return err
	}
	err := waitUntil(ctx, "the swap is "+end, drainMax, func(ctx context.Context) (bool, error) {
		if _, err := s.callAPI(
			ctx, http.MethodGet, "/customer-swap/"+w.created.SwapID, nil, &w.current,
		); err != nil {
			return false, err
		}
		if w.current.Status != end {
			return false, errors.New("it is " + w.current.Status)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	first := w.created.SwapID
	if err := s.requestSwap(ctx, w); err != nil {
		return err
	}
	if w.created.SwapID != first {
		return fmt.Errorf("the same key got %s and then %s", first, w.created.SwapID)
	}
	return nil
}

// playSwap plays a swap through the point that is delivered.
func playSwap(ctx context.Context, s *cellRun) error {
	w := s.newSwap()
	if err := s.playThrough(ctx, s.point.sourceName(), s.startSwap(w)); err != nil {
		return err
	}
	return s.waitSwapEnd(ctx, w, paid)
}

// callersOfOneKey is how many callers request one swap at once, half of them from each of two services.
const callersOfOneKey = 32

// playManyCallers plays the request of a swap through the point by many callers with one key, at two services,
// half of them with another slippage. All of them get the same swap.
func playManyCallers(ctx context.Context, s *cellRun) error {
	if err := s.startSecond(ctx); err != nil {
		return err
	}
	conf, err := app.ReadConfig(s.configPath("second"))
	if err != nil {
		return err
	}
	services := []endpoint{
		{s.world.Info.BaseURL, "x-api-key", s.world.Info.APIKey},
		{"http://" + conf.API.Listen + "/v1", "x-api-key", s.world.Info.APIKey},
	}
	w := s.newSwap()
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		s.startAsync(func() error { return requestAtOnce(ctx, services, w) })
		return nil
	})
	if err == nil {
		err = s.waitSwapEnd(ctx, w, paid)
	}
	if err == nil {
		err = s.waitDrained(ctx, drainMax)
	}
	return errors.Join(err, s.endSecond())
}

// requestAtOnce has many callers request a swap with one key.
func requestAtOnce(ctx context.Context, services []endpoint, w *customerSwap) error {
	answers, errs := make([]webhook.CustomerSwap, callersOfOneKey), make([]error, callersOfOneKey)
	var wg sync.WaitGroup
	for i := range callersOfOneKey {
		body := maps.Clone(w.body)
		if i%4 > 1 {
			body["slippageBps"] = 200
		}
		wg.Go(func() {
			status, err := callUntilAnswered(
				ctx, services[i%len(services)], http.MethodPost, "/customer-swap", body, &answers[i],
			)
			if err == nil && status != http.StatusAccepted {
				err = fmt.Errorf("caller %d of one key: got %d, want 202", i, status)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	w.created = answers[0]
	for i, got := range answers {
		if errs[i] == nil && got.SwapID != w.created.SwapID {
			errs[i] = fmt.Errorf("caller %d of one key got %s, and the first %s", i, got.SwapID, w.created.SwapID)
		}
	}
	return errors.Join(errs...)
}

// startMisbehaving makes the swap provider depart from its promise in a way until the function that it returns
// is called.
func (s *cellRun) startMisbehaving(ctx context.Context, mode swapdesk.Mode) (stop func(), err error) {
	set := func(ctx context.Context, mode swapdesk.Mode) error {
		return s.world.Info.SetSwapBehaviour(ctx, string(mode), 0, 0)
	}
	return func() { _ = set(context.WithoutCancel(ctx), swapdesk.ModeNone) }, set(ctx, mode)
}

// playRefundedSwap plays a swap through the point that its provider refunds, and restores what came back.
func playRefundedSwap(ctx context.Context, s *cellRun) error {
	stop, err := s.startMisbehaving(ctx, swapdesk.ModeRefund)
	if err != nil {
		return err
	}
	defer stop()
	w := s.newSwap()
	if err := s.playThrough(ctx, s.point.sourceName(), s.startSwap(w)); err != nil {
		return err
	}
	if err := s.waitSwapEnd(ctx, w, failed); err != nil {
		return err
	}
	return s.restoreSwap(ctx, w)
}

// playFailedSwap plays a swap through the point whose provider keeps the payment and stands by the report of a
// failure. Nothing comes back, and the claim on the provider stays.
func playFailedSwap(ctx context.Context, s *cellRun) error {
	stop, err := s.startMisbehaving(ctx, swapdesk.ModeFail)
	if err != nil {
		return err
	}
	defer stop()
	w := s.newSwap()
	if err := s.playThrough(ctx, s.point.sourceName(), s.startSwap(w)); err != nil {
		return err
	}
	return s.waitSwapEnd(ctx, w, failed)
}

// restoreSwap restores what came back of a swap, twice: it is restored once.
func (s *cellRun) restoreSwap(ctx context.Context, w *customerSwap) error {
	for range 2 {
		status, err := s.callAPI(
			ctx, http.MethodPost, "/customer-swap/"+w.created.SwapID+"/restore", map[string]any{}, &w.current,
		)
		if err != nil {
			return err
		}
		if status != http.StatusOK || w.current.RefundStatus != "RESTORED" {
			return fmt.Errorf("POST /customer-swap/%s/restore: got %d %+v", w.created.SwapID, status, w.current)
		}
	}
	return nil
}

// playRestores plays the restore of a refunded swap through the point, asked for by two callers at once.
func playRestores(ctx context.Context, s *cellRun) error {
	stop, err := s.startMisbehaving(ctx, swapdesk.ModeRefund)
	if err != nil {
		return err
	}
	defer stop()
	w := s.newSwap()
	if err := errors.Join(s.startSwap(w)(ctx), s.waitSwapEnd(ctx, w, failed)); err != nil {
		return err
	}
	second := *w
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		s.startAsync(func() error {
			results := make(chan error, 1)
			go func() { results <- s.restoreSwap(ctx, &second) }()
			return errors.Join(s.restoreSwap(ctx, w), <-results)
		})
		return nil
	})
	if err != nil {
		return err
	}
	return s.waitAsync(ctx)
}

// shortPayWindow is how long a payment to a swap provider may wait where it is to be late.
const shortPayWindow = app.Duration(8 * time.Second)

// playLateSwap plays a swap through the point whose payment finds no provider of the chain in time.
func playLateSwap(ctx context.Context, s *cellRun) error {
	usual := s.conf.Swaps
	defer s.provider.setDown(false)
	if err := s.setPayWindow(ctx, shortPayWindow, shortPayWindow); err != nil {
		return err
	}
	s.afterFault = func(context.Context) error { s.provider.setDown(false); return nil }
	s.provider.setDown(true)
	w := s.newSwap()
	if err := s.playThrough(ctx, s.point.sourceName(), s.startSwap(w)); err != nil {
		return err
	}
	if err := s.waitSwapEnd(ctx, w, failed); err != nil {
		return err
	}
	if reason := w.current.FailureReason; reason == nil || *reason != "DEADLINE_EXPIRED" {
		return fmt.Errorf("the swap is %+v, want it failed for its time", w.current)
	}
	return errors.Join(
		s.restoreSwap(ctx, w), s.setPayWindow(ctx, usual.PayWindow, usual.PayWindowBitcoin),
	)
}

// setPayWindow starts the service anew with another time that a payment to a swap provider may wait.
func (s *cellRun) setPayWindow(ctx context.Context, window, onBitcoin app.Duration) error {
	s.conf.Swaps.PayWindow, s.conf.Swaps.PayWindowBitcoin = window, onBitcoin
	return errors.Join(s.service.stopProcess(), s.writeConfigs(), s.startService(ctx))
}

// playSwapProviderFault plays the payment of a swap whose provider of the chain hides what it does.
func playSwapProviderFault(ctx context.Context, s *cellRun) error {
	w := s.newSwap()
	err := s.playAtProvider(ctx, providerFault(strings.TrimPrefix(s.point.name, "Q")), s.startSwap(w))
	if err != nil {
		return err
	}
	return s.waitSwapEnd(ctx, w, paid)
}

// leaveSwapWaiting requests a swap and leaves its payment in the mempool.
func (s *cellRun) leaveSwapWaiting(ctx context.Context, w *customerSwap) error {
	s.holdBroadcasts()
	if err := s.startSwap(w)(ctx); err != nil {
		return err
	}
	return s.waitSwapBroadcast(ctx, w, 1)
}

// waitSwapBroadcast waits until the newest version of a swap's payment, at least the versions-th, was sent.
func (s *cellRun) waitSwapBroadcast(ctx context.Context, w *customerSwap, versions int) error {
	if err := s.waitAsync(ctx); err != nil {
		return err
	}
	return s.waitOrderBroadcast(ctx, versions, func(context.Context) (string, error) { return w.created.SwapID, nil })
}

// playReplacedSwap plays a swap whose payment waits in the mempool until a fee bump.
func playReplacedSwap(ctx context.Context, s *cellRun) error {
	w := s.newSwap()
	s.afterFault = s.releaseBroadcasts
	err := s.playThrough(
		ctx, s.point.sourceName(), func(ctx context.Context) error { return s.leaveSwapWaiting(ctx, w) },
	)
	if err != nil {
		return err
	}
	return s.waitSwapEnd(ctx, w, paid)
}

// playOlderSwap mines the first version of a swap's payment after the second was sent.
func playOlderSwap(ctx context.Context, s *cellRun) error {
	w := s.newSwap()
	if err := errors.Join(s.leaveSwapWaiting(ctx, w), s.waitSwapBroadcast(ctx, w, 2)); err != nil {
		return err
	}
	s.provider.setDown(true)
	defer s.provider.setDown(false)
	older, err := s.mineFirstVersion(ctx, w.created.SwapID)
	if err != nil {
		return err
	}
	s.afterFault = func(ctx context.Context) error { s.provider.setDown(false); return s.releaseBroadcasts(ctx) }
	if err := errors.Join(s.inflictOutside(ctx), s.waitSwapEnd(ctx, w, paid)); err != nil {
		return err
	}
	if w.current.OriginTxHash == nil || *w.current.OriginTxHash != older {
		return fmt.Errorf("the older version %s was mined, and the swap names %v", older, w.current.OriginTxHash)
	}
	return nil
}

// playForkedSwap plays a swap whose payment is in a block that a fork removes.
func playForkedSwap(ctx context.Context, s *cellRun) error {
	w := s.newSwap()
	if err := s.leaveSwapWaiting(ctx, w); err != nil {
		return err
	}
	s.atPoint = func(ctx context.Context) error { return s.net.forkBlock(ctx) }
	s.afterFault = s.releaseBroadcasts
	err := s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error { return s.net.mineBlock(ctx) })
	if err != nil {
		return err
	}
	return s.waitSwapEnd(ctx, w, paid)
}

// playCancelledSwap cancels the payment of a swap in the mempool, and the cancel transaction is mined: the
// amount never left, and is restored.
func playCancelledSwap(ctx context.Context, s *cellRun) error {
	w := s.newSwap()
	if err := s.leaveSwapWaiting(ctx, w); err != nil {
		return err
	}
	if err := errors.Join(s.cancelOrder(ctx, w.created.SwapID), s.waitCancelSent(ctx, w.created.SwapID)); err != nil {
		return err
	}
	if err := s.playThrough(ctx, s.point.sourceName(), s.releaseBroadcasts); err != nil {
		return err
	}
	if err := s.waitSwapEnd(ctx, w, failed); err != nil {
		return err
	}
	return s.restoreSwap(ctx, w)
}

// verifyQuote verifies a quote with the keys of the world's swap provider.
func (t *scenario) verifyQuote(_ string, scheme signedquote.Scheme, raw []byte) (signedquote.Quote, error) {
	section := t.conf.Swaps.Providers.OneClick
	if section == nil || scheme != signedquote.OneClickV0 {
		return signedquote.Quote{}, errors.New("this world has no provider that signs so")
	}
	var keys []ed25519.PublicKey
	for _, text := range section.Keys {
		key, err := signedquote.ParseOneClickKey(text)
		if err != nil {
			return signedquote.Quote{}, err
		}
		keys = append(keys, key)
	}
	return signedquote.VerifyOneClick(raw, keys)
}

// swapSums are the sums over the swaps of a scenario, in units of its mint but for delivered.
type swapSums struct {
	claims    []oracle.Claim
	paid      *big.Int // to the provider, by final blocks
	refunded  *big.Int // by the provider
	swappedIn *big.Int // what the customer gave
	restored  *big.Int // what of it the customer has again
	claimed   *big.Int // what the customer waits for: of failed swaps, at the provider
	delivered *big.Int // to the customer, in units of what the swaps bring
	toProduct *big.Int // the same, of swaps of the organization, which is paid out

	depositSwapsIn  *big.Int // what was paid into deposit swaps, in units of their token
	depositSwapsOut *big.Int // what they brought
}

// sumSwaps compares each swap with what the swap provider says of it, and adds the swaps up.
func (s *cellRun) sumSwaps(ctx context.Context) (sums swapSums, err error) {
	for _, n := range []**big.Int{
		&sums.paid, &sums.refunded, &sums.swappedIn, &sums.restored, &sums.claimed, &sums.delivered,
		&sums.toProduct, &sums.depositSwapsIn, &sums.depositSwapsOut,
	} {
		*n = new(big.Int)
	}
	if !s.site.withSwaps {
		return sums, nil
	}
	transfers, err := s.loadProviderTransfers(ctx)
	if err != nil {
		return sums, err
	}
	var errs []error
	for _, w := range s.swaps {
		errs = append(errs, s.addSwap(ctx, w, transfers, &sums))
	}
	for _, w := range s.ownSwaps {
		errs = append(errs, s.addOwnSwap(ctx, w, transfers, &sums))
	}
	for _, d := range s.depositSwaps {
		errs = append(errs, addDepositSwap(d, transfers, &sums))
	}
	return sums, errors.Join(append(errs, s.compareTotals(transfers, sums))...)
}

// compareTotals compares what the swap provider received, delivered and refunded of each asset with the sums.
func (s *cellRun) compareTotals(transfers swapdesk.Transfers, sums swapSums) error {
	var errs []error
	for _, total := range transfers.Totals {
		want := [3]*big.Int{new(big.Int), new(big.Int), new(big.Int)}
		switch {
		case total.Mint == s.mint.ID:
			want = [3]*big.Int{sums.paid, sums.depositSwapsOut, sums.refunded}
		case total.Mint == s.swapTo.ID:
			want[1] = new(big.Int).Add(sums.delivered, sums.toProduct)
		case total.AssetID == s.world.Info.Swaps.Tokens[0].AssetID:
			want[0] = sums.depositSwapsIn
		}
		for i, got := range []money.Amount{total.Received, total.Delivered, total.Refunded} {
			if got.Big().Cmp(want[i]) != 0 {
				errs = append(
					errs, fmt.Errorf("the provider received, delivered and refunded %+v, want %v", total, want),
				)
				break
			}
		}
	}
	return errors.Join(errs...)
}

// loadProviderTransfers waits until the payments of the swap provider are final, and returns its transfers.
func (s *cellRun) loadProviderTransfers(ctx context.Context) (transfers swapdesk.Transfers, err error) {
	err = waitUntil(ctx, "the payments of the provider are final", drainMax, func(ctx context.Context) (bool, error) {
		if transfers, err = s.world.Info.ListSwapTransfers(ctx); err != nil {
			return false, err
		}
		for _, t := range transfers.Transfers {
			if !t.IsFinal {
				return false, errors.New(t.Kind + " of " + t.DepositAddress + " is not final")
			}
		}
		return true, nil
	})
	return transfers, err
}

// swapPayment is the payment of a swap to its provider, by the service's rows.
type swapPayment struct {
	oracle.Claim
	written string // the address as the provider writes it
	short   *big.Int
}

// loadPayment loads the payment of a swap, which pays amount and whose transaction the swap names.
func (s *cellRun) loadPayment(ctx context.Context, swapID string, amount *big.Int, tx *string) (swapPayment, error) {
	p := swapPayment{Claim: oracle.Claim{ID: swapID, Asset: s.assetID(), Amount: amount}}
	var short string
	err := s.queryRow(ctx, `
		SELECT s.deposit_address, o.deposit_address, s.paid_at IS NOT NULL, s.short::text
		FROM swaps s JOIN swap_offers o USING (swap_id) WHERE swap_id = $1`,
		[]any{swapID}, &p.To, &p.written, &p.Paid, &short)
	if err == nil && p.Paid && tx == nil {
		err = errors.New("it is paid without a transaction")
	}
	if err == nil {
		p.short, err = parseUnits(&short)
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w", swapID, err)
	}
	if p.Paid {
		p.Tx = *tx
	}
	return p, nil
}

// addSwap compares a swap with the transfers of the swap provider, and adds it to the sums.
func (s *cellRun) addSwap(ctx context.Context, w *customerSwap, transfers swapdesk.Transfers, sums *swapSums) error {
	amount := s.site.swaps.units
	payment, err := s.loadPayment(ctx, w.created.SwapID, amount, w.current.OriginTxHash)
	if err != nil {
		return err
	}
	want := map[string]*big.Int{}
	sums.swappedIn.Add(sums.swappedIn, amount)
	if payment.Paid {
		sums.paid.Add(sums.paid, amount)
		want["RECEIVED"] = amount
	}
	sums.claims = append(sums.claims, payment.Claim)
	if w.current.Status == paid {
		out, err := parseUnits(w.current.AmountOut)
		if err != nil {
			return fmt.Errorf("%s: %w", payment.ID, err)
		}
		sums.delivered.Add(sums.delivered, out)
		want["DELIVERY"] = out
	} else {
		returned := new(big.Int)
		if w.current.RefundedAmount != nil {
			var err error
			if returned, err = parseUnits(w.current.RefundedAmount); err != nil {
				return fmt.Errorf("%s: %w", payment.ID, err)
			}
		}
		if payment.Paid && returned.Sign() > 0 {
			sums.refunded.Add(sums.refunded, returned)
			want["REFUND"] = returned
		}
		if w.current.RestoredAt != nil {
			sums.restored.Add(sums.restored, returned)
		}
		if w.lateOut != nil {
			sums.delivered.Add(sums.delivered, w.lateOut)
			want["DELIVERY"] = w.lateOut
		}
		open := new(big.Int).Sub(amount, returned)
		sums.claimed.Add(sums.claimed, open.Sub(open, payment.short))
	}
	return compareTransfers(payment.ID, payment.written, transfers, want)
}

// compareTransfers compares what the swap provider did at one deposit address with what it should have: one
// transfer of each amount.
func compareTransfers(swapID, depositAddress string, transfers swapdesk.Transfers, want map[string]*big.Int) error {
	var got []string
	isRight := true
	counts := map[string]int{}
	for _, t := range transfers.Transfers {
		if t.DepositAddress != depositAddress {
			continue
		}
		got = append(got, t.Kind+" "+t.Amount.String())
		counts[t.Kind]++
		isRight = isRight && want[t.Kind] != nil && want[t.Kind].Cmp(t.Amount.Big()) == 0
	}
	for kind := range want {
		isRight = isRight && counts[kind] == 1
	}
	if !isRight || len(got) != len(want) {
		return fmt.Errorf("%s: the provider has the transfers %v, want %v", swapID, got, want)
	}
	return nil
}

func parseUnits(text *string) (*big.Int, error) {
	if text == nil {
		return nil, errors.New("it has no amount")
	}
	n, isNumber := new(big.Int).SetString(*text, 10)
	if !isNumber {
		return nil, fmt.Errorf("%q is not an amount", *text)
	}
	return n, nil
}

// checkSwapBooks compares what the swaps brought with the customer's balance, and what the provider owes with
// the books.
func (s *cellRun) checkSwapBooks(ctx context.Context, sums swapSums) error {
	var owed string
	err := s.queryRow(ctx, `
		SELECT coalesce(sum(moved.delta), 0)::text
		FROM (SELECT debit_account AS account_id, amount AS delta FROM ledger_transfers
			UNION ALL SELECT credit_account, -amount FROM ledger_transfers) moved
		JOIN ledger_accounts a USING (account_id) WHERE a.kind = 'AT_PROVIDER'`, nil, &owed)
	if err == nil && owed != sums.claimed.String() {
		err = fmt.Errorf("the books have %s at the provider, and the failed swaps %s", owed, sums.claimed)
	}
	return errors.Join(
		err, s.checkBalances(ctx, richCustomer, s.swapTo, sums.delivered, sums.delivered), s.checkProductEmpty(ctx),
	)
}
