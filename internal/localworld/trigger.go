package localworld

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/client"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/webhook"
)

const (
	// triggerMax is how long a trigger waits for one condition.
	triggerMax = time.Minute
	// blockPatience is how long a trigger that holds back the blocks waits for a payment before it
	// makes a block. The payment may wait for native coin to arrive.
	blockPatience       = 3 * time.Second
	triggerPollInterval = 50 * time.Millisecond
	// payoutTriesMax is how many payments a trigger makes until one is refused in time.
	payoutTriesMax = 3
	// opInvalid is code that accepts no native coin: INVALID (EIP-141).
	opInvalid = 0xfe
)

var errPaidFirst = errors.New("was paid before its destination refused")

// Trigger makes an incident of real operation happen in the world. It uses the API and the local
// Ethereum alone.
type Trigger struct {
	Info     Info
	Customer string // the customer of the deposit or withdrawal
	Report   func(format string, args ...any)

	api        *client.Client
	node       *anvil.Node
	nativeMint Mint
}

func (t *Trigger) connect(ctx context.Context) (err error) {
	endpoint, ok := t.Info.Chains[string(chain.Ethereum)]
	if !ok {
		return errors.New("this world has no Ethereum")
	}
	for _, m := range t.Info.Mints {
		if m.Chain == string(chain.Ethereum) && m.ContractAddress == nil {
			t.nativeMint = m
		}
	}
	if t.api, err = client.New(t.Info.BaseURL, t.Info.APIKey); err != nil {
		return err
	}
	t.node, err = anvil.Dial(ctx, endpoint.RPCURL)
	return err
}

// FailedPayout makes the chain revert a withdrawal: its destination refuses the coin after the
// transaction was sent and before a block contains it. It returns the failed withdrawal.
func (t *Trigger) FailedPayout(ctx context.Context) (w webhook.Withdrawal, err error) {
	if err := t.connect(ctx); err != nil {
		return w, err
	}
	defer t.node.CloseClient()
	for range payoutTriesMax {
		if w, err = t.failPayout(ctx); !errors.Is(err, errPaidFirst) {
			break
		}
		t.Report("%s was paid before its destination refused, so another payment is made", w.WithdrawalID)
	}
	return w, err
}

// failPayout makes one payment and lets its destination refuse it. Error: errPaidFirst if a block that the payment
// waited for already had it.
func (t *Trigger) failPayout(ctx context.Context) (w webhook.Withdrawal, err error) {
	const amount = "1000000000000000" // 0.001
	if err := t.ensureBalance(ctx, amount); err != nil {
		return w, err
	}
	var destination common.Address
	if _, err := rand.Read(destination[:]); err != nil {
		return w, err
	}
	release, err := t.holdBlocks(ctx)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, release()) }()
	w, err = t.api.CreateWithdrawal(ctx, client.WithdrawRequest{
		MintID: t.nativeMint.ID, CustomerID: t.Customer, Amount: amount, ToAddress: destination.Hex(),
		IdempotencyKey: "trigger-" + rand.Text(),
	})
	if err != nil {
		return w, fmt.Errorf("request a withdrawal: %w", err)
	}
	t.Report("%s pays 0.001 ETH of %s to %s", w.WithdrawalID, t.Customer, destination)
	last := time.Now()
	err = t.waitUntil(ctx, "the payment is sent", func() (bool, error) {
		if w, err = t.api.GetWithdrawal(ctx, w.WithdrawalID); err != nil {
			return false, err
		}
		if w.Status == "AWAITING_APPROVAL" {
			return false, fmt.Errorf(
				"%s waits for an approval, for %v: approve it with coffer withdrawals approve, or use another customer",
				w.WithdrawalID, w.ApprovalReasons,
			)
		}
		if w.TxHash != nil {
			return true, nil
		}
		if time.Since(last) > blockPatience {
			last = time.Now()
			return false, t.node.MineBlocks(ctx, 1)
		}
		return false, nil
	})
	if err != nil {
		return w, err
	}
	if err := t.node.SetCode(ctx, destination, []byte{opInvalid}); err != nil {
		return w, err
	}
	t.Report("transaction %s is sent, and %s refuses native coin from now on", *w.TxHash, destination)
	if err := release(); err != nil {
		return w, err
	}
	err = t.waitUntil(ctx, "the withdrawal ends", func() (bool, error) {
		if w, err = t.api.GetWithdrawal(ctx, w.WithdrawalID); err != nil {
			return false, err
		}
		if w.Status == "COMPLETED" {
			return false, fmt.Errorf("%s %w: try again", w.WithdrawalID, errPaidFirst)
		}
		return w.Status == "FAILED", nil
	})
	return w, err
}

