package checkout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// nodeTimeout is how long a page waits for the node of a chain. A payer has other ways to pay.
const nodeTimeout = 5 * time.Second

// WalletPayment is a transaction without signatures with which the wallet of a payer pays an option.
type WalletPayment struct {
	Transaction []byte
	Mint        mint.Mint
	Amount      money.Amount
	ShopName    string
}

// WalletRefusal says why no transaction is made for the wallet of a payer.
type WalletRefusal string

// The refusals of wallet payments.
const (
	// AccountRefused is for a text that is no address of a wallet, and for an address of the shop.
	AccountRefused WalletRefusal = "ACCOUNT"
	// ClosedRefused is for a checkout that is not open.
	ClosedRefused WalletRefusal = "CLOSED"
	// OptionRefused is for a way to pay that is not opened, not of such a chain, or has no amount now.
	OptionRefused WalletRefusal = "OPTION"
	// AmountRefused is for an amount that is not the present one, which the payer has not seen.
	AmountRefused WalletRefusal = "AMOUNT"
	// FundsRefused is for an account that lacks the amount or the fee of the network.
	FundsRefused WalletRefusal = "FUNDS"
	// UnreadyRefused is for a payment that the chain would refuse for another reason.
	UnreadyRefused WalletRefusal = "UNREADY"
	// NodeRefused is for a chain of which no provider answers now.
	NodeRefused WalletRefusal = "NODE"
)

func refuseWallet(kind fault.Kind, code fault.Code, refusal WalletRefusal, format string, args ...any) *fault.Fault {
	return fault.New(kind, code, fault.NothingWritten, format, args...).WithDetail(RefusalDetail, string(refusal))
}

// WalletRequest is what a payer's wallet asks for.
type WalletRequest struct {
	MintID  int    // 0: the first option that is opened on a chain whose wallets are asked like this
	Account string // the address of the wallet
	// Amount is what the payer saw, in atomic units; "" if the wallet shows the amount itself.
	Amount string
}

// PublicWalletPayment makes the transaction with which a payer's wallet pays what is still due, at the address that
// checkouts share and with the reference of the option. It signs nothing and reserves nothing. The node is asked
// outside of every transaction. Errors: fault NOT_FOUND, and a fault with a WalletRefusal in its details. Rules CO-116
// and CO-117.
func (s *Service) PublicWalletPayment(
	ctx context.Context, checkoutID string, r WalletRequest,
) (paid WalletPayment, err error) {
	orgID, err := s.ownerOf(ctx, checkoutID)
	if err != nil {
		return paid, err
	}
	c, err := s.CheckoutByID(ctx, orgID, checkoutID)
	if err != nil {
		return paid, err
	}
	if c, err = s.Refresh(ctx, c); err != nil {
		return paid, err
	}
	now := s.DB.Clock()()
	if c.Status != outcome.Open || !now.Before(c.ExpiresAt) {
		return paid, refuseWallet(fault.Conflict, fault.InvalidState, ClosedRefused,
			"This checkout cannot be paid any more.").WithExtra("currentStatus", string(c.Status))
	}
	option, requests := s.requestedOption(c, r.MintID)
	// Without a price an option keeps its old quote, which may be over, or for more than what is still due.
	quote, hasQuote := option.Quote()
	if requests == nil || !hasQuote || c.awaitsValue() || c.needsQuote(option, now) {
		return paid, refuseWallet(fault.Unprocessable, fault.OptionUnavailable, OptionRefused,
			"This checkout cannot be paid with such a wallet now.")
	}
	if r.Amount != "" && r.Amount != quote.Amount.String() {
		return paid, refuseWallet(fault.Conflict, fault.InvalidAmount, AmountRefused,
			"The amount is %s now.", quote.Amount)
	}
	payer, err := s.Chains[option.Mint.Chain].AddressCodec.Parse(r.Account)
	if err != nil || payer == option.Shared.Address || payer == option.Wallet.Address {
		return paid, refuseWallet(fault.Invalid, fault.InvalidAddress, AccountRefused,
			"This is not the address of a wallet that can pay.").WithParam("account")
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	raw, err := requests.BuildRequest(ctx, chain.PaymentRequest{
		Payer: payer, Payee: option.Shared.Address, Contract: option.Mint.Contract, Amount: quote.Amount,
		Reference: [32]byte(option.Ref),
	})
	var reverted *chain.RevertedError
	switch {
	case err == nil:
		paid = WalletPayment{Transaction: raw, Mint: option.Mint, Amount: quote.Amount}
		paid.ShopName, err = s.loadShopName(ctx, orgID)
		return paid, err
	case errors.As(err, &reverted) && reverted.Cause == chain.CauseFunds:
		return paid, refuseWallet(fault.Unprocessable, fault.InsufficientBalance, FundsRefused,
			"The account does not have the amount and the fee of the network.")
	case errors.As(err, &reverted):
		s.warnOfRequest(ctx, c, option, err)
		return paid, refuseWallet(fault.Unprocessable, fault.OptionUnavailable, UnreadyRefused,
			"The network would refuse this payment.")
	}
	s.warnOfRequest(ctx, c, option, fmt.Errorf("ask the node: %w", err))
	return paid, refuseWallet(fault.Unavailable, fault.CodeUnavailable, NodeRefused,
		"No provider of %s answers now.", option.Mint.Chain)
}

// loadShopName returns what payers call an organization.
func (s *Service) loadShopName(ctx context.Context, orgID string) (name string, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT coalesce(s.shop_name, o.name)
			FROM organizations o LEFT JOIN checkout_settings s ON s.org_id = o.org_id
			WHERE o.org_id = $1`, orgID).Scan(&name)
	})
	if err != nil {
		return "", fmt.Errorf("read the name of the shop %s: %w", orgID, err)
	}
	return name, nil
}

// requestedOption returns the opened option of a mint, or the first one, that a wallet can pay at the shared address;
// requests is nil if there is none. Rule CO-139.
func (s *Service) requestedOption(c Checkout, mintID int) (found Option, requests chain.PaymentRequests) {
	for _, o := range c.Options {
		if mintID != 0 && o.Mint.ID != mintID || !o.TakesWallets || len(o.Ref) != len([32]byte{}) {
			continue
		}
		ch, isRunning := s.Chains[o.Mint.Chain]
		if !isRunning {
			continue
		}
		if requests, canRequest := ch.Reader.(chain.PaymentRequests); canRequest {
			return o, requests
		}
	}
	return Option{}, nil
}

// warnOfRequest logs why a wallet got no transaction: the payer reads no text of a node.
func (s *Service) warnOfRequest(ctx context.Context, c Checkout, o Option, err error) {
	if s.Log != nil {
		s.Log.WarnContext(ctx, "checkout: a wallet got no transaction", "checkout", c.ID, "mint", o.Mint.ID,
			"error", err)
	}
}
