package signedquote

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/money"
)

// relayBytesMax bounds an answer that is read at all: the provider describes fees and routes at length.
const relayBytesMax = 256 << 10

// RelayVM says how Relay writes the addresses of a chain into an order.
type RelayVM string

// The virtual machines whose addresses this package writes.
const (
	RelayEthereum RelayVM = "ethereum-vm"
	RelaySolana   RelayVM = "solana-vm"
	RelayBitcoin  RelayVM = "bitcoin-vm"
)

// RelayChain is a chain of Relay. The three addresses exist on chains of the EVM alone, and belong to the
// configuration: a deposit address is proven by them.
type RelayChain struct {
	VM RelayVM
	// Factory makes the contract behind a deposit address, as a clone of Implementation, and Depositor is the
	// account that orders name there.
	Factory, Implementation, Depositor common.Address
}

// RelayPins is what a caller knows about Relay by itself.
type RelayPins struct {
	Solvers []common.Address
	Chains  map[string]RelayChain // by the name of the chain in orders
}

// relayAnswer is the answer to a request for a strict deposit address, with the members that the order covers.
type relayAnswer struct {
	Steps []struct {
		DepositAddress string
	}
	Protocol struct {
		V2 struct {
			OrderID        string
			OrderData      relayOrder
			OrderSignature string
		}
	}
}

type relayOrder struct {
	Version       string
	SolverChainID string
	Solver        string
	Salt          string
	Inputs        []struct {
		Payment struct {
			ChainID, Currency, Amount, Weight string
		}
		Refunds []struct {
			ChainID, Recipient, Currency, MinimumAmount string
			Deadline                                    uint32
			ExtraData                                   string
		}
	}
	Output struct {
		ChainID  string
		Payments []struct {
			Recipient, Currency, MinimumAmount, ExpectedAmount string
		}
		Calls     []string
		Deadline  uint32
		ExtraData string
	}
	Fees []struct {
		RecipientChainID, Recipient, CurrencyChainID, Currency, Amount string
	}
}

// relayTypes are the EIP-712 types of an order, in the order of the provider's SDK.
var relayTypes = apitypes.Types{
	"Order": {
		{Name: "version", Type: "string"},
		{Name: "solverChainId", Type: "string"},
		{Name: "solver", Type: "address"},
		{Name: "salt", Type: "uint256"},
		{Name: "inputs", Type: "Input[]"},
		{Name: "output", Type: "Output"},
		{Name: "fees", Type: "Fee[]"},
	},
	"Input": {
		{Name: "payment", Type: "InputPayment"},
		{Name: "refunds", Type: "InputRefund[]"},
	},
	"InputPayment": {
		{Name: "chainId", Type: "string"},
		{Name: "currency", Type: "bytes"},
		{Name: "amount", Type: "uint256"},
		{Name: "weight", Type: "uint256"},
	},
	"InputRefund": {
		{Name: "chainId", Type: "string"},
		{Name: "recipient", Type: "bytes"},
		{Name: "currency", Type: "bytes"},
		{Name: "minimumAmount", Type: "uint256"},
		{Name: "deadline", Type: "uint32"},
		{Name: "extraData", Type: "bytes"},
	},
	"Output": {
		{Name: "chainId", Type: "string"},
		{Name: "payments", Type: "OutputPayment[]"},
		{Name: "deadline", Type: "uint32"},
		{Name: "calls", Type: "bytes[]"},
		{Name: "extraData", Type: "bytes"},
	},
	"OutputPayment": {
		{Name: "recipient", Type: "bytes"},
		{Name: "currency", Type: "bytes"},
		{Name: "minimumAmount", Type: "uint256"},
		{Name: "expectedAmount", Type: "uint256"},
	},
	"Fee": {
		{Name: "recipientChainId", Type: "string"},
		{Name: "recipient", Type: "bytes"},
		{Name: "currencyChainId", Type: "string"},
		{Name: "currency", Type: "bytes"},
		{Name: "amount", Type: "uint256"},
	},
}

