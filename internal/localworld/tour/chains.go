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

// An excursion is what the tour does on a chain beside Ethereum, when the world has it.
type excursion struct {
	chain, title string
	in           []part // what comes, from outside
	out          []part // what is paid out of it then, one after the other
	somewhere    func() (string, error)
	coin         string // that fees are in, as small as it gets
}

// A part is an amount of a token, in whole ones.
type part struct{ symbol, whole string }

var excursions = []excursion{
	{
		chain: "SOLANA", title: "Solana: its coin and a token, one address for both",
		in:        []part{{"SOL", "1.5"}, {"USDC", "80"}},
		out:       []part{{"SOL", "0.4"}, {"USDC", "25"}},
		somewhere: solanaSomewhere, coin: "lamports",
	},
	{
		chain: "BITCOIN", title: "Bitcoin: paid out of what came in, and then out of what was left of it",
		in:        []part{{"BTC", "0.25"}},
		out:       []part{{"BTC", "0.1"}, {"BTC", "0.12"}},
		somewhere: bitcoinSomewhere, coin: "satoshi",
	},
}

// solanaSomewhere is a wallet that nothing has been sent to yet.
func solanaSomewhere() (string, error) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	return base58.Encode(public), err
}

// bitcoinSomewhere is an address that nothing has been sent to yet, and that nobody has
// the key of.
func bitcoinSomewhere() (string, error) {
	var public [bitcointx.KeyBytes]byte
	_, err := rand.Read(public[:])
	return string(bitcointx.KeyAddress(&chaincfg.RegressionNetParams, public)), err
}

// abroad goes to every chain beside Ethereum that this world has.
func (s *story) abroad(ctx context.Context) error {
	for _, e := range excursions {
		if _, ok := s.Info.Chains[e.chain]; !ok {
			continue
		}
		s.title("%s", e.title)
		if err := s.come(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", e.chain, err)
		}
		for _, p := range e.out {
			if err := s.leave(ctx, e, p); err != nil {
				return fmt.Errorf("%s: %w", e.chain, err)
			}
		}
	}
	return nil
}

// mintOf finds a part's mint and what it is in atomic units.
func (s *story) mintOf(chain string, p part) (m localworld.Mint, amount *big.Int, err error) {
	for _, m = range s.Info.Mints {
		if m.Chain == chain && m.Symbol == p.symbol {
			units, err := money.ParseDecimal(p.whole, m.Decimals)
			return m, units.Big(), err
		}
	}
	return m, nil, fmt.Errorf("this world has no %s", p.symbol)
}

// come pays in from outside and follows it to the event.
func (s *story) come(ctx context.Context, e excursion) error {
	type sent struct {
		part
		mint   localworld.Mint
		amount *big.Int
		hash   string
	}
	var all []sent
	address := ""
	for _, p := range e.in {
		m, amount, err := s.mintOf(e.chain, p)
		if err != nil {
			return err
		}
		given, uri, err := s.addressAndURI(ctx, m)
		if err != nil {
			return err
		}
		if address != "" && given != address {
			return fmt.Errorf("the customer's address of %s is %s, and %s for another mint", m.Symbol, given, address)
		}
		address = given
		s.step("a wallet pays %s by %s", m.Symbol, uri)
		hash, err := s.Info.Pay(ctx, m, given, amount)
		if err != nil {
			return fmt.Errorf("pay from the faucet: %w", err)
		}
		s.step("sent %s %s from outside: %s", p.whole, p.symbol, hash)
		all = append(all, sent{p, m, amount, hash})
	}
	for _, x := range all {
		if err := s.until(ctx, "the deposit of "+x.symbol+" is credited", func() (bool, error) {
			b, err := s.balance(ctx, x.mint)
			return err == nil && b.Available == x.amount.String(), err
		}); err != nil {
			return err
		}
		var d webhook.Deposit
		ev, err := s.event(ctx, webhook.CustomerDeposit, &d, func() bool { return d.TxHash == x.hash && d.MintID != nil && *d.MintID == x.mint.ID })
		if err != nil {
			return err
		}
		if d.Amount != x.amount.String() || d.Status != "CREDITED" || *d.CustomerID != s.customer || d.Address != address {
			return fmt.Errorf("CUSTOMER_DEPOSIT tells of another deposit: %+v", d)
		}
		s.step("final: available is %s %s; CUSTOMER_DEPOSIT number %d, deposit %s", x.whole, x.symbol, ev.Sequence, d.DepositID)
	}
	return nil
}

// leave pays out and looks for it on the chain.
func (s *story) leave(ctx context.Context, e excursion, p part) error {
	m, amount, err := s.mintOf(e.chain, p)
	if err != nil {
		return err
	}
	to, err := e.somewhere()
	if err != nil {
		return err
	}
	var w, sent webhook.Withdrawal
	if err := s.api.post(ctx, "/withdraw", map[string]any{
		"mintId": m.ID, "customerId": s.customer, "amount": p.whole, "useDecimal": true, "toAddress": to, "idempotencyKey": "tour-" + random(8),
	}, &w); err != nil {
		return err
	}
	if w.Status != "PROCESSING" {
		return fmt.Errorf("withdrawal %s is %s, for %v; nothing should hold it", w.WithdrawalID, w.Status, w.ApprovalReasons)
	}
	s.step("withdrawal %s of %s %s to %s: %s", w.WithdrawalID, p.whole, p.symbol, to, w.Status)
	if _, err := s.event(ctx, webhook.CustomerWithdraw, &sent, func() bool { return sent.WithdrawalID == w.WithdrawalID }); err != nil {
		return err
	}
	if sent.TxHash == nil || sent.Status != "BROADCAST" {
		return fmt.Errorf("CUSTOMER_WITHDRAW without a broadcast payment: %+v", sent)
	}
	s.step("CUSTOMER_WITHDRAW: broadcast as %s", *sent.TxHash)
	if err := s.until(ctx, "the withdrawal is completed", func() (bool, error) {
		err := s.api.get(ctx, "/withdrawals/"+w.WithdrawalID, &w)
		return w.Status == "COMPLETED", err
	}); err != nil {
		return err
	}
	got, err := s.Holds(ctx, m, to)
	if err != nil {
		return err
	}
	if got.String() != amount.String() {
		return fmt.Errorf("the receiver has %s on the chain, want exactly %s", got, amount)
	}
	s.step("final: the receiver has exactly %s %s on the chain; the network fee of %s %s is the organization's", p.whole, p.symbol, text(w.NetworkFee), e.coin)
	return nil
}
