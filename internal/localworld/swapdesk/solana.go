package swapdesk

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// solanaReserve pays fees, and the rent of the token accounts that the desk creates for recipients.
	solanaReserve = surfpool.LamportsPerSOL / 10
	// rentOfAccount is the rent-exempt minimum of an account without data. Less cannot be sent to a new one.
	rentOfAccount = 890_880
	// blockhashSlots is how long a transaction may be taken after its blockhash.
	blockhashSlots = 150
)

// The node's errors for a slot that has no block.
const (
	codeSkipped        = -32007
	codeSkippedLongAgo = -32009
)

// solanaChain is the local Solana chain.
type solanaChain struct {
	seed Seed
	node *surfpool.Node
	key  ed25519.PrivateKey // of the paying wallet
}

// DialSolana connects to surfpool with wallets from a seed.
func DialSolana(ctx context.Context, url string, seed Seed) (Chain, error) {
	node, err := surfpool.Dial(ctx, url)
	if err != nil {
		return nil, err
	}
	c := &solanaChain{seed: seed, node: node}
	c.key = c.walletKey(payingWallet)
	return c, nil
}

func (c *solanaChain) walletKey(n uint32) ed25519.PrivateKey {
	secret := c.seed.walletSecret("solana", n)
	return ed25519.NewKeyFromSeed(secret[:])
}

func (c *solanaChain) Name() chain.Name { return chain.Solana }
func (c *solanaChain) CloseClient()     { c.node.CloseClient() }

func (c *solanaChain) WalletAddress(n uint32) string {
	return string(surfpool.AddressOf(c.walletKey(n)))
}

func (c *solanaChain) CheckAddress(text string) error {
	_, err := solanatx.Parse(text)
	return err
}

