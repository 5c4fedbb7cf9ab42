package signedquote

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/money"
)

// relayChains are the chains of the provider's samples and one of each other machine. The contracts are made
// up: the provider publishes none.
func relayChains() map[string]RelayChain {
	pinned := RelayChain{
		VM: RelayEthereum, Factory: common.HexToAddress("0xfac0000000000000000000000000000000000001"),
		Implementation: common.HexToAddress("0x1e70000000000000000000000000000000000002"),
		Depositor:      common.HexToAddress("0xdeb0000000000000000000000000000000000003"),
	}
	return map[string]RelayChain{
		"base": pinned, "optimism": pinned, "solana": {VM: RelaySolana}, "bitcoin": {VM: RelayBitcoin},
	}
}

// The hashes of the two orders that the provider's documentation shows are the ids that stand beside them.
func TestOrdersOfTheDocumentationHaveTheirIDs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"relay-open", "relay-strict"} {
		var a relayAnswer
		if err := json.Unmarshal(readSample(t, name), &a); err != nil {
			t.Fatal(err)
		}
		hash, err := a.Protocol.V2.OrderData.hash(relayChains())
		if err != nil || hash.Hex() != a.Protocol.V2.OrderID {
			t.Errorf("%s: got the hash %s and %v, want %s", name, hash, err, a.Protocol.V2.OrderID)
		}
	}
}

// The deposit address is that of the provider's factory. The values are those that its contracts, compiled from
// their published source, gave on a chain of our own for the strict order of the documentation.
func TestADepositAddressIsThatOfTheFactory(t *testing.T) {
	t.Parallel()
	order := common.HexToHash("0x67ffde85c03352d45f9b073ef15fc73c656115d1c472de76aff9c66580eb5dc7")
	factory := common.HexToAddress("0x5fbdb2315678afecb367f032d93f642f64180aa3")
	got, err := depositAddress(order, RelayChain{
		VM: RelayEthereum, Factory: factory,
		// The factory makes its implementation with its first transaction.
		Implementation: crypto.CreateAddress(factory, 1),
		Depositor:      common.HexToAddress("0xf0ae622e463fa757cf72243569e18be7df1996cd"),
	})
	want := common.HexToAddress("0xc6f7855061441c300a15b38a6bc191e8d15a44ee")
	if err != nil || got != want {
		t.Errorf("got %s and %v, want %s", got, err, want)
	}
}

// relayDesk signs orders as a solver does.
type relayDesk struct {
	t    *testing.T
	sign func(common.Hash) string
	// signBare signs a hash itself, which a solver does for no order.
	signBare func(common.Hash) string
	pins     RelayPins
}

func newRelayDesk(t *testing.T) *relayDesk {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return &relayDesk{
		t: t,
		pins: RelayPins{
			Solvers: []common.Address{crypto.PubkeyToAddress(key.PublicKey)}, Chains: relayChains(),
		},
		sign: func(hash common.Hash) string {
			message := fmt.Sprintf("\x19Ethereum Signed Message:\n32%s", hash[:])
			signature, err := crypto.Sign(crypto.Keccak256([]byte(message)), key)
			if err != nil {
				t.Fatal(err)
			}
			return "0x" + hex.EncodeToString(signature)
		},
		signBare: func(hash common.Hash) string {
			signature, err := crypto.Sign(hash[:], key)
			if err != nil {
				t.Fatal(err)
			}
			return "0x" + hex.EncodeToString(signature)
		},
	}
}

