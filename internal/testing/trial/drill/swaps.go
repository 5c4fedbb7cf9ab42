package drill

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"path/filepath"

	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/swapdesk"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
	"github.com/cofferpay/coffer/webhook"
)

// swapper is the customer who swaps DAI into ETH.
const swapper = "eve"

// swap is a swap of the swapper, and how it has to end.
type swap struct {
	key, end string
	current  webhook.CustomerSwap
}

// swapDrill is a drill with swaps.
type swapDrill struct {
	*drillEnv
	outputMint localworld.Mint // what the swaps bring
	dollarMint localworld.Mint // what the deposit swaps bring
	swaps      []*swap
	unitsEach  *big.Int

	ownSwaps     []*ownSwap
	depositSwaps []*depositSwap
}

// playSwaps plays the restore of an older backup, while swaps are at several stages.
func playSwaps(ctx context.Context, h *drillEnv) error {
	d := &swapDrill{drillEnv: h, unitsEach: new(big.Int).Mul(big.NewInt(50), big.NewInt(params.Ether))}
	for _, m := range h.world.Info.Mints {
		switch m.Symbol {
		case "DAI":
			h.mint = m
		case "ETH":
			d.outputMint = m
		}
	}
	var err error
	if d.dollarMint, err = d.findDollars(); err != nil {
		return err
	}
	behave := func(mode swapdesk.Mode) error { return h.world.Info.SetSwapBehaviour(ctx, string(mode), 0, 0) }
	var open, lost *depositSwap
	backup := filepath.Join(h.dir, "backup")
	paidIn := new(big.Int).Mul(big.NewInt(2000), big.NewInt(params.Ether))
	return h.playSteps(
		"a customer pays in; a swap is done, and another one is with its provider", func() error {
			return errors.Join(
				h.payIn(ctx, swapper, paidIn), d.swapAndWait(ctx, "early", swapdesk.ModeNone, "COMPLETED"),
				d.startSwap(ctx, "stalled", swapdesk.ModeStall, "PROCESSING"),
			)
		},
		"the organization swaps its own money: one swap is with its provider, one waits for an approval", func() error {
			if err := d.enableOwnSwaps(ctx, paidIn); err != nil {
				return err
			}
			if err := d.startOwn(ctx, "own-paid", swapdesk.ModeStall, "PROCESSING"); err != nil {
				return err
			}
			if err := behave(swapdesk.ModeNone); err != nil {
				return err
			}
			_, err := d.requestOwn(ctx, "own-awaiting")
			return err
		},
		"a deposit swap is paid and credited, another one is requested", func() error {
			paid, err := d.requestDepositSwap(ctx, "ds-paid")
			if err != nil {
				return err
			}
			if err := d.payDepositSwap(ctx, paid); err != nil {
				return err
			}
			open, err = d.requestDepositSwap(ctx, "ds-open")
			return err
		},
		"a swap of the organization is approved, and no provider offers anything for it", func() error {
			return d.startOwn(ctx, "own-approved", swapdesk.ModeReject, "PENDING")
		},
		"PostgreSQL is backed up", func() error { return (baseBackup{}).backUpCluster(ctx, h, backup) },
		"after it: the output of a swap of the organization arrives and is paid to the whitelist", func() error {
			if _, err := h.world.Info.ReleaseSwaps(ctx); err != nil {
				return err
			}
			return d.waitOwnStatus(ctx, d.ownSwaps[0], "COMPLETED")
		},
		"after it: a provider makes an offer for the approved one, and has its payment", func() error {
			return errors.Join(
				behave(swapdesk.ModeStall), d.waitOwnStatus(ctx, d.ownSwaps[2], "PROCESSING"),
				behave(swapdesk.ModeNone),
			)
		},
		"after it: a deposit swap is paid and credited, and another one is requested and paid", func() (err error) {
			if err := d.payDepositSwap(ctx, open); err != nil {
				return err
			}
			if lost, err = d.requestDepositSwap(ctx, "ds-lost"); err != nil {
				return err
			}
			return d.payDepositSwap(ctx, lost)
		},
		"after it: a swap is done, one is refunded and restored, one is with its provider", func() error {
			return errors.Join(
				d.swapAndWait(ctx, "late", swapdesk.ModeNone, "COMPLETED"),
				d.swapAndWait(ctx, "refunded", swapdesk.ModeRefund, "FAILED"), d.restoreRefunded(ctx),
				d.startSwap(ctx, "stalled-late", swapdesk.ModeStall, "PROCESSING"),
			)
		},
		"after it: the payment of a swap is in the pool when everything stops", func() error {
			h.mining.Store(false)
			return d.startSwap(ctx, "flying", swapdesk.ModeNone, "DEPOSITING")
		},
		"the service is stopped, the backup restored, the journal imported", func() error {
			if err := h.world.StopService(); err != nil {
				return fmt.Errorf("end the service: %w", err)
			}
			return errors.Join(
				h.restoreBackup(ctx, baseBackup{}, backup), h.checkStartRefused(ctx, notImported), h.importJournal(ctx),
			)
		},
		"the service starts", func() error { return h.world.RestartService(ctx) },
		"every key leads to its swap",
		func() error { return errors.Join(d.repeatRequests(ctx), d.repeatOwnRequests(ctx)) },
		"blocks go on: what arrived for a deposit swap whose row is lost waits, and is no customer's", func() error {
			h.mining.Store(true)
			return d.waitOrphan(ctx, lost)
		},
		"its caller repeats the request with its key: it is the customer's, once", func() error {
			return errors.Join(d.repeatDepositSwap(ctx, lost), d.waitDepositSwap(ctx, lost))
		},
		"the deposit swap that the backup has leads to its address, and has its deposit again", func() error {
			before := open.current.DepositAddress
			if err := d.repeatDepositSwap(ctx, open); err != nil {
				return err
			}
			if open.current.DepositAddress != before {
				return fmt.Errorf("its address was %s and is %s", before, open.current.DepositAddress)
			}
			return d.waitDepositSwap(ctx, open)
		},
		"the provider delivers what it kept back: every swap comes to its end", func() error {
			if _, err := h.world.Info.ReleaseSwaps(ctx); err != nil {
				return err
			}
			return errors.Join(d.waitSwapsEnd(ctx), d.restoreRefunded(ctx), d.endOwnSwaps(ctx))
		},
		"books, chain, oracle and provider agree", func() error { return d.checkSwaps(ctx) },
		"the service goes on", func() error {
			return errors.Join(
				d.swapAndWait(ctx, "after", swapdesk.ModeNone, "COMPLETED"), d.checkSwaps(ctx),
			)
		},
	)
}