func (c *solanaChain) callRPC(ctx context.Context, result any, method string, args ...any) error {
	if err := c.node.RPC.CallContext(ctx, result, method, args...); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

func (c *solanaChain) readSlot(ctx context.Context, commitment string) (slot uint64, err error) {
	return slot, c.callRPC(ctx, &slot, "getSlot", map[string]string{"commitment": commitment})
}

func (c *solanaChain) FinalHeight(ctx context.Context) (uint64, error) {
	return c.readSlot(ctx, "finalized")
}

// solanaBlock is a block with the balances before and after its transactions.
type solanaBlock struct {
	BlockTime    *int64              `json:"blockTime"`
	Transactions []solanaTransaction `json:"transactions"`
}

type solanaTransaction struct {
	Transaction struct {
		Signatures []string `json:"signatures"`
		Message    struct {
			AccountKeys []string `json:"accountKeys"`
		} `json:"message"`
	} `json:"transaction"`
	Meta struct {
		Err               any             `json:"err"`
		PreBalances       []uint64        `json:"preBalances"`
		PostBalances      []uint64        `json:"postBalances"`
		PreTokenBalances  []tokenBalance  `json:"preTokenBalances"`
		PostTokenBalances []tokenBalance  `json:"postTokenBalances"`
		LoadedAddresses   loadedAddresses `json:"loadedAddresses"`
	} `json:"meta"`
}

type loadedAddresses struct {
	Writable []string `json:"writable"`
	Readonly []string `json:"readonly"`
}

type tokenBalance struct {
	Mint          string `json:"mint"`
	Owner         string `json:"owner"`
	UITokenAmount struct {
		Amount string `json:"amount"`
	} `json:"uiTokenAmount"`
}

func (c *solanaChain) Arrivals(ctx context.Context, after, end uint64, watches []Watch) ([]Arrival, error) {
	watched := map[Watch]bool{}
	for _, w := range watches {
		watched[w] = true
	}
	var found []Arrival
	for slot := after + 1; slot <= end; slot++ {
		var block *solanaBlock
		err := c.callRPC(ctx, &block, "getBlock", slot, map[string]any{
			"commitment": "finalized", "transactionDetails": "full", "encoding": "json",
			"maxSupportedTransactionVersion": 1, "rewards": false,
		})
		if isSkipped(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("slot %d: %w", slot, err)
		}
		if block == nil {
			return nil, fmt.Errorf("slot %d: the node has no block", slot)
		}
		blockTime := time.Now()
		if block.BlockTime != nil {
			blockTime = timeOf(*block.BlockTime)
		}
		for _, tx := range block.Transactions {
			arrivals, err := tx.arrivals(watched, blockTime)
			if err != nil {
				return nil, fmt.Errorf("slot %d: %w", slot, err)
			}
			found = append(found, arrivals...)
		}
	}
	return found, nil
}

// isSkipped reports whether the node says that a slot has no block.
func isSkipped(err error) bool {
	var refusal rpc.Error
	if !errors.As(err, &refusal) {
		return false
	}
	return refusal.ErrorCode() == codeSkipped || refusal.ErrorCode() == codeSkippedLongAgo
}

// arrivals returns by how much a transaction raised the balances of watched addresses.
func (t solanaTransaction) arrivals(watched map[Watch]bool, blockTime time.Time) (found []Arrival, err error) {
	if t.Meta.Err != nil || len(t.Transaction.Signatures) == 0 {
		return nil, nil
	}
	hash := t.Transaction.Signatures[0]
	accounts := append(t.Transaction.Message.AccountKeys, t.Meta.LoadedAddresses.Writable...)
	for i, account := range append(accounts, t.Meta.LoadedAddresses.Readonly...) {
		if !watched[Watch{Address: account}] || i >= len(t.Meta.PostBalances) || i >= len(t.Meta.PreBalances) {
			continue
		}
		if before, after := t.Meta.PreBalances[i], t.Meta.PostBalances[i]; after > before {
			found = append(found, Arrival{
				Address: account, Hash: hash, Amount: money.Units(after - before), Time: blockTime,
			})
		}
	}
	before, err := tokenSums(t.Meta.PreTokenBalances, watched)
	if err != nil {
		return nil, err
	}
	after, err := tokenSums(t.Meta.PostTokenBalances, watched)
	for w, units := range after {
		if units > before[w] {
			found = append(found, Arrival{
				Address: w.Address, Hash: hash, Index: 1, Amount: money.Units(units - before[w]), Time: blockTime,
			})
		}
	}
	return found, err
}

// tokenSums sums the token accounts of watched owners.
func tokenSums(balances []tokenBalance, watched map[Watch]bool) (map[Watch]uint64, error) {
	sums := map[Watch]uint64{}
	for _, b := range balances {
		w := Watch{Address: b.Owner, Contract: b.Mint}
		if !watched[w] {
			continue
		}
		units, err := strconv.ParseUint(b.UITokenAmount.Amount, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("balance of %s: %w", b.Owner, err)
		}
		sums[w] += units
	}
	return sums, nil
}

func (c *solanaChain) FeeReserve() money.Amount { return money.Units(solanaReserve) }

func (c *solanaChain) MinPayment(contract string) money.Amount {
	if contract == "" {
		return money.Units(rentOfAccount)
	}
	return money.Units(1)
}

// tokenMint returns a token as instructions name it.
func tokenMint(contract string, decimals int) surfpool.Mint {
	return surfpool.Mint{Address: chain.Address(contract), Program: solanatx.TokenProgram, Decimals: byte(decimals)}
}

// Balance includes what was sent: the node runs a transaction as soon as it comes.
func (c *solanaChain) Balance(ctx context.Context, contract string, _ []Signed) (money.Amount, error) {
	owner := surfpool.AddressOf(c.key)
	processed := map[string]string{"commitment": "processed"}
	if contract == "" {
		var got struct {
			Value uint64 `json:"value"`
		}
		err := c.callRPC(ctx, &got, "getBalance", owner, processed)
		return money.Units(got.Value), err
	}
	account := tokenMint(contract, 0).AssociatedAccount(owner)
	var info struct {
		Value any `json:"value"`
	}
	if err := c.callRPC(ctx, &info, "getAccountInfo", account, map[string]string{
		"commitment": "processed", "encoding": "base64",
	}); err != nil || info.Value == nil {
		return money.Zero, err
	}
	var got struct {
		Value struct {
			Amount string `json:"amount"`
		} `json:"value"`
	}
	if err := c.callRPC(ctx, &got, "getTokenAccountBalance", account, processed); err != nil {
		return money.Zero, err
	}
	return money.Parse(got.Value.Amount)
}

func (c *solanaChain) SignPayment(ctx context.Context, p Payment, _ []Signed) (Signed, error) {
	units, isSmall := p.Amount.Uint64()
	if !isSmall {
		return Signed{}, errors.New("no amount on Solana has more than 64 bits")
	}
	slot, err := c.readSlot(ctx, "processed")
	if err != nil {
		return Signed{}, err
	}
	sender, recipient := surfpool.AddressOf(c.key), chain.Address(p.Recipient)
	tx := surfpool.Transaction{Keys: []ed25519.PrivateKey{c.key}}
	if p.Contract == "" {
		tx.Instructions = append(tx.Instructions, surfpool.TransferLamports(sender, recipient, units))
	} else {
		m := tokenMint(p.Contract, p.Decimals)
		tx.Instructions = append(
			tx.Instructions, m.CreateAccount(sender, recipient),
			m.TransferTokens(m.AssociatedAccount(sender), m.AssociatedAccount(recipient), sender, units),
		)
	}
	raw, hash, err := c.node.SignTx(ctx, tx)
	return Signed{Hash: string(hash), Raw: raw, Slot: slot}, err
}

func (c *solanaChain) SendPayment(ctx context.Context, s Signed) error {
	_, err := c.node.SendRaw(ctx, s.Raw)
	if err == nil {
		return nil
	}
	if slot, _, unknown := c.readStatus(ctx, s); unknown == nil && slot != nil {
		return nil // the node refused it because it has it
	}
	return err
}

// readStatus returns the slot that has a payment, if there is one, and whether the payment succeeded.
func (c *solanaChain) readStatus(ctx context.Context, s Signed) (slot *uint64, hasFailed bool, err error) {
	var got struct {
		Value []*struct {
			Slot uint64 `json:"slot"`
			Err  any    `json:"err"`
		} `json:"value"`
	}
	if err := c.callRPC(ctx, &got, "getSignatureStatuses", []string{s.Hash}, map[string]bool{
		"searchTransactionHistory": true,
	}); err != nil || len(got.Value) == 0 || got.Value[0] == nil {
		return nil, false, err
	}
	return &got.Value[0].Slot, got.Value[0].Err != nil, nil
}

func (c *solanaChain) ReadOutcome(ctx context.Context, s Signed) (Outcome, error) {
	// The final slot is read first: a payment that is unknown after it was in no block up to it.
	final, err := c.FinalHeight(ctx)
	if err != nil {
		return Waiting, err
	}
	slot, hasFailed, err := c.readStatus(ctx, s)
	switch {
	case err != nil:
		return Waiting, err
	case slot == nil && final > s.Slot+2*blockhashSlots:
		return Expired, nil
	case slot == nil || *slot > final:
		return Waiting, nil
	case hasFailed:
		return Reverted, nil
	}
	return Paid, nil
}