// answer returns the strict sample with changes, signed anew.
func (d *relayDesk) answer(change func(order, v2 map[string]any)) []byte {
	d.t.Helper()
	answer := decodeObject(d.t, readSample(d.t, "relay-strict"))
	v2 := answer["protocol"].(map[string]any)["v2"].(map[string]any)
	order := v2["orderData"].(map[string]any)
	order["solver"] = d.pins.Solvers[0].Hex()
	if change != nil {
		change(order, nil)
	}
	raw, err := json.Marshal(order)
	if err != nil {
		d.t.Fatal(err)
	}
	var parsed relayOrder
	if err := json.Unmarshal(raw, &parsed); err != nil {
		d.t.Fatal(err)
	}
	hash, err := parsed.hash(d.pins.Chains)
	if err != nil {
		d.t.Logf("the order has no hash: %v", err)
	}
	v2["orderId"], v2["orderSignature"] = hash.Hex(), d.sign(hash)
	c := d.pins.Chains["base"]
	// The address as the factory computes it: the last 20 bytes of the hash of its parts.
	salt := crypto.Keccak256(hash[:], c.Depositor[:])
	code := crypto.Keccak256(common.FromHex(
		"0x602c3d8160093d39f33d3d3d3d363d3d37363d73" + hex.EncodeToString(c.Implementation[:]) +
			"5af43d3d93803e602a57fd5bf3"))
	address := common.BytesToAddress(crypto.Keccak256([]byte{0xff}, c.Factory[:], salt, code))
	answer["steps"] = []any{map[string]any{"depositAddress": address.Hex()}}
	if change != nil {
		change(nil, v2)
		if steps, ok := v2["steps"]; ok {
			answer["steps"] = steps
			delete(v2, "steps")
		}
	}
	raw, err = json.Marshal(answer)
	if err != nil {
		d.t.Fatal(err)
	}
	return raw
}

func TestASignedOrderIsAQuote(t *testing.T) {
	t.Parallel()
	d := newRelayDesk(t)
	q, err := VerifyRelay(d.answer(nil), d.pins)
	if err != nil {
		t.Fatal(err)
	}
	eth := "0x0000000000000000000000000000000000000000"
	me := "0xF0AE622e463fa757Cf72243569E18Be7Df1996cd"
	if !common.IsHexAddress(q.DepositAddress) {
		t.Errorf("got the deposit address %q", q.DepositAddress)
	}
	q.DepositAddress = ""
	want := Quote{
		Scheme: RelayOrderV1, OriginAsset: "base:" + eth, DestinationAsset: "optimism:" + eth,
		AmountIn: money.MustParse("100000000000000000"), MinAmountIn: money.MustParse("100000000000000000"),
		AmountOut: q.AmountOut, MinAmountOut: q.MinAmountOut, Recipient: me, RefundTo: []string{me, me},
		SlippageBps: 200, Deadline: time.Unix(q.Deadline.Unix(), 0).UTC(),
	}
	if !equalQuotes(q, want) || q.AmountOut.Less(q.MinAmountOut) || q.Deadline.Year() != 2026 {
		t.Errorf("got %+v, want %+v", q, want)
	}
}

