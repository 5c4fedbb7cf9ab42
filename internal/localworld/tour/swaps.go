package tour

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/webhook"
)

// lateSwapMax is how long the tour waits for a failure that no block shows: the service believes the provider
// only after it has stood by its word for a minute.
const lateSwapMax = 4 * time.Minute

// hasSwaps reports whether this world can play the chapters about swaps.
func (s *tourRun) hasSwaps() bool {
	_, hasSolana := s.Info.Chains["SOLANA"]
	return hasSolana && s.Info.Swaps.ControlURL != ""
}

// plannedSwap is a swap of the tour: what is swapped, and into what.
type plannedSwap struct {
	source, destination localworld.Mint
	whole               string // of source
	amount              *big.Int
}

// swapBetween returns a swap of an amount of one token into another token.
func (s *tourRun) swapBetween(
	chain string, t tokenAmount, destinationChain, destinationSymbol string,
) (w plannedSwap, err error) {
	w.whole = t.whole
	if w.source, w.amount, err = s.mintOf(chain, t); err != nil {
		return w, err
	}
	w.destination, err = s.findMint(destinationChain, destinationSymbol)
	return w, err
}

// findMint returns a mint of this world.
func (s *tourRun) findMint(chain, symbol string) (localworld.Mint, error) {
	i := slices.IndexFunc(s.Info.Mints, func(m localworld.Mint) bool { return m.Chain == chain && m.Symbol == symbol })
	if i < 0 {
		return localworld.Mint{}, fmt.Errorf("this world has no %s on %s", symbol, chain)
	}
	return s.Info.Mints[i], nil
}

// requestSwap requests a swap, twice with one key: there is one swap.
func (s *tourRun) requestSwap(ctx context.Context, w plannedSwap) (swap webhook.CustomerSwap, err error) {
	body := map[string]any{
		"fromMintId": w.source.ID, "toMintId": w.destination.ID, "amountIn": w.amount.String(),
		"customerId": s.customer, "idempotencyKey": "tour-" + randomHex(8),
	}
	var replay webhook.CustomerSwap
	if err := s.api.postJSON(ctx, "/customer-swap", body, &swap); err != nil {
		return swap, err
	}
	if err := s.api.postJSON(ctx, "/customer-swap", body, &replay); err != nil {
		return swap, err
	}
	if replay.SwapID != swap.SwapID {
		return swap, fmt.Errorf("the same key made another swap, %s", replay.SwapID)
	}
	s.printStep(
		"swap %s of %s %s to %s on %s, at least %s: %s", swap.SwapID, w.whole, w.source.Symbol,
		w.destination.Symbol, w.destination.Chain, formatWhole(swap.MinAmountOut, w.destination), swap.Status,
	)
	return swap, nil
}

// loadSwap returns a swap as it is now.
func (s *tourRun) loadSwap(ctx context.Context, swapID string) (swap webhook.CustomerSwap, err error) {
	err = s.api.getJSON(ctx, "/customer-swap/"+url.PathEscape(swapID), &swap)
	return swap, err
}

// startLateSwap requests a swap whose provider will report that it failed. Other chapters follow meanwhile,
// and tourLateSwap tells its end.
func (s *tourRun) startLateSwap(ctx context.Context) error {
	if !s.hasSwaps() {
		return nil
	}
	s.printTitle("A swap begins whose provider does not keep its word")
	if err := s.Info.SetLateSwap(ctx); err != nil {
		return err
	}
	w, err := s.swapBetween("ETHEREUM", tokenAmount{s.ether.Symbol, "0.1"}, "SOLANA", "USDC")
	if err != nil {
		return err
	}
	s.lateSwap, err = s.requestSwap(ctx, w)
	return err
}

