package tour

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"math/big"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/webhook"
)

// chainTour is what the tour does on a chain other than Ethereum, if the world has it.
type chainTour struct {
	chain, title string
	deposits     []tokenAmount // from outside
	withdrawals  []tokenAmount // paid afterwards, one after the other
	newAddress   func() (string, error)
	coin         string // smallest unit of the coin for fees
}

// tokenAmount is an amount of a token, in whole tokens.
type tokenAmount struct{ symbol, whole string }

var chainTours = []chainTour{
	{
		chain: "SOLANA", title: "Solana: native coin and a token, one address for both",
		deposits:    []tokenAmount{{"SOL", "1.5"}, {"USDC", "80"}},
		withdrawals: []tokenAmount{{"SOL", "0.4"}, {"USDC", "25"}},
		newAddress:  newSolanaAddress, coin: "lamports",
	},
	{
		chain: "BITCOIN", title: "Bitcoin: a payment from a deposit, and then from its change output",
		deposits:    []tokenAmount{{"BTC", "0.25"}},
		withdrawals: []tokenAmount{{"BTC", "0.1"}, {"BTC", "0.12"}},
		newAddress:  newBitcoinAddress, coin: "satoshi",
	},
}

// newSolanaAddress returns the address of a new wallet, which has received nothing.
func newSolanaAddress() (string, error) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	return base58.Encode(public), err
}

// newBitcoinAddress returns a new address, which has received nothing and whose key does not exist.
func newBitcoinAddress() (string, error) {
	var public [bitcointx.KeyBytes]byte
	_, err := rand.Read(public[:])
	return string(bitcointx.KeyAddress(&chaincfg.RegressionNetParams, public)), err
}

// tourOtherChains runs the tour of every chain other than Ethereum that this world has.
func (s *tourRun) tourOtherChains(ctx context.Context) error {
	for _, e := range chainTours {
		if _, ok := s.Info.Chains[e.chain]; !ok {
			continue
		}
		s.printTitle("%s", e.title)
		if err := s.depositParts(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", e.chain, err)
		}
		for _, p := range e.withdrawals {
			if err := s.withdrawPart(ctx, e, p); err != nil {
				return fmt.Errorf("%s: %w", e.chain, err)
			}
		}
	}
	return nil
}

// mintOf returns the mint of a tokenAmount and its atomic units.
func (s *tourRun) mintOf(chain string, p tokenAmount) (m localworld.Mint, amount *big.Int, err error) {
	for _, m = range s.Info.Mints {
		if m.Chain == chain && m.Symbol == p.symbol {
			units, err := money.ParseDecimal(p.whole, m.Decimals)
			return m, units.Big(), err
		}
	}
	return m, nil, fmt.Errorf("this world has no %s", p.symbol)
}

// depositParts makes the deposits from outside and waits for their events.
func (s *tourRun) depositParts(ctx context.Context, e chainTour) error {
	type sent struct {
		tokenAmount
		mint   localworld.Mint
		amount *big.Int
		hash   string
	}
	var payments []sent
	address := ""
	for _, p := range e.deposits {
		m, amount, err := s.mintOf(e.chain, p)
		if err != nil {
			return err
		}
		depositAddress, uri, err := s.addressAndURI(ctx, m)
		if err != nil {
			return err
		}
		if address != "" && depositAddress != address {
			return fmt.Errorf(
				"the customer's address of %s is %s, and %s for another mint", m.Symbol, depositAddress, address,
			)
		}
		address = depositAddress
		s.printStep("a wallet pays %s by %s", m.Symbol, uri)
		hash, err := s.Info.PayAddress(ctx, m, depositAddress, amount)
		if err != nil {
			return fmt.Errorf("pay from the faucet: %w", err)
		}
		s.printStep("sent %s %s from outside: %s", p.whole, p.symbol, hash)
		payments = append(payments, sent{p, m, amount, hash})
	}
	for _, x := range payments {
		if err := s.waitUntil(ctx, "the deposit of "+x.symbol+" is credited", func() (bool, error) {
			b, err := s.loadBalance(ctx, x.mint)
			return err == nil && b.Available == x.amount.String(), err
		}); err != nil {
			return err
		}
		var d webhook.Deposit
		ev, err := s.waitEvent(
			ctx, webhook.CustomerDeposit, &d,
			func() bool { return d.TxHash == x.hash && d.MintID != nil && *d.MintID == x.mint.ID },
		)
		if err != nil {
			return err
		}
		if d.Amount != x.amount.String() || d.Status != "CREDITED" || *d.CustomerID != s.customer ||
			d.Address != address {
			return fmt.Errorf("CUSTOMER_DEPOSIT is about another deposit: %+v", d)
		}
		s.printStep(
			"final: available is %s %s; CUSTOMER_DEPOSIT number %d, deposit %s", x.whole, x.symbol, ev.Sequence,
			d.DepositID,
		)
	}
	return nil
}

// withdrawPart requests a withdrawal and looks for it on the chain.
func (s *tourRun) withdrawPart(ctx context.Context, e chainTour, p tokenAmount) error {
	m, amount, err := s.mintOf(e.chain, p)
	if err != nil {
		return err
	}
	recipient, err := e.newAddress()
	if err != nil {
		return err
	}
	var w, sent webhook.Withdrawal
	if err := s.api.postJSON(ctx, "/withdraw", map[string]any{
		"mintId": m.ID, "customerId": s.customer, "amount": p.whole, "useDecimal": true, "toAddress": recipient,
		"idempotencyKey": "tour-" + randomHex(8),
	}, &w); err != nil {
		return err
	}
	if w.Status != "PROCESSING" {
		return fmt.Errorf(
			"withdrawal %s is %s, for %v; no rule should hold it", w.WithdrawalID, w.Status, w.ApprovalReasons,
		)
	}
	s.printStep("withdrawal %s of %s %s to %s: %s", w.WithdrawalID, p.whole, p.symbol, recipient, w.Status)
	if _, err := s.waitEvent(
		ctx, webhook.CustomerWithdraw, &sent, func() bool { return sent.WithdrawalID == w.WithdrawalID },
	); err != nil {
		return err
	}
	if sent.TxHash == nil || sent.Status != "BROADCAST" {
		return fmt.Errorf("CUSTOMER_WITHDRAW without a broadcast payment: %+v", sent)
	}
	s.printStep("CUSTOMER_WITHDRAW: broadcast as %s", *sent.TxHash)
	if err := s.waitUntil(ctx, "the withdrawal is completed", func() (bool, error) {
		err := s.api.getJSON(ctx, "/withdrawals/"+w.WithdrawalID, &w)
		return w.Status == "COMPLETED", err
	}); err != nil {
		return err
	}
	got, err := s.Holds(ctx, m, recipient)
	if err != nil {
		return err
	}
	if got.String() != amount.String() {
		return fmt.Errorf("the receiver has %s on the chain, want exactly %s", got, amount)
	}
	s.printStep(
		"final: the receiver has exactly %s %s on the chain; the network fee of %s %s is the organization's", p.whole,
		p.symbol, orNull(w.NetworkFee), e.coin,
	)
	return nil
}