// VerifyRelay verifies an answer of Relay to a request for a strict deposit address, as it came. It returns
// what the order promises. Errors: ErrMalformed, ErrUnsigned.
//
// The order is known by its EIP-712 hash, which its solver signs as a message (EIP-191). The deposit address
// follows from the hash by CREATE2, so no other address can take its place. A chain whose contracts are not pinned has
// no such proof, and its quotes are refused.
func VerifyRelay(raw []byte, pins RelayPins) (Quote, error) {
	if len(raw) > relayBytesMax {
		return Quote{}, fmt.Errorf("%w: %d bytes", ErrMalformed, len(raw))
	}
	var a relayAnswer
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&a); err != nil {
		return Quote{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Quote{}, fmt.Errorf("%w: more than one JSON value", ErrMalformed)
	}
	order := a.Protocol.V2.OrderData
	hash, err := order.hash(pins.Chains)
	if err != nil {
		return Quote{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if !strings.EqualFold(hash.Hex(), a.Protocol.V2.OrderID) {
		return Quote{}, fmt.Errorf("%w: the order has the hash %s and not the id %s", ErrUnsigned, hash.Hex(),
			a.Protocol.V2.OrderID)
	}
	if err := checkSolver(hash, order.Solver, a.Protocol.V2.OrderSignature, pins.Solvers); err != nil {
		return Quote{}, fmt.Errorf("%w: %w", ErrUnsigned, err)
	}
	q, err := order.quote()
	if err != nil {
		return Quote{}, err
	}
	if len(a.Steps) != 1 {
		return Quote{}, fmt.Errorf("%w: %d steps instead of one payment", ErrMalformed, len(a.Steps))
	}
	origin := order.Inputs[0].Payment.ChainID
	want, err := depositAddress(hash, pins.Chains[origin])
	if err != nil {
		return Quote{}, fmt.Errorf("%w: on %s: %w", ErrUnsigned, origin, err)
	}
	if !common.IsHexAddress(a.Steps[0].DepositAddress) || common.HexToAddress(a.Steps[0].DepositAddress) != want {
		return Quote{}, fmt.Errorf("%w: the deposit address %q does not follow from the order", ErrUnsigned,
			a.Steps[0].DepositAddress)
	}
	q.DepositAddress = want.Hex()
	return q, q.check()
}

// messagePrefix comes before the 32 bytes of a hash that a wallet signs as a message: EIP-191. The settlement of
// the provider checks the signature of an order so.
const messagePrefix = "\x19Ethereum Signed Message:\n32"

func checkSolver(hash common.Hash, named, signature string, pinned []common.Address) error {
	raw, err := hex.DecodeString(strings.TrimPrefix(signature, "0x"))
	if err != nil || len(raw) != crypto.SignatureLength {
		return fmt.Errorf("the solver's signature %q", signature)
	}
	if last := crypto.SignatureLength - 1; raw[last] >= 27 {
		raw[last] -= 27
	}
	key, err := crypto.SigToPub(crypto.Keccak256([]byte(messagePrefix), hash[:]), raw)
	if err != nil {
		return fmt.Errorf("the solver's signature: %w", err)
	}
	signer := crypto.PubkeyToAddress(*key)
	if !common.IsHexAddress(named) || common.HexToAddress(named) != signer || !slices.Contains(pinned, signer) {
		return fmt.Errorf("%s signed for the solver %s", signer, named)
	}
	return nil
}

// depositAddress returns the address of the clone that the factory makes for an order.
func depositAddress(order common.Hash, c RelayChain) (common.Address, error) {
	if c.VM != RelayEthereum || c.Factory == (common.Address{}) || c.Implementation == (common.Address{}) {
		return common.Address{}, fmt.Errorf("the contracts of deposit addresses are not pinned")
	}
	var salt [32]byte
	copy(salt[:], crypto.Keccak256(order[:], c.Depositor[:]))
	// The minimal proxy that the factory makes. It is that of Solady, and not the one that EIP-1167 shows.
	code := slices.Concat(
		common.FromHex("602c3d8160093d39f33d3d3d3d363d3d37363d73"), c.Implementation[:],
		common.FromHex("5af43d3d93803e602a57fd5bf3"),
	)
	return crypto.CreateAddress2(c.Factory, salt, crypto.Keccak256(code)), nil
}

// quote returns what an order promises. It refuses what goes beyond a plain transfer on both chains.
func (o relayOrder) quote() (Quote, error) {
	switch {
	case o.Version != "v1":
		return Quote{}, fmt.Errorf("%w: an order of version %q", ErrMalformed, o.Version)
	case len(o.Inputs) != 1 || len(o.Output.Payments) != 1:
		return Quote{}, fmt.Errorf("%w: %d payments for %d", ErrMalformed, len(o.Inputs), len(o.Output.Payments))
	case len(o.Output.Calls) != 0:
		return Quote{}, fmt.Errorf("%w: it calls contracts", ErrMalformed)
	}
	paid, delivered := o.Inputs[0].Payment, o.Output.Payments[0]
	q := Quote{
		Scheme:           RelayOrderV1,
		OriginAsset:      relayAsset(paid.ChainID, paid.Currency),
		DestinationAsset: relayAsset(o.Output.ChainID, delivered.Currency),
		Recipient:        delivered.Recipient, Deadline: time.Unix(int64(o.Output.Deadline), 0).UTC(),
	}
	var p parser
	q.AmountIn = p.amount("amount", paid.Amount)
	q.MinAmountIn = q.AmountIn
	q.AmountOut = p.amount("expectedAmount", delivered.ExpectedAmount)
	q.MinAmountOut = p.amount("minimumAmount", delivered.MinimumAmount)
	if p.err != nil {
		return Quote{}, p.err
	}
	for _, refund := range o.Inputs[0].Refunds {
		q.RefundTo = append(q.RefundTo, refund.Recipient)
		if refund.Deadline < o.Output.Deadline {
			return Quote{}, fmt.Errorf("%w: a refund ends before the output", ErrMalformed)
		}
	}
	q.SlippageBps = slippageOf(q.AmountOut, q.MinAmountOut)
	return q, nil
}

// relayAsset names an asset of an order.
func relayAsset(chainName, currency string) string {
	if strings.HasPrefix(currency, "0x") {
		currency = strings.ToLower(currency)
	}
	return chainName + ":" + currency
}

// slippageOf returns by how much less than the expected amount may arrive, in basis points, rounded up.
func slippageOf(expected, minimum money.Amount) int {
	if expected.IsZero() || expected.Less(minimum) {
		return 0 // check refuses such a quote
	}
	lost := new(big.Int).Sub(expected.Big(), minimum.Big())
	lost.Mul(lost, big.NewInt(10_000))
	whole, rest := lost.QuoRem(lost, expected.Big(), new(big.Int))
	bps := int(whole.Int64())
	if rest.Sign() > 0 {
		bps++
	}
	return bps
}

// hash returns the EIP-712 hash of an order, which is its id. The provider hashes it without a domain.
func (o relayOrder) hash(chains map[string]RelayChain) (common.Hash, error) {
	data, err := o.typed(chains)
	if err != nil {
		return common.Hash{}, err
	}
	// The library wants a domain, and leaves it out of the hash of a struct.
	typed := apitypes.TypedData{
		Types: relayTypes, PrimaryType: "Order", Domain: apitypes.TypedDataDomain{Name: "unused"}, Message: data,
	}
	sum, err := typed.HashStruct(typed.PrimaryType, data)
	if err != nil {
		return common.Hash{}, err
	}
	return common.BytesToHash(sum), nil
}

// typed returns an order in the form that is hashed: its addresses as bytes.
func (o relayOrder) typed(chains map[string]RelayChain) (apitypes.TypedDataMessage, error) {
	e := &relayEncoder{chains: chains}
	inputs, fees := []any{}, []any{}
	for _, input := range o.Inputs {
		refunds := []any{}
		for _, r := range input.Refunds {
			refunds = append(refunds, apitypes.TypedDataMessage{
				"chainId": r.ChainID, "recipient": e.address(r.ChainID, r.Recipient),
				"currency": e.address(r.ChainID, r.Currency), "minimumAmount": e.number(r.MinimumAmount),
				"deadline": big.NewInt(int64(r.Deadline)), "extraData": e.bytes(r.ExtraData),
			})
		}
		pay := input.Payment
		inputs = append(inputs, apitypes.TypedDataMessage{
			"payment": apitypes.TypedDataMessage{
				"chainId": pay.ChainID, "currency": e.address(pay.ChainID, pay.Currency),
				"amount": e.number(pay.Amount), "weight": e.number(pay.Weight),
			},
			"refunds": refunds,
		})
	}
	payments, calls := []any{}, []any{}
	for _, pay := range o.Output.Payments {
		payments = append(payments, apitypes.TypedDataMessage{
			"recipient": e.address(o.Output.ChainID, pay.Recipient),
			"currency":  e.address(o.Output.ChainID, pay.Currency), "minimumAmount": e.number(pay.MinimumAmount),
			"expectedAmount": e.number(pay.ExpectedAmount),
		})
	}
	for _, call := range o.Output.Calls {
		calls = append(calls, e.bytes(call))
	}
	for _, fee := range o.Fees {
		fees = append(fees, apitypes.TypedDataMessage{
			"recipientChainId": fee.RecipientChainID, "recipient": e.address(fee.RecipientChainID, fee.Recipient),
			"currencyChainId": fee.CurrencyChainID, "currency": e.address(fee.CurrencyChainID, fee.Currency),
			"amount": e.number(fee.Amount),
		})
	}
	if !common.IsHexAddress(o.Solver) {
		e.fail("the solver", o.Solver)
	}
	salt, isHex := new(big.Int).SetString(strings.TrimPrefix(o.Salt, "0x"), 16)
	if !isHex || !strings.HasPrefix(o.Salt, "0x") || salt.Sign() < 0 || salt.BitLen() > 256 {
		e.fail("the salt", o.Salt)
	}
	return apitypes.TypedDataMessage{
		"version": o.Version, "solverChainId": o.SolverChainID, "solver": o.Solver, "salt": salt, "inputs": inputs,
		"output": apitypes.TypedDataMessage{
			"chainId": o.Output.ChainID, "payments": payments, "calls": calls,
			"deadline": big.NewInt(int64(o.Output.Deadline)), "extraData": e.bytes(o.Output.ExtraData),
		},
		"fees": fees,
	}, e.err
}

// relayEncoder writes the values of an order and keeps the first error.
type relayEncoder struct {
	chains map[string]RelayChain
	err    error
}

func (e *relayEncoder) fail(name, text string) {
	if e.err == nil {
		e.err = fmt.Errorf("%s is %q", name, text)
	}
}

func (e *relayEncoder) number(text string) *big.Int {
	amount, err := money.Parse(text)
	if err != nil {
		e.fail("an amount", text)
	}
	return amount.Big()
}

func (e *relayEncoder) bytes(text string) []byte {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil || !strings.HasPrefix(text, "0x") {
		e.fail("a text of bytes", text)
	}
	return raw
}

func (e *relayEncoder) address(chainName, text string) []byte {
	raw, err := encodeRelayAddress(e.chains[chainName].VM, text)
	if err != nil {
		e.fail("an address of "+chainName, text)
	}
	return raw
}

// encodeRelayAddress writes an address as orders have it.
func encodeRelayAddress(vm RelayVM, text string) ([]byte, error) {
	switch vm {
	case RelayEthereum:
		if !common.IsHexAddress(text) {
			return nil, ErrMalformed
		}
		return common.HexToAddress(text).Bytes(), nil
	case RelaySolana:
		raw, err := base58.Decode(text)
		if err != nil || len(raw) != 32 {
			return nil, ErrMalformed
		}
		return raw, nil
	case RelayBitcoin:
		parsed, err := address.DecodeAddress(text, &chaincfg.MainNetParams)
		if err != nil {
			return nil, err
		}
		if !parsed.IsForNet(&chaincfg.MainNetParams) {
			return nil, fmt.Errorf("an address of another network")
		}
		return encodeBitcoin(parsed)
	}
	return nil, fmt.Errorf("no encoding of addresses for %q", vm)
}

// encodeBitcoin writes the version before the hash or the witness program.
func encodeBitcoin(parsed address.Address) ([]byte, error) {
	switch a := parsed.(type) {
	case *address.AddressPubKeyHash:
		return append([]byte{chaincfg.MainNetParams.PubKeyHashAddrID}, a.ScriptAddress()...), nil
	case *address.AddressScriptHash:
		return append([]byte{chaincfg.MainNetParams.ScriptHashAddrID}, a.ScriptAddress()...), nil
	case interface {
		WitnessVersion() byte
		WitnessProgram() []byte
	}:
		return append([]byte{a.WitnessVersion()}, a.WitnessProgram()...), nil
	}
	return nil, fmt.Errorf("no encoding of the address %s", parsed)
}