// ReorgDeposit makes a block with a deposit, which another block then replaces. It returns the
// deposit, which is never credited.
func (t *Trigger) ReorgDeposit(ctx context.Context) (d webhook.Deposit, err error) {
	if err := t.connect(ctx); err != nil {
		return d, err
	}
	defer t.node.CloseClient()
	address, err := t.api.CreateDepositAddress(ctx, client.DepositRequest{
		MintID: t.nativeMint.ID, CustomerID: t.Customer,
	})
	if err != nil {
		return d, fmt.Errorf("ask for a deposit address: %w", err)
	}
	release, err := t.holdBlocks(ctx)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := t.node.MineBlocks(ctx, 1); err != nil { // keeps transactions that wait already out of the replaced block
		return d, err
	}
	hash, err := t.Info.SendFromFaucet(ctx, t.nativeMint, common.HexToAddress(address.Address), big.NewInt(1e15))
	if err == nil {
		err = t.node.MineBlocks(ctx, 1)
	}
	if err != nil {
		return d, err
	}
	t.Report("0.001 ETH is sent to %s of %s: %s", address.Address, t.Customer, hash)
	status := func(condition string, wanted ...string) error {
		return t.waitUntil(ctx, condition, func() (bool, error) {
			found, err := t.api.ListDeposits(ctx, client.ListDepositsParams{CustomerID: t.Customer, TxHash: hash.Hex()})
			if err != nil || len(found.Data) == 0 {
				return false, err
			}
			d = found.Data[0]
			for _, s := range wanted {
				if d.Status == s {
					return true, nil
				}
			}
			return false, nil
		})
	}
	if err := status("the deposit is seen", "DETECTED", "CONFIRMING"); err != nil {
		return d, err
	}
	t.Report("%s is seen: %s", d.DepositID, d.Status)
	if err := t.node.ReplaceBlocks(ctx, 1); err != nil {
		return d, err
	}
	t.Report("its block is replaced by one without it")
	if err := release(); err != nil {
		return d, err
	}
	return d, status("the deposit is gone", "ORPHANED")
}

// ensureBalance gives the customer an amount of the coin, unless the customer has it.
func (t *Trigger) ensureBalance(ctx context.Context, amount string) error {
	want, _ := new(big.Int).SetString(amount, 10)
	available := func() (bool, error) {
		balances, err := t.api.ListCustomerBalances(ctx, t.Customer)
		if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == 404 {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		for _, b := range balances.Data {
			if b.MintID == t.nativeMint.ID {
				held, ok := new(big.Int).SetString(b.Available, 10)
				return ok && held.Cmp(want) >= 0, nil
			}
		}
		return false, nil
	}
	if sufficient, err := available(); err != nil || sufficient {
		return err
	}
	address, err := t.api.CreateDepositAddress(ctx, client.DepositRequest{
		MintID: t.nativeMint.ID, CustomerID: t.Customer,
	})
	if err != nil {
		return fmt.Errorf("ask for a deposit address: %w", err)
	}
	if _, err := t.Info.SendFromFaucet(
		ctx, t.nativeMint, common.HexToAddress(address.Address), new(big.Int).Mul(want, big.NewInt(10)),
	); err != nil {
		return err
	}
	t.Report("the faucet pays 0.01 ETH to %s, so that %s has something to withdraw", address.Address, t.Customer)
	return t.waitUntil(ctx, "the deposit is credited", available)
}

// holdBlocks stops the clock that makes blocks. release restarts it, once.
func (t *Trigger) holdBlocks(ctx context.Context) (release func() error, err error) {
	interval, err := t.node.IntervalMining(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.node.SetIntervalMining(ctx, 0); err != nil {
		return nil, err
	}
	released := false
	return func() error {
		if released {
			return nil
		}
		released = true
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), triggerMax)
		defer cancel()
		return t.node.SetIntervalMining(ctx, interval)
	}, nil
}

// waitUntil polls until a condition holds.
func (t *Trigger) waitUntil(ctx context.Context, condition string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, triggerMax)
	defer cancel()
	for {
		if ok, err := holds(); err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s until %s: %w", triggerMax, condition, context.Cause(ctx))
		case <-time.After(triggerPollInterval):
		}
	}
}
