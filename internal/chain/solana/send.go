package solana

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

var _ chain.Sender = (*Client)(nil)

// knownPhrases are the texts by which nodes say that they already have these bytes.
var knownPhrases = []string{"already been processed", "alreadyprocessed", "already processed"}

// Send gives the bytes to all providers at once. They neither simulate them nor rebroadcast them by
// themselves: the caller knows whether they are still wanted. No answer of a provider proves that
// the transaction is not out.
func (c *Client) Send(ctx context.Context, raw []byte) (chain.Answer, string) {
	_, hash, err := solanatx.VerifySigned(raw)
	if err != nil {
		return chain.Unknown, "not sent, because it is not a transaction of this service: " +
			"" + quorum.TruncateAnswer(err.Error())
	}
	return quorum.SendToAll(ctx, c.providers, func(ctx context.Context, p *provider) (chain.Answer, error) {
		var got chain.TxHash
		err := p.callMethod(ctx, &got, "sendTransaction", base64.StdEncoding.EncodeToString(raw),
			options{"encoding": "base64", "skipPreflight": true, "maxRetries": 0})
		if err != nil {
			return classifySendError(err), err
		}
		if got != hash {
			return chain.Unknown, fmt.Errorf("%s: accepted %s for %.90q", p.name, hash, string(got))
		}
		return chain.Accepted, nil
	})
}

func classifySendError(err error) chain.Answer {
	var rpcErr *rpcError
	if !errors.As(err, &rpcErr) {
		return chain.Unknown
	}
	text := strings.ToLower(rpcErr.Message)
	for _, w := range knownPhrases {
		if strings.Contains(text, w) {
			return chain.Known
		}
	}
	return chain.Unknown
}

// Build encodes the transaction of payments; it asks no provider. The package comment says where it
// takes the facts from that a payment lacks.
func (c *Client) Build(account chain.Address, s chain.Slot, fees chain.Fees, ps ...chain.Payment) ([]byte, error) {
	payload, err := c.buildPayload(account, ps, s, fees)
	if err != nil {
		return nil, fmt.Errorf("build on %s: %w", chain.Solana, err)
	}
	return payload, nil
}

func (c *Client) buildPayload(
	account chain.Address, ps []chain.Payment, s chain.Slot, fees chain.Fees,
) ([]byte, error) {
	if err := c.checkBatch(ps); err != nil {
		return nil, err
	}
	if len(ps) == 1 && ps[0].CreatesNonceAccount {
		return c.buildCreation(account, ps[0], s, fees)
	}
	t, err := c.draftTx(account, ps, s.Key)
	if err != nil {
		return nil, err
	}
	if err := c.setFees(&t, fees); err != nil {
		return nil, err
	}
	if fees.NonGas.Less(t.MaxCost()) {
		return nil, fmt.Errorf("it can cost %v lamports, and the fees allow %v", t.MaxCost(), fees.NonGas)
	}
	if makesOnly(ps) {
		return t.Payload()
	}
	if withAccounts, err := withTokenAccounts(t, ps); err != nil {
		return nil, err
	} else if !fees.NonGas.Less(withAccounts.MaxCost()) {
		t = withAccounts
	}
	return t.Payload()
}

// draftTx returns the transaction of payments without its fees; it creates no account.
func (c *Client) draftTx(account chain.Address, ps []chain.Payment, slotKey string) (solanatx.Tx, error) {
	nonceAccount, value, err := solanatx.ParseSlotKey(slotKey)
	if err != nil {
		return solanatx.Tx{}, err
	}
	if err := checkNonceAccount(account, nonceAccount); err != nil {
		return solanatx.Tx{}, err
	}
	t := solanatx.Tx{Payer: account, NonceAccount: nonceAccount, NonceValue: value}
	for _, p := range ps {
		if payer := feePayer(p); payer != account {
			return solanatx.Tx{}, fmt.Errorf("the fee payer is %s, not %s", payer, account)
		}
		if err := c.addPayment(&t, p); err != nil {
			return solanatx.Tx{}, err
		}
	}
	return t, nil
}