// tourSwaps shows swaps between chains that end with their delivery.
func (s *tourRun) tourSwaps(ctx context.Context) error {
	if !s.hasSwaps() {
		return nil
	}
	s.printTitle("The customer swaps: ETH on Ethereum to USDC on Solana")
	w, err := s.swapBetween("ETHEREUM", tokenAmount{s.ether.Symbol, "0.2"}, "SOLANA", "USDC")
	if err != nil {
		return err
	}
	if err := s.completeSwap(ctx, w); err != nil {
		return err
	}
	if _, hasBitcoin := s.Info.Chains["BITCOIN"]; !hasBitcoin {
		return nil
	}
	s.printTitle("And SOL to BTC")
	if w, err = s.swapBetween("SOLANA", tokenAmount{"SOL", "0.5"}, "BITCOIN", "BTC"); err != nil {
		return err
	}
	return s.completeSwap(ctx, w)
}

// completeSwap requests a swap and waits until its delivery is credited and announced, once.
func (s *tourRun) completeSwap(ctx context.Context, w plannedSwap) error {
	sourceBefore, err := s.loadBalance(ctx, w.source)
	if err != nil {
		return err
	}
	destinationBefore, err := s.loadBalance(ctx, w.destination)
	if err != nil {
		return err
	}
	swap, err := s.requestSwap(ctx, w)
	if err != nil {
		return err
	}
	var d webhook.Deposit
	e, err := s.waitEvent(ctx, webhook.CustomerDeposit, &d, func() bool {
		return d.Swap != nil && d.Swap.CustomerSwapID == swap.SwapID
	})
	if err != nil {
		return err
	}
	if swap, err = s.loadSwap(ctx, swap.SwapID); err != nil {
		return err
	}
	if swap.Status != "COMPLETED" || swap.OriginTxHash == nil || swap.DestinationTxHash == nil ||
		orNull(swap.AmountOut) != d.Amount || orNull(swap.DepositID) != d.DepositID ||
		*swap.DestinationTxHash != d.TxHash || d.Source != "CUSTOMER_SWAP" || d.Status != "CREDITED" {
		return fmt.Errorf("the swap is %+v, and its deposit %+v", swap, d)
	}
	s.printStep("the treasury paid the provider by %s", *swap.OriginTxHash)
	s.printStep(
		"CUSTOMER_DEPOSIT number %d with this swap: %s %s, delivered by %s", e.Sequence,
		formatWhole(d.Amount, w.destination), w.destination.Symbol, d.TxHash,
	)
	delivered, isNumber := new(big.Int).SetString(d.Amount, 10)
	promised, ok := new(big.Int).SetString(swap.MinAmountOut, 10)
	if !ok || !isNumber || delivered.Cmp(promised) < 0 {
		return fmt.Errorf("%s arrived, and the swap promised %s", d.Amount, swap.MinAmountOut)
	}
	if err := s.checkMoved(ctx, sourceBefore, new(big.Int).Neg(w.amount), w.source); err != nil {
		return err
	}
	if err := s.checkMoved(ctx, destinationBefore, delivered, w.destination); err != nil {
		return err
	}
	s.printStep(
		"final: %s %s less and %s %s more; the platform's fee of %d basis points is on its bill, not taken from either",
		w.whole, w.source.Symbol, formatWhole(d.Amount, w.destination), w.destination.Symbol, swap.FeeBps,
	)
	return nil
}

// checkMoved checks that a balance changed by an amount since before, all of it available.
func (s *tourRun) checkMoved(ctx context.Context, before balance, change *big.Int, m localworld.Mint) error {
	want, err := addAmounts(before.Available, change)
	if err != nil {
		return err
	}
	after, err := s.loadBalance(ctx, m)
	if err == nil && after.Available != want {
		err = fmt.Errorf("available is %s %s, want %s", after.Available, m.Symbol, want)
	}
	return err
}