func (d *swapDrill) requestBody(key string) map[string]any {
	return map[string]any{
		"fromMintId": d.mint.ID, "toMintId": d.outputMint.ID, "amountIn": d.unitsEach.String(), "customerId": swapper,
		"idempotencyKey": key,
	}
}

// startSwap requests a swap with which its provider deals in a way, and waits until it has a status. It ends as
// COMPLETED.
func (d *swapDrill) startSwap(ctx context.Context, key string, mode swapdesk.Mode, status string) error {
	w := &swap{key: key, end: "COMPLETED"}
	d.swaps = append(d.swaps, w)
	if err := d.world.Info.SetSwapBehaviour(ctx, string(mode), 0, 0); err != nil {
		return err
	}
	err := d.callAPI(ctx, http.StatusAccepted, http.MethodPost, "/customer-swap", d.requestBody(key), &w.current)
	if err != nil {
		return err
	}
	return errors.Join(
		d.waitSwapStatus(ctx, w, status), d.world.Info.SetSwapBehaviour(ctx, string(swapdesk.ModeNone), 0, 0),
	)
}

// swapAndWait requests a swap and waits for its end.
func (d *swapDrill) swapAndWait(ctx context.Context, key string, mode swapdesk.Mode, end string) error {
	err := d.startSwap(ctx, key, mode, end)
	d.swaps[len(d.swaps)-1].end = end
	return err
}

func (d *swapDrill) waitSwapStatus(ctx context.Context, w *swap, status string) error {
	return retryUntilDone(ctx, w.key+" is "+status, func(ctx context.Context) error {
		err := d.callAPI(ctx, http.StatusOK, http.MethodGet, "/customer-swap/"+w.current.SwapID, nil, &w.current)
		if err == nil && w.current.Status != status {
			err = fmt.Errorf("it is %s", w.current.Status)
		}
		return err
	})
}

// repeatRequests requests every swap again: each key leads to its swap.
func (d *swapDrill) repeatRequests(ctx context.Context) error {
	for _, w := range d.swaps {
		var got webhook.CustomerSwap
		if err := d.callAPI(
			ctx, http.StatusAccepted, http.MethodPost, "/customer-swap", d.requestBody(w.key), &got,
		); err != nil {
			return fmt.Errorf("key %s again: %w", w.key, err)
		}
		if got.SwapID != w.current.SwapID {
			return fmt.Errorf("key %s led to %s, and leads to %s now", w.key, w.current.SwapID, got.SwapID)
		}
	}
	return nil
}

func (d *swapDrill) waitSwapsEnd(ctx context.Context) error {
	for _, w := range d.swaps {
		if err := d.waitSwapStatus(ctx, w, w.end); err != nil {
			return err
		}
	}
	return nil
}

// restoreRefunded restores what came back of the failed swaps.
func (d *swapDrill) restoreRefunded(ctx context.Context) error {
	for _, w := range d.swaps {
		if w.end != "FAILED" {
			continue
		}
		if err := d.callAPI(
			ctx, http.StatusOK, http.MethodPost, "/customer-swap/"+w.current.SwapID+"/restore", map[string]any{},
			&w.current,
		); err != nil {
			return err
		}
		if w.current.RefundStatus != "RESTORED" || w.current.RefundedAmount == nil {
			return fmt.Errorf("the restored swap %s is %+v", w.key, w.current)
		}
	}
	return nil
}

