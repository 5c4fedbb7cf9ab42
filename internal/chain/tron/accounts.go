package tron

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

// account is an account as nodes write it. An account that does not exist has no address.
type account struct {
	Address string `json:"address"`
	Balance int64  `json:"balance"`
	Type    string `json:"type"`
}

const contractAccount = "Contract"

func (p *provider) readAccount(ctx context.Context, state view, a chain.Address) (account, error) {
	digits, err := trontx.Hex(a)
	if err != nil {
		return account{}, err
	}
	var got account
	if err := p.callMethod(ctx, &got, state, "getaccount", requestParams{"address": digits}); err != nil {
		return account{}, err
	}
	if got.Address != "" && got.Address != digits || got.Balance < 0 {
		return account{}, p.WrapError("getaccount", errors.New("another account than in the question, or one below "+
			"zero"))
	}
	return got, nil
}

// isContract reports whether an address has a contract.
func (p *provider) isContract(ctx context.Context, a chain.Address) (bool, error) {
	digits, err := trontx.Hex(a)
	if err != nil {
		return false, err
	}
	var got struct {
		At string `json:"contract_address"`
	}
	if err := p.callMethod(ctx, &got, newest, "getcontract", requestParams{"value": digits}); err != nil {
		return false, err
	}
	if got.At != "" {
		return true, nil
	}
	acct, err := p.readAccount(ctx, newest, a)
	return acct.Type == contractAccount, err
}

// trialCall is the result of a call that a node tried out on the state of a view.
type trialCall struct {
	Result struct {
		OK      bool   `json:"result"`
		Code    string `json:"code"`
		Message string `json:"message"` // in hexadecimal
	} `json:"result"`
	Energy uint64   `json:"energy_used"`
	Data   []string `json:"constant_result"`
	Tx     struct {
		Ret []struct {
			Ret string `json:"ret"`
		} `json:"ret"`
	} `json:"transaction"`
}

// explainFailure returns why a call fails on the chain itself, or "". Error: the node could not try
// it.
func (t trialCall) explainFailure() (string, error) {
	message := t.Result.Message
	if b, err := hex.DecodeString(message); err == nil {
		message = string(b)
	}
	message = quorum.TruncateAnswer(message)
	if t.Result.OK {
		for _, r := range t.Tx.Ret {
			if r.Ret == "FAILED" {
				return orElse(message, "the contract refuses it"), nil
			}
		}
		return "", nil
	}
	// An exception of the virtual machine is the contract's own failure, unless the node lacked
	// time or memory.
	thrown := strings.Contains(message, "vm.program.Program$") && !strings.Contains(message, "OutOfTime") &&
		!strings.Contains(message, "StackOverFlow")
	if thrown || strings.Contains(message, "Smart contract is not exist") {
		return message, nil
	}
	return "", fmt.Errorf("the call could not be simulated: %.40s: %s", t.Result.Code, message)
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// tryCall asks a node to try out a call of a contract.
func (p *provider) tryCall(
	ctx context.Context, state view, from, contract chain.Address, selector string, words ...[32]byte,
) (trialCall, error) {
	const method = "triggerconstantcontract"
	owner, err := trontx.Hex(from)
	if err != nil {
		return trialCall{}, err
	}
	contractHex, err := trontx.Hex(contract)
	if err != nil {
		return trialCall{}, err
	}
	var parameter []byte
	for _, w := range words {
		parameter = append(parameter, w[:]...)
	}
	var got trialCall
	err = p.callMethod(ctx, &got, state, method, requestParams{
		"owner_address": owner, "contract_address": contractHex, "function_selector": selector,
		"parameter": hex.EncodeToString(parameter),
	})
	return got, err
}

// readTokenBalance returns the balance of a token at an address. silent is the reason why the token
// gives no balance.
func (p *provider) readTokenBalance(
	ctx context.Context, state view, h chain.Holding,
) (amount money.Amount, silent string, err error) {
	ownerWord, err := trontx.Word(h.Address)
	if err != nil {
		return money.Zero, "", err
	}
	got, err := p.tryCall(ctx, state, h.Address, h.Contract, "balanceOf(address)", ownerWord)
	if err != nil {
		return money.Zero, "", err
	}
	if silent, err = got.explainFailure(); err != nil {
		return money.Zero, "", p.WrapError("balanceOf", err)
	}
	if silent != "" {
		return money.Zero, silent, nil
	}
	if len(got.Data) != 1 {
		return money.Zero, "", p.WrapError("balanceOf", fmt.Errorf("%d answers of a contract, want one", len(got.Data)))
	}
	word, err := hex.DecodeString(got.Data[0])
	if err != nil {
		return money.Zero, "", p.WrapError("balanceOf", err)
	}
	if len(word) != idBytes {
		return money.Zero, fmt.Sprintf("it returns %d bytes for a balance", len(word)), nil
	}
	return money.FromUint256(new(uint256.Int).SetBytes(word)), "", nil
}

// Senders derives the senders from the transfers: one account sent each of them.
func (c *Client) Senders(_ context.Context, _ chain.Block, transfers []chain.Transfer) ([][]chain.Address, error) {
	return chain.Senders(transfers), nil
}

// Kind asks one provider after the other until the quorum says KeyAccount. The first provider that
// says ContractAccount decides.
//
// A provider that has the block looks at the account's current state. An address that became a
// contract after the block is a ContractAccount, which is what it is now.
func (c *Client) Kind(ctx context.Context, block chain.Block, address chain.Address) (chain.AccountKind, error) {
	votes := 0
	var errs []error
	for _, p := range c.providers {
		_, err := p.checkBlock(ctx, block)
		isContract := false
		if err == nil {
			isContract, err = p.isContract(ctx, address)
		}
		switch {
		case err != nil:
			errs = append(errs, err)
		case isContract:
			return chain.ContractAccount, nil
		default:
			if votes++; votes >= c.Quorum {
				return chain.KeyAccount, nil
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", fmt.Errorf("kind of %s in block %d of %s: %d of the %d providers of the quorum answered: %w",
		address, block.Height, chain.Tron, votes, c.Quorum, errors.Join(errs...))
}

// checkBlock checks that a provider has a block, and reports whether it calls the block final.
func (p *provider) checkBlock(ctx context.Context, block chain.Block) (final bool, err error) {
	head, err := p.readHeader(ctx, solidified, "")
	if err != nil {
		return false, err
	}
	h, err := p.readHeader(ctx, newest, heightText(block.Height))
	if errors.Is(err, errNoBlock) {
		err = fmt.Errorf("%w: %w", chain.ErrNotYet, err)
	}
	if err == nil && h.idText() != block.Hash {
		err = fmt.Errorf("%s: has block %s at height %d, not %s", p.name, h.idText(), block.Height, block.Hash)
	}
	return head.height >= block.Height, err
}
