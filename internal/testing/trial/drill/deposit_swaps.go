package drill

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/webhook"
)

// depositor is the customer who pays a provider in a token that is no mint.
const depositor = "fay"

// depositSwap is a deposit swap of the depositor.
type depositSwap struct {
	key     string
	current webhook.DepositSwap
	amount  string // of the deposit, once it is credited
}

// requestDepositSwap requests a deposit swap of the provider's token.
func (d *swapDrill) requestDepositSwap(ctx context.Context, key string) (*depositSwap, error) {
	s := &depositSwap{key: key}
	d.depositSwaps = append(d.depositSwaps, s)
	return s, d.repeatDepositSwap(ctx, s)
}

// repeatDepositSwap sends the request of a deposit swap, perhaps again. The id follows from the key.
func (d *swapDrill) repeatDepositSwap(ctx context.Context, s *depositSwap) error {
	before := s.current.DepositSwapID
	token := d.world.Info.Swaps.Tokens[0]
	err := d.callAPI(ctx, http.StatusCreated, http.MethodPost, "/deposit-swap", map[string]any{
		"customerId": depositor, "originTokenId": "ethereum:" + strings.ToLower(token.ContractAddress),
		"amountIn": d.unitsEach.String(), "refundAddress": d.net.unusedAddress([]byte(d.dir + depositor)),
		"idempotencyKey": s.key,
	}, &s.current)
	if err == nil && before != "" && before != s.current.DepositSwapID {
		err = fmt.Errorf("key %s led to %s, and leads to %s now", s.key, before, s.current.DepositSwapID)
	}
	return err
}

// payDepositSwap pays a deposit swap from outside, and waits until it is completed.
func (d *swapDrill) payDepositSwap(ctx context.Context, s *depositSwap) error {
	token := d.world.Info.Swaps.Tokens[0]
	if _, err := d.world.Info.PayAddress(ctx, token.FaucetMint(), s.current.DepositAddress, d.unitsEach); err != nil {
		return err
	}
	return d.waitDepositSwap(ctx, s)
}

// waitDepositSwap waits until a deposit swap has brought its one deposit.
func (d *swapDrill) waitDepositSwap(ctx context.Context, s *depositSwap) error {
	return retryUntilDone(ctx, s.key+" is COMPLETED", func(ctx context.Context) error {
		err := d.callAPI(ctx, http.StatusOK, http.MethodGet, "/deposit-swap/"+s.current.DepositSwapID, nil, &s.current)
		if err != nil {
			return err
		}
		if s.current.Status != "COMPLETED" || s.current.AmountOut == nil || len(s.current.DepositIDs) != 1 {
			return fmt.Errorf("it is %+v", s.current)
		}
		if s.amount != "" && s.amount != *s.current.AmountOut {
			return fmt.Errorf("%s had arrived, and now %s has", s.amount, *s.current.AmountOut)
		}
		s.amount = *s.current.AmountOut
		return nil
	})
}

// waitOrphan waits until what arrived for a deposit swap without a row is found again. It waits for the row: it is no
// customer's and in no balance.
func (d *swapDrill) waitOrphan(ctx context.Context, s *depositSwap) error {
	return retryUntilDone(ctx, "the arrival of "+s.key+" waits", func(ctx context.Context) error {
		var waiting, decided int
		err := d.queryRow(ctx, `
			SELECT count(*) FILTER (WHERE status = 'SCREENING' AND customer_id IS NULL AND is_hidden),
				count(*) FILTER (WHERE NOT (status = 'SCREENING' AND customer_id IS NULL AND is_hidden))
			FROM deposits WHERE deposit_swap_id = $1`, []any{s.current.DepositSwapID}, &waiting, &decided)
		if err != nil {
			return err
		}
		var rows int
		if err := d.queryRow(ctx, `SELECT count(*) FROM deposit_swaps WHERE deposit_swap_id = $1`,
			[]any{s.current.DepositSwapID}, &rows); err != nil {
			return err
		}
		if waiting != 1 || decided != 0 || rows != 0 {
			return fmt.Errorf("%d wait, %d do not, and there are %d rows", waiting, decided, rows)
		}
		return nil
	})
}

// checkDepositSwaps checks that each deposit swap brought what the customer has, once.
func (d *swapDrill) checkDepositSwaps(ctx context.Context) error {
	total := new(big.Int)
	for _, s := range d.depositSwaps {
		if err := d.waitDepositSwap(ctx, s); err != nil {
			return err
		}
		units, isNumber := new(big.Int).SetString(s.amount, 10)
		if !isNumber {
			return fmt.Errorf("%s brought %q", s.key, s.amount)
		}
		total.Add(total, units)
	}
	transfers, err := d.world.Info.ListSwapTransfers(ctx)
	if err != nil {
		return err
	}
	delivered := "nothing"
	for _, sum := range transfers.Totals {
		if sum.Mint == d.dollarMint.ID {
			delivered = sum.Delivered.String()
		}
	}
	if delivered != total.String() {
		err = fmt.Errorf("the provider delivered %s for deposit swaps, and %s is credited", delivered, total)
	}
	return errors.Join(err, d.checkCustomer(ctx, depositor, d.dollarMint, total))
}

// findDollars returns the mint that deposit swaps bring.
func (d *swapDrill) findDollars() (localworld.Mint, error) {
	for _, m := range d.world.Info.Mints {
		if m.Symbol == "USDC" && m.Chain == "SOLANA" {
			return m, nil
		}
	}
	return localworld.Mint{}, errors.New("the world has no USDC on Solana")
}