// addPayment adds a payment, for which it creates no account, or a close to a transaction.
func (c *Client) addPayment(t *solanatx.Tx, p chain.Payment) (err error) {
	var m Mint
	if p.Contract != "" {
		if m, err = c.configuredMint(p.Contract); err != nil {
			return err
		}
	}
	if p.CreatesTokenAccount {
		if len(t.Moves) > 0 || t.Creation != nil || p.Contract == "" {
			return fmt.Errorf("the creation of a token account of %s is no payment of several", p.To)
		}
		t.Creation = solanatx.NewCreation(p, m.Program)
		return nil
	}
	if p.ClosesTokenAccount {
		shut, err := solanatx.NewClose(p, m.Program)
		if err == nil && p.To != t.Payer {
			err = fmt.Errorf("the content of the account of %s goes to %s, the fee payer, and not to %s",
				p.From, t.Payer, p.To)
		}
		t.Closes = append(t.Closes, shut)
		return err
	}
	move, err := solanatx.NewMove(p, m.Program, m.Decimals, false)
	t.Moves = append(t.Moves, move)
	return err
}

// checkNonceAccount returns an error unless the address is one of the treasury's nonce accounts.
func checkNonceAccount(treasury, nonce chain.Address) error {
	addresses, err := nonceAccounts(treasury)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if a == nonce {
			return nil
		}
	}
	return fmt.Errorf("%s is not a nonce account of %s", nonce, treasury)
}

func feePayer(p chain.Payment) chain.Address {
	if p.Payer != "" {
		return p.Payer
	}
	return p.From
}

// withTokenAccounts returns a transaction that also creates the token accounts of its receivers:
// each once, with the first of the moves to it. It creates either all missing accounts or none,
// because the fees have room for one more number and not for a list.
func withTokenAccounts(t solanatx.Tx, ps []chain.Payment) (solanatx.Tx, error) {
	moves := slices.Clone(t.Moves)
	made := map[chain.Address]bool{}
	for i, m := range moves {
		if m.Mint == "" || made[m.To] {
			continue
		}
		made[m.To] = true
		var err error
		if moves[i], err = solanatx.NewMove(ps[i], m.TokenProgram, m.Decimals, true); err != nil {
			return t, err
		}
	}
	t.Moves = moves
	return t, nil
}

// setFees writes the fees into a transaction.
func (c *Client) setFees(t *solanatx.Tx, fees chain.Fees) error {
	price, ok := fees.TipCap.Uint64()
	switch {
	case !fees.FeeCap.IsZero():
		return fmt.Errorf("a fee cap of %v, although the cost is separate here", fees.FeeCap)
	case !ok || price > c.PriceMax:
		return fmt.Errorf("the price of %v a unit is above the configured %d", fees.TipCap, c.PriceMax)
	case c.CostMax.Less(fees.NonGas):
		return fmt.Errorf("it can cost %v, which is above the configured %v", fees.NonGas, c.CostMax)
	case fees.GasLimit == 0 || fees.GasLimit > solanatx.LimitMax:
		return fmt.Errorf("the limit is %d compute units, not 1 to %d", fees.GasLimit, solanatx.LimitMax)
	}
	t.Limit, t.Price = uint32(fees.GasLimit), price
	return nil
}

// Bump offers half as much again for a compute unit, up to the cap, for the same limit. There is no
// mempool in which one transaction replaces another. The first of them to be mined takes the nonce,
// and a higher price makes that likelier.
func (c *Client) Bump(_ context.Context, last chain.Fees) (chain.Fees, bool, error) {
	price, ok := last.TipCap.Uint64()
	if !ok || last.GasLimit > solanatx.LimitMax {
		return chain.Fees{}, false, fmt.Errorf("bump on %s: %+v are not fees of this chain", chain.Solana, last)
	}
	if price >= c.PriceMax {
		return chain.Fees{}, false, nil
	}
	bumped := last
	higher := min(price+price/2+1, c.PriceMax)
	bumped.TipCap = money.Units(higher)
	before, after := unitsCost(last.GasLimit, price), unitsCost(last.GasLimit, higher)
	var err error
	if bumped.NonGas, err = last.NonGas.Add(money.Units(after - before)); err != nil {
		return chain.Fees{}, false, fmt.Errorf("bump on %s: %w", chain.Solana, err)
	}
	if c.CostMax.Less(bumped.NonGas) {
		return chain.Fees{}, false, nil
	}
	return bumped, true, nil
}

// unitsCost returns what a limit costs at a price, in lamports, as the chain rounds it.
func unitsCost(limit, price uint64) uint64 {
	// At most 1.4 million times a price that Config bounds.
	return (limit*price + microLamports - 1) / microLamports
}

const microLamports = 1_000_000