// tourRefundedSwap shows a swap that its provider refunds. What came back is restored to the customer.
func (s *tourRun) tourRefundedSwap(ctx context.Context) error {
	if !s.hasSwaps() {
		return nil
	}
	s.printTitle("A provider refunds a swap")
	if err := s.Info.SetSwapBehaviour(ctx, "refund", 1, 0); err != nil {
		return err
	}
	w, err := s.swapBetween("ETHEREUM", tokenAmount{s.ether.Symbol, "0.1"}, "SOLANA", "USDC")
	if err != nil {
		return err
	}
	before, err := s.loadBalance(ctx, w.source)
	if err != nil {
		return err
	}
	swap, err := s.requestSwap(ctx, w)
	if err != nil {
		return err
	}
	var failed webhook.SwapFailed
	if _, err := s.waitEvent(ctx, webhook.CustomerSwapFailed, &failed, func() bool {
		return failed.Swap.CustomerSwapID == swap.SwapID
	}); err != nil {
		return err
	}
	if swap, err = s.loadSwap(ctx, swap.SwapID); err != nil {
		return err
	}
	if swap.Status != "FAILED" || swap.RefundStatus != "REFUNDED" || swap.RefundedAmount == nil ||
		orNull(failed.RefundedAmount) != *swap.RefundedAmount {
		return fmt.Errorf("the swap is %+v, and its event says %+v", swap, failed)
	}
	s.printStep(
		"CUSTOMER_SWAP_FAILED: %s; %s ETH are back by %s, final", orNull(swap.FailureReason),
		formatWhole(*swap.RefundedAmount, w.source), orNull(swap.RefundTxHash),
	)
	if err := s.checkMoved(ctx, before, new(big.Int).Neg(w.amount), w.source); err != nil {
		return err
	}
	return s.restoreSwap(ctx, swap, w, before)
}

// restoreSwap restores a refunded swap twice: the second call changes nothing.
func (s *tourRun) restoreSwap(ctx context.Context, swap webhook.CustomerSwap, w plannedSwap, before balance) error {
	for range 2 {
		if err := s.api.postJSON(
			ctx, "/customer-swap/"+url.PathEscape(swap.SwapID)+"/restore", map[string]any{}, &swap,
		); err != nil {
			return err
		}
		if swap.RefundStatus != "RESTORED" || swap.RestoredAt == nil || swap.RefundedAmount == nil {
			return fmt.Errorf("the restored swap is %+v", swap)
		}
		refunded, ok := new(big.Int).SetString(*swap.RefundedAmount, 10)
		if !ok {
			return fmt.Errorf("%q is not an amount", *swap.RefundedAmount)
		}
		if err := s.checkMoved(ctx, before, refunded.Sub(refunded, w.amount), w.source); err != nil {
			return err
		}
	}
	s.printStep(
		"the marketplace restores it twice, and the customer has %s ETH again, once: %s",
		formatWhole(*swap.RefundedAmount, w.source), swap.RefundStatus,
	)
	return nil
}