// checkSwaps compares the swaps with the books, the chain and what their provider did: each payment was made
// once, and each delivery and refund is credited once.
func (d *swapDrill) checkSwaps(ctx context.Context) error {
	if err := d.waitDrained(ctx); err != nil {
		return err
	}
	_, verified := d.runCoffer(ctx, 0, "verify")
	paid, delivered, refunded := new(big.Int), new(big.Int), new(big.Int)
	var claims []oracle.Claim
	for _, w := range d.swaps {
		var depositAddress string
		if err := d.queryRow(
			ctx, `SELECT deposit_address FROM swaps WHERE swap_id = $1`, []any{w.current.SwapID}, &depositAddress,
		); err != nil {
			return err
		}
		paid.Add(paid, d.unitsEach)
		sum, text := delivered, w.current.AmountOut
		if w.end == "FAILED" {
			sum, text = refunded, w.current.RefundedAmount
		}
		if text == nil || w.current.OriginTxHash == nil {
			return fmt.Errorf("%s has no amount or no payment: %+v", w.key, w.current)
		}
		units, err := money.Parse(*text)
		if err != nil {
			return fmt.Errorf("amount of %s: %w", w.key, err)
		}
		sum.Add(sum, units.Big())
		claims = append(claims, oracle.Claim{
			ID: w.key, Asset: d.assetID(), To: depositAddress, Amount: d.unitsEach, Paid: true,
			Tx: *w.current.OriginTxHash,
		})
	}
	left, product := new(big.Int).Sub(refunded, paid), new(big.Int)
	for _, p := range d.deposits {
		if p.customer == orgProduct {
			product.Add(product, p.units)
		} else {
			left.Add(left, p.units)
		}
	}
	ownClaims, ownDelivered, err := d.ownClaims(ctx)
	if err != nil {
		return err
	}
	ownPaid := new(big.Int).Mul(d.unitsEach, big.NewInt(int64(len(d.ownSwaps))))
	product.Sub(product, ownPaid)
	return errors.Join(
		verified, d.checkOwned(ctx, append(claims, ownClaims...), new(big.Int).Add(left, product)),
		d.checkProvider(ctx, new(big.Int).Add(paid, ownPaid), new(big.Int).Add(delivered, ownDelivered), refunded),
		d.checkCustomer(ctx, swapper, d.mint, left), d.checkCustomer(ctx, swapper, d.outputMint, delivered),
		d.checkProduct(ctx, d.mint.ID, product), d.checkProduct(ctx, d.outputMint.ID, new(big.Int)),
		d.checkDepositSwaps(ctx), d.integrator.compareBooks(nil, nil),
	)
}

// checkOwned has the oracle judge the payments, and compares what our addresses hold.
func (d *swapDrill) checkOwned(ctx context.Context, claims []oracle.Claim, left *big.Int) error {
	height, err := d.oracle.Walk(ctx)
	if err != nil {
		return err
	}
	ownAddresses, err := d.loadOwnAddresses(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, w := range d.oracle.Judge(claims, ownAddresses) {
		errs = append(errs, errors.New("oracle: "+w))
	}
	held := new(big.Int)
	for a := range ownAddresses {
		units, err := d.oracle.Holds(ctx, d.assetID(), a, height)
		if err != nil {
			return err
		}
		held.Add(held, units)
	}
	if held.Cmp(left) != 0 {
		errs = append(errs, fmt.Errorf("oracle: our addresses hold %s, want %s", held, left))
	}
	return errors.Join(errs...)
}

// checkProvider compares the sums of the swaps with those of their provider.
func (d *swapDrill) checkProvider(ctx context.Context, paid, delivered, refunded *big.Int) error {
	return retryUntilDone(ctx, "the provider has the same sums", func(ctx context.Context) error {
		transfers, err := d.world.Info.ListSwapTransfers(ctx)
		if err != nil {
			return err
		}
		for _, total := range transfers.Totals {
			isRight := true
			switch total.Mint {
			case d.mint.ID:
				isRight = total.Received.Big().Cmp(paid) == 0 && total.Refunded.Big().Cmp(refunded) == 0
			case d.outputMint.ID:
				isRight = total.Delivered.Big().Cmp(delivered) == 0
			}
			if !isRight {
				return fmt.Errorf(
					"it has %+v, want %s received, %s delivered, %s refunded", total, paid, delivered, refunded,
				)
			}
		}
		return nil
	})
}

// checkCustomer compares what a customer has of a mint, all of it available.
func (d *swapDrill) checkCustomer(ctx context.Context, customer string, m localworld.Mint, want *big.Int) error {
	var list struct {
		Data []struct {
			MintID           int
			Available, Total string
		}
	}
	if err := d.callAPI(
		ctx, http.StatusOK, http.MethodGet, "/customers/"+customer+"/balances", nil, &list,
	); err != nil {
		return err
	}
	for _, b := range list.Data {
		if b.MintID == m.ID && b.Available == want.String() && b.Total == want.String() {
			return nil
		}
	}
	return fmt.Errorf("%s has %+v, want %s of mint %d available", customer, list.Data, want, m.ID)
}