func TestAnOrderThatIsNotWhatItSeemsIsRefused(t *testing.T) {
	t.Parallel()
	d, stranger := newRelayDesk(t), newRelayDesk(t)
	part := func(object map[string]any, path ...any) map[string]any {
		for _, step := range path {
			switch step := step.(type) {
			case string:
				if list, isList := object[step].([]any); isList {
					object = list[0].(map[string]any)
				} else {
					object = object[step].(map[string]any)
				}
			}
		}
		return object
	}
	inOrder := func(change func(order map[string]any)) []byte {
		return d.answer(func(order, _ map[string]any) {
			if order != nil {
				change(order)
			}
		})
	}
	after := func(change func(v2 map[string]any)) []byte {
		return d.answer(func(_, v2 map[string]any) {
			if v2 != nil {
				change(v2)
			}
		})
	}
	for name, test := range map[string]struct {
		raw  []byte
		want error
	}{
		"a call": {inOrder(func(o map[string]any) {
			part(o, "output")["calls"] = []any{"0x01"}
		}), ErrMalformed},
		"two payments": {inOrder(func(o map[string]any) {
			output := part(o, "output")
			output["payments"] = append(output["payments"].([]any), output["payments"].([]any)[0])
		}), ErrMalformed},
		"no input":        {inOrder(func(o map[string]any) { o["inputs"] = []any{} }), ErrMalformed},
		"a later version": {inOrder(func(o map[string]any) { o["version"] = "v2" }), ErrMalformed},
		"an unknown chain": {inOrder(func(o map[string]any) {
			part(o, "output")["chainId"] = "mars"
		}), ErrMalformed},
		"a signed amount": {inOrder(func(o map[string]any) {
			part(o, "inputs", "payment")["amount"] = "-1"
		}), ErrMalformed},
		"an amount in hex": {inOrder(func(o map[string]any) {
			part(o, "inputs", "payment")["amount"] = "0x10"
		}), ErrMalformed},
		"a refund that ends early": {inOrder(func(o map[string]any) {
			part(o, "inputs", "refunds")["deadline"] = 1
		}), ErrMalformed},
		"more at least than expected": {inOrder(func(o map[string]any) {
			part(o, "output", "payments")["minimumAmount"] = "999999999999999999"
		}), ErrMalformed},
		"another recipient than signed": {after(func(v2 map[string]any) {
			part(v2, "orderData", "output", "payments")["recipient"] = "0x0000000000000000000000000000000000000001"
		}), ErrUnsigned},
		"another id": {after(func(v2 map[string]any) {
			v2["orderId"] = "0xcb422162ba0a775cadcdc7983fc2108e761840446fe3f241fd8f72286fd3b4f8"
		}), ErrUnsigned},
		"a stranger's signature": {after(func(v2 map[string]any) {
			v2["orderSignature"] = stranger.sign(common.HexToHash(v2["orderId"].(string)))
		}), ErrUnsigned},
		"a signature of the bare id": {after(func(v2 map[string]any) {
			v2["orderSignature"] = d.signBare(common.HexToHash(v2["orderId"].(string)))
		}), ErrUnsigned},
		"no signature":             {after(func(v2 map[string]any) { delete(v2, "orderSignature") }), ErrUnsigned},
		"half a signature":         {after(func(v2 map[string]any) { v2["orderSignature"] = "0x01" }), ErrUnsigned},
		"a stranger as its solver": {stranger.answer(nil), ErrUnsigned},
		"another deposit address": {after(func(v2 map[string]any) {
			v2["steps"] = []any{map[string]any{"depositAddress": "0xEa04F61d00AFD8649B39b873306949aa11630067"}}
		}), ErrUnsigned},
		"two steps": {after(func(v2 map[string]any) {
			v2["steps"] = []any{map[string]any{}, map[string]any{}}
		}), ErrMalformed},
		"nothing": {nil, ErrMalformed},
		"a page":  {[]byte("<html>"), ErrMalformed},
		"much":    {make([]byte, relayBytesMax+1), ErrMalformed},
	} {
		if _, err := VerifyRelay(test.raw, d.pins); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
	// Nothing proves an address of a chain whose contracts are not known.
	unpinned := d.pins
	unpinned.Chains = map[string]RelayChain{"base": {VM: RelayEthereum}, "optimism": {VM: RelayEthereum}}
	if _, err := VerifyRelay(d.answer(nil), unpinned); !errors.Is(err, ErrUnsigned) {
		t.Errorf("got %v without the contracts, want it refused", err)
	}
}

// The bytes of addresses in orders, of each machine.
func TestAddressesInOrders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		vm         RelayVM
		text, want string
	}{
		{RelayEthereum, "0xF0AE622e463fa757Cf72243569E18Be7Df1996cd", "f0ae622e463fa757cf72243569e18be7df1996cd"},
		{RelaySolana, strings.Repeat("1", 32), strings.Repeat("00", 32)},
		// The genesis coin, and the examples of BIP 173 and BIP 350.
		{RelayBitcoin, "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "0062e907b15cbf27d5425399ebf6f0fb50ebb88f18"},
		{RelayBitcoin, "3P14159f73E4gFr7JterCCQh9QjiTjiZrG", "05e9c3dd0c07aac76179ebc76a6c78d4d67c6c160a"},
		{RelayBitcoin, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "00751e76e8199196d454941c45d1b3a323f1433bd6"},
		{
			RelayBitcoin, "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
			"0179be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
		},
		{RelayEthereum, "0x1", ""},
		{RelaySolana, "1111", ""},
		{RelayBitcoin, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5", ""},
		{RelayBitcoin, "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx", ""},
		{"ton-vm", "EQ", ""},
	} {
		got, err := encodeRelayAddress(test.vm, test.text)
		if (err == nil) != (test.want != "") || hex.EncodeToString(got) != test.want {
			t.Errorf("%s %s: got %x and %v, want %s", test.vm, test.text, got, err, test.want)
		}
	}
}
