package quotetest

import (
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/money"
)

// Relay are the terms of an order of Relay with a strict deposit address.
type Relay struct {
	Origin, Destination                 string // chains, as orders name them
	OriginCurrency, DestinationCurrency string
	AmountIn                            money.Amount
	AmountOut, MinAmountOut             money.Amount
	Recipient, RefundTo                 string
	Salt                                int // tells orders of the same terms apart
	Deadline                            time.Time
	// The contracts from which the deposit address follows.
	Factory, Implementation, Depositor string
}

// Sign returns the answer with the order, signed by a solver, as it comes, and its deposit address.
func (q Relay) Sign(t testing.TB, solver *ecdsa.PrivateKey) (raw []byte, depositAddress string) {
	t.Helper()
	deadline := int(q.Deadline.Unix())
	order := map[string]any{
		"version": "v1", "solverChainId": q.Origin, "solver": crypto.PubkeyToAddress(solver.PublicKey).Hex(),
		"salt": fmt.Sprintf("0x%x", q.Salt),
		"inputs": []any{map[string]any{
			"payment": map[string]any{
				"chainId": q.Origin, "currency": q.OriginCurrency, "amount": q.AmountIn.String(), "weight": "1",
			},
			"refunds": []any{map[string]any{
				"chainId": q.Origin, "recipient": q.RefundTo, "currency": q.OriginCurrency, "minimumAmount": "0",
				"deadline": deadline, "extraData": "0x",
			}},
		}},
		"output": map[string]any{
			"chainId": q.Destination,
			"payments": []any{map[string]any{
				"recipient": q.Recipient, "currency": q.DestinationCurrency,
				"minimumAmount": q.MinAmountOut.String(), "expectedAmount": q.AmountOut.String(),
			}},
			"calls": []any{}, "deadline": deadline, "extraData": "0x",
		},
		"fees": []any{},
	}
	hash := HashRelayOrder(order)
	signature := SignRelayOrder(t, hash, solver)
	depositAddress = RelayDepositAddress(hash, q.Factory, q.Implementation, q.Depositor)
	raw, err := json.Marshal(map[string]any{
		"steps": []any{map[string]any{"depositAddress": depositAddress}},
		"protocol": map[string]any{"v2": map[string]any{
			"orderId": hash.Hex(), "orderData": order, "orderSignature": signature,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw, depositAddress
}

// SignRelayOrder signs the id of an order as a wallet signs a message.
func SignRelayOrder(t testing.TB, order common.Hash, solver *ecdsa.PrivateKey) string {
	t.Helper()
	signature, err := crypto.Sign(accounts.TextHash(order[:]), solver)
	if err != nil {
		t.Fatal(err)
	}
	signature[crypto.RecoveryIDOffset] += 27 // as wallets write it
	return "0x" + hex.EncodeToString(signature)
}

// RelayDepositAddress returns the address as the factory computes it: the last 20 bytes of the hash of its parts.
func RelayDepositAddress(order common.Hash, factory, implementation, depositor string) string {
	salt := crypto.Keccak256(order[:], common.FromHex(depositor))
	code := crypto.Keccak256(common.FromHex("0x602c3d8160093d39f33d3d3d3d363d3d37363d73" +
		strings.TrimPrefix(implementation, "0x") + "5af43d3d93803e602a57fd5bf3"))
	return common.BytesToAddress(crypto.Keccak256([]byte{0xff}, common.FromHex(factory), salt, code)).Hex()
}

// The types of an order, written out: this hash shares nothing with the code under test.
var orderTypes = map[string]string{
	"Order": "Order(string version,string solverChainId,address solver,uint256 salt," +
		"Input[] inputs,Output output,Fee[] fees)",
	"Fee": "Fee(string recipientChainId,bytes recipient," +
		"string currencyChainId,bytes currency,uint256 amount)",
	"Input":        "Input(InputPayment payment,InputRefund[] refunds)",
	"InputPayment": "InputPayment(string chainId,bytes currency,uint256 amount,uint256 weight)",
	"InputRefund": "InputRefund(string chainId,bytes recipient,bytes currency," +
		"uint256 minimumAmount,uint32 deadline,bytes extraData)",
	"Output":        "Output(string chainId,OutputPayment[] payments,uint32 deadline,bytes[] calls,bytes extraData)",
	"OutputPayment": "OutputPayment(bytes recipient,bytes currency,uint256 minimumAmount,uint256 expectedAmount)",
}

// encodeStruct hashes a struct of words, with the types that it refers to in alphabetical order.
func encodeStruct(name string, referred []string, words ...[]byte) []byte {
	text := orderTypes[name]
	for _, r := range referred {
		text += orderTypes[r]
	}
	parts := [][]byte{crypto.Keccak256([]byte(text))}
	return crypto.Keccak256(append(parts, words...)...)
}

func wordOf(value any) []byte {
	number := new(big.Int)
	switch v := value.(type) {
	case int:
		number.SetInt64(int64(v))
	case string:
		if _, isNumber := number.SetString(v, 0); !isNumber {
			panic("not a number: " + v)
		}
	}
	return common.LeftPadBytes(number.Bytes(), 32)
}

func textWord(value any) []byte  { return crypto.Keccak256([]byte(value.(string))) }
func bytesWord(value any) []byte { return crypto.Keccak256(common.FromHex(value.(string))) }

// HashRelayOrder returns the id of an order: its EIP-712 hash without a domain.
func HashRelayOrder(order map[string]any) common.Hash {
	var inputs, payments, calls []byte
	for _, entry := range order["inputs"].([]any) {
		input := entry.(map[string]any)
		pay := input["payment"].(map[string]any)
		payment := encodeStruct("InputPayment", nil, textWord(pay["chainId"]), bytesWord(pay["currency"]),
			wordOf(pay["amount"]), wordOf(pay["weight"]))
		var refunds []byte
		for _, entry := range input["refunds"].([]any) {
			r := entry.(map[string]any)
			refunds = append(refunds, encodeStruct("InputRefund", nil, textWord(r["chainId"]),
				bytesWord(r["recipient"]), bytesWord(r["currency"]), wordOf(r["minimumAmount"]),
				wordOf(r["deadline"]), bytesWord(r["extraData"]))...)
		}
		inputs = append(inputs, encodeStruct("Input", []string{"InputPayment", "InputRefund"}, payment,
			crypto.Keccak256(refunds))...)
	}
	output := order["output"].(map[string]any)
	for _, entry := range output["payments"].([]any) {
		pay := entry.(map[string]any)
		payments = append(payments, encodeStruct("OutputPayment", nil, bytesWord(pay["recipient"]),
			bytesWord(pay["currency"]), wordOf(pay["minimumAmount"]), wordOf(pay["expectedAmount"]))...)
	}
	for _, call := range output["calls"].([]any) {
		calls = append(calls, bytesWord(call)...)
	}
	outputHash := encodeStruct("Output", []string{"OutputPayment"}, textWord(output["chainId"]),
		crypto.Keccak256(payments), wordOf(output["deadline"]), crypto.Keccak256(calls),
		bytesWord(output["extraData"]))
	return common.BytesToHash(encodeStruct(
		"Order", []string{"Fee", "Input", "InputPayment", "InputRefund", "Output", "OutputPayment"},
		textWord(order["version"]), textWord(order["solverChainId"]),
		common.LeftPadBytes(common.FromHex(order["solver"].(string)), 32), wordOf(order["salt"]),
		crypto.Keccak256(inputs), outputHash, crypto.Keccak256(),
	))
}