// tourLateSwap ends the swap of startLateSwap: it failed by the word of its provider, which delivers
// nevertheless.
func (s *tourRun) tourLateSwap(ctx context.Context) error {
	if !s.hasSwaps() {
		return nil
	}
	s.printTitle("The first swap failed, and its delivery comes late")
	ctx, cancel := context.WithTimeout(ctx, lateSwapMax)
	defer cancel()
	var failed webhook.SwapFailed
	isFailed := func() bool { return failed.Swap.CustomerSwapID == s.lateSwap.SwapID }
	var err error
	for range int(lateSwapMax / stepMax) { // of which each waits for stepMax at most
		if _, err = s.waitEvent(ctx, webhook.CustomerSwapFailed, &failed, isFailed); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	swap, err := s.loadSwap(ctx, s.lateSwap.SwapID)
	if err != nil {
		return err
	}
	if swap.Status != "FAILED" || failed.RefundedAmount != nil || swap.DepositID != nil {
		return fmt.Errorf("the swap is %+v, and its event says %+v", swap, failed)
	}
	s.printStep(
		"CUSTOMER_SWAP_FAILED: %s, after the provider stood by its word for a minute; nothing has come back",
		orNull(swap.FailureReason),
	)
	var refused *apiError
	if err := s.api.postJSON(
		ctx, "/customer-swap/"+url.PathEscape(swap.SwapID)+"/restore", map[string]any{}, nil,
	); !errors.As(err, &refused) || refused.Code != "REFUND_NOT_RECEIVED" {
		return fmt.Errorf("a restore of what never came back got %w", err)
	}
	s.printStep("a restore is refused: %d %s", refused.Status, refused.Code)
	return s.releaseLateSwap(ctx, swap)
}

// strayArrival is what the operator reads of an arrival that no swap expects.
type strayArrival struct {
	DepositID string  `json:"depositId"`
	SwapID    string  `json:"swapId"`
	Reason    string  `json:"strayReason"`
	Amount    string  `json:"amount"`
	TxHash    string  `json:"txHash"`
	Decision  *string `json:"decision"`
}

// releaseLateSwap lets the provider deliver after the failure. The delivery waits in suspense until the
// operator credits it.
func (s *tourRun) releaseLateSwap(ctx context.Context, swap webhook.CustomerSwap) error {
	destination, err := s.findMint("SOLANA", "USDC")
	if err != nil {
		return err
	}
	before, err := s.loadBalance(ctx, destination)
	if err != nil {
		return err
	}
	if released, err := s.Info.ReleaseSwaps(ctx); err != nil || len(released) != 1 {
		return fmt.Errorf("the provider released %v: %w", released, err)
	}
	var stray strayArrival
	if err := s.waitUntil(ctx, "the late delivery is in the operator's queue", func() (bool, error) {
		var page struct {
			Data []strayArrival `json:"data"`
		}
		err := s.operator.getJSON(ctx, "/swap-arrivals?open=true&limit=100", &page)
		for _, a := range page.Data {
			if a.SwapID == swap.SwapID {
				stray = a
			}
		}
		return stray.DepositID != "", err
	}); err != nil {
		return err
	}
	if err := s.checkMoved(ctx, before, new(big.Int), destination); err != nil {
		return err
	}
	s.printStep(
		"the provider delivered %s USDC after all, by %s: %s, in suspense, and in no balance",
		formatWhole(stray.Amount, destination), stray.TxHash, stray.Reason,
	)
	if err := s.operator.postJSON(
		ctx, "/swap-arrivals/"+url.PathEscape(stray.DepositID)+"/decide",
		map[string]any{"decision": "CREDITED", "note": "the late delivery of the tour"}, &stray,
	); err != nil {
		return err
	}
	if orNull(stray.Decision) != "CREDITED" {
		return fmt.Errorf("the decided arrival is %+v", stray)
	}
	var d webhook.Deposit
	e, err := s.waitEvent(
		ctx, webhook.CustomerDeposit, &d, func() bool { return d.DepositID == stray.DepositID },
	)
	if err != nil {
		return err
	}
	if d.Swap != nil || d.Amount != stray.Amount || d.Source != "INTERNAL" {
		return fmt.Errorf("CUSTOMER_DEPOSIT of the late delivery is %+v", d)
	}
	amount, ok := new(big.Int).SetString(stray.Amount, 10)
	if !ok {
		return fmt.Errorf("%q is not an amount", stray.Amount)
	}
	if err := s.checkMoved(ctx, before, amount, destination); err != nil {
		return err
	}
	s.printStep(
		"the operator credits it: CUSTOMER_DEPOSIT number %d, source %s, and the swap stays %s", e.Sequence, d.Source,
		swap.Status,
	)
	return nil
}

// formatWhole formats atomic units as whole coins or tokens.
func formatWhole(units string, m localworld.Mint) string {
	amount, err := money.Parse(units)
	if err != nil {
		return units + " units"
	}
	return amount.Decimal(m.Decimals)
}
