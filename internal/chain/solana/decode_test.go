package solana

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

const token, token2022 = tokenProgram, token2022Program

// addressOf returns an address without a key.
func addressOf(of string) string {
	sum := sha256.Sum256([]byte(of))
	return base58.Encode(sum[:])
}

// txSpec is a transaction as getBlock returns it. Accounts are names; changes have the states
// before and after.
type txSpec struct {
	accounts []string
	change   [][2]uint64 // lamports of each
	tokens   []change
	err      string
	fee      uint64
	version  string
	looked   int // how many accounts, at the end, come from a lookup table
}

// A change of a token account; an owner "" means that the account does not exist then.
type change struct {
	account           string
	mint, program     string
	owner, ownerAfter string
	before, after     uint64
}

func (s txSpec) tokenList(after bool) string {
	var list []string
	for _, c := range s.tokens {
		owner, units := c.owner, c.before
		if after {
			owner, units = c.ownerAfter, c.after
		}
		if owner == "" {
			continue
		}
		at := 0
		for i, a := range s.accounts {
			if a == c.account {
				at = i
			}
		}
		if c.program == "" {
			c.program = token
		}
		list = append(list,
			fmt.Sprintf(`{"accountIndex":%d,"mint":%q,"owner":%q,"programId":%q,"uiTokenAmount":{"amount":"%d","decimals":6,"uiAmount":1.5,"uiAmountString":"1.5"}}`,
				at, addressOf(c.mint), addressOf(owner), c.program, units))
	}
	return "[" + strings.Join(list, ",") + "]"
}

func (s txSpec) meta(beside string) string {
	var pre, post []string
	for _, c := range s.change {
		pre, post = append(pre, fmt.Sprint(c[0])), append(post, fmt.Sprint(c[1]))
	}
	if s.err == "" {
		s.err = "null"
	}
	return fmt.Sprintf(`{"err":%s,"fee":%d,"preBalances":[%s],"postBalances":[%s],"preTokenBalances":%s,"postTokenBalances":%s%s}`,
		s.err, s.fee, strings.Join(pre, ","), strings.Join(post, ","), s.tokenList(false), s.tokenList(true), beside)
}

func (s txSpec) signature(n int) string {
	return addressOf(fmt.Sprint("signed", n)) + addressOf("again")
}

// accountsForm returns the transaction as "transactionDetails":"accounts" has it.
func (s txSpec) accountsForm(n int) string {
	var keys []string
	for _, a := range s.accounts {
		keys = append(keys, fmt.Sprintf(`{"pubkey":%q,"signer":false,"source":"transaction","writable":true}`,
			addressOf(a)))
	}
	if s.version == "" {
		s.version = `"legacy"`
	}
	return fmt.Sprintf(`{"transaction":{"signatures":[%q],"accountKeys":[%s]},"meta":%s,"version":%s}`,
		s.signature(n), strings.Join(keys, ","), s.meta(""), s.version)
}

// fullForm returns the transaction as "transactionDetails":"full" has it, with the accounts of
// lookup tables in addition to the others.
func (s txSpec) fullForm(n int) string {
	quoted := func(of []string) string {
		var q []string
		for _, a := range of {
			q = append(q, fmt.Sprintf("%q", addressOf(a)))
		}
		return "[" + strings.Join(q, ",") + "]"
	}
	own, looked := s.accounts[:len(s.accounts)-s.looked], s.accounts[len(s.accounts)-s.looked:]
	written := len(looked) / 2
	if s.version == "" {
		s.version = "0"
	}
	return fmt.Sprintf(`{"meta":%s,"transaction":{"message":{"header":{"numRequiredSignatures":1},"accountKeys":%s,"instructions":[{"data":"a\"}]\\","accounts":[0]}]},"signatures":[%q,"another"]},"version":%s}`,
		s.meta(fmt.Sprintf(`,"logMessages":["\"}{[\\"],"loadedAddresses":{"writable":%s,"readonly":%s}`,
			quoted(looked[:written]), quoted(looked[written:]))),
		quoted(own), s.signature(n), s.version)
}

func blockOf(txs ...string) []byte {
	return fmt.Appendf(nil,
		`{"blockHeight":7,"blockTime":1700000000,"blockhash":%q,"parentSlot":8,"previousBlockhash":%q,"transactions":[%s]}`,
		addressOf("this"), addressOf("before"), strings.Join(txs, ","))
}

func readMovements(raw []byte) (*movements, error) {
	m := newMovements()
	_, err := decodeBlock(raw, m.addTx)
	return m, err
}

// transferSpec is a transfer, written with names.
type transferSpec struct {
	kind               chain.Kind
	position, contract string
	from, to           string
	units              uint64
	freed              bool
}

func (m transferSpec) transfer(n int) chain.Transfer {
	address := func(of string) chain.Address {
		if of == "" {
			return ""
		}
		return chain.Address(addressOf(of))
	}
	return chain.Transfer{
		Tx: chain.TxHash(txSpec{}.signature(n)), Kind: m.kind, Position: addressOf(m.position),
		Contract: address(m.contract),
		From:     address(m.from), To: address(m.to), Amount: money.Units(m.units), Freed: m.freed,
	}
}

func native(from, to string, units uint64) transferSpec {
	return transferSpec{chain.Native, to, "", from, to, units, false}
}

// freed is native for coin that came out of token accounts.
func freed(from, to string, units uint64) transferSpec {
	return transferSpec{chain.Native, to, "", from, to, units, true}
}

func ofToken(account, mint, from, to string, units uint64) transferSpec {
	return transferSpec{chain.Token, account, mint, from, to, units, false}
}

const rent = 2_039_280

func TestWhatMovedIsReadOffBalances(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		said txSpec
		want []transferSpec
		paid uint64
	}{
		"a payment of lamports": {
			txSpec{
				accounts: []string{"a", "b", "system"}, change: [][2]uint64{{9000, 3000}, {1, 1001}, {1, 1}},
				fee: 5000,
			},
			[]transferSpec{native("a", "b", 1000)},
			5000,
		},
		"the payer is not the sender": {
			txSpec{
				accounts: []string{"payer", "a", "b"}, change: [][2]uint64{{9000, 4000}, {5000, 3000}, {0, 2000}},
				fee: 5000,
			},
			[]transferSpec{native("a", "b", 2000)},
			5000,
		},
		"the priority fee that the node does not tell": {
			txSpec{
				accounts: []string{"payer", "a", "b"}, change: [][2]uint64{{9000, 3500}, {5000, 3000}, {0, 2000}},
				fee: 5000,
			},
			[]transferSpec{native("a", "b", 2000)},
			5500,
		},
		"several receivers": {
			txSpec{
				accounts: []string{"a", "b", "c"}, change: [][2]uint64{{9000, 1000}, {0, 1000}, {0, 2000}},
				fee: 5000,
			},
			[]transferSpec{native("a", "b", 1000), native("a", "c", 2000)},
			5000,
		},
		"several senders": {
			txSpec{
				accounts: []string{"a", "b", "c"}, change: [][2]uint64{{9000, 3000}, {2000, 1000}, {0, 2000}},
				fee: 5000,
			},
			[]transferSpec{native("", "c", 2000)},
			5000,
		},
		"the payer receives less than the fee": {
			txSpec{accounts: []string{"payer", "a"}, change: [][2]uint64{{9000, 5000}, {2000, 1000}}, fee: 5000},
			[]transferSpec{native("a", "payer", 1000)},
			5000,
		},
		"a failed transaction costs and moves nothing": {
			txSpec{
				accounts: []string{"a", "b", "a.usdc", "b.usdc"}, change: [][2]uint64{
					{9000, 4000},
					{1, 1},
					{rent, rent},
					{rent, rent},
				}, fee: 5000,
				err:    `{"InstructionError":[1,{"Custom":1}]}`,
				tokens: []change{{"a.usdc", "usdc", "", "a", "a", 10, 0}, {"b.usdc", "usdc", "", "b", "b", 0, 10}},
			}, nil, 5000,
		},
		"a token, to an account that is made for it": {
			txSpec{
				accounts: []string{"payer", "a.usdc", "b.usdc", "a", "b"}, fee: 5000,
				change: [][2]uint64{{9000 + rent, 4000}, {rent, rent}, {0, rent}, {1, 1}, {1, 1}},
				tokens: []change{{"a.usdc", "usdc", "", "a", "a", 10, 3}, {"b.usdc", "usdc", "", "", "b", 0, 7}},
			}, []transferSpec{ofToken("b.usdc", "usdc", "a", "b", 7)}, 5000 + rent,
		},
		"a token, to an account that is made where something lay already": {
			txSpec{
				accounts: []string{"payer", "a.usdc", "b.usdc", "a", "b"}, fee: 5000,
				change: [][2]uint64{{9000 + rent - 300, 4000}, {rent, rent}, {300, rent}, {1, 1}, {1, 1}},
				tokens: []change{{"a.usdc", "usdc", "", "a", "a", 10, 3}, {"b.usdc", "usdc", "", "", "b", 0, 7}},
			}, []transferSpec{ofToken("b.usdc", "usdc", "a", "b", 7)}, 5000 + rent - 300,
		},
		"a token, to an account that another than the payer makes": {
			txSpec{
				accounts: []string{"payer", "a.usdc", "b.usdc", "a", "b"}, fee: 5000,
				change: [][2]uint64{{9000, 4000}, {rent, rent}, {0, rent}, {rent, 0}, {1, 1}},
				tokens: []change{{"a.usdc", "usdc", "", "a", "a", 10, 3}, {"b.usdc", "usdc", "", "", "b", 0, 7}},
			}, []transferSpec{ofToken("b.usdc", "usdc", "a", "b", 7)}, 5000,
		},
		"a token that withholds a fee": {
			txSpec{
				accounts: []string{"payer", "a.t", "b.t"}, fee: 5000, change: [][2]uint64{
					{9000, 4000},
					{rent, rent},
					{rent, rent},
				},
				tokens: []change{{"a.t", "t", token2022, "a", "a", 1000, 0}, {"b.t", "t", token2022, "b", "b", 5, 995}},
			}, []transferSpec{ofToken("b.t", "t", "a", "b", 990)}, 5000,
		},
		"tokens of two senders and two mints": {
			txSpec{
				accounts: []string{"payer", "a.t", "b.t", "c.t", "c.u", "d.u"}, fee: 5000,
				change: [][2]uint64{{9000, 4000}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
				tokens: []change{
					{"a.t", "t", "", "a", "a", 5, 0},
					{"b.t", "t", "", "b", "b", 5, 0},
					{"c.t", "t", "", "c", "c", 0, 10},
					{"c.u", "u", "", "c", "c", 9, 0},
					{"d.u", "u", "", "d", "d", 0, 9},
				},
			}, []transferSpec{ofToken("c.t", "t", "", "c", 10), ofToken("d.u", "u", "c", "d", 9)}, 5000,
		},
		"what was minted comes from nobody": {
			txSpec{
				accounts: []string{"payer", "mint", "a.t"}, fee: 5000, change: [][2]uint64{
					{9000, 4000},
					{1, 1},
					{1, 1},
				},
				tokens: []change{{"a.t", "t", "", "a", "a", 1, 8}},
			}, []transferSpec{ofToken("a.t", "t", "", "a", 7)}, 5000,
		},
		"what was minted comes from nobody, whoever moves their own beside it": {
			txSpec{
				accounts: []string{"payer", "x.1", "x.2", "a.t"}, fee: 5000, change: [][2]uint64{
					{9000, 4000},
					{1, 1},
					{1, 1},
					{1, 1},
				},
				tokens: []change{
					{"x.1", "t", "", "x", "x", 9, 0},
					{"x.2", "t", "", "x", "x", 0, 9},
					{"a.t", "t", "", "a", "a", 1, 8},
				},
			}, []transferSpec{ofToken("a.t", "t", "", "a", 7)}, 5000,
		},
		"what was burnt goes nowhere": {
			txSpec{
				accounts: []string{"payer", "a.t"}, fee: 5000, change: [][2]uint64{{9000, 4000}, {1, 1}},
				tokens: []change{{"a.t", "t", "", "a", "a", 8, 1}},
			}, nil, 5000,
		},
		"between an owner's own accounts": {
			txSpec{
				accounts: []string{"a", "a.1", "a.2"}, fee: 5000, change: [][2]uint64{{9000, 4000}, {1, 1}, {1, 1}},
				tokens: []change{{"a.1", "t", "", "a", "a", 9, 0}, {"a.2", "t", "", "a", "a", 0, 9}},
			}, nil, 5000,
		},
		"more than moved between an owner's own accounts": {
			txSpec{
				accounts: []string{"a", "a.1", "a.2", "a.3", "b.t"}, fee: 5000, change: [][2]uint64{
					{9000, 4000},
					{1, 1},
					{1, 1},
					{1, 1},
					{1, 1},
				},
				tokens: []change{
					{"a.1", "t", "", "a", "a", 9, 0},
					{"a.2", "t", "", "a", "a", 0, 10},
					{"a.3", "t", "", "a", "a", 0, 4},
					{"b.t", "t", "", "b", "b", 5, 0},
				},
			}, []transferSpec{ofToken("a.2", "t", "b", "a", 5)}, 5000,
		},
		"an account that changes hands": {
			txSpec{
				accounts: []string{"a", "a.t"}, fee: 5000, change: [][2]uint64{{9000, 4000}, {1, 1}},
				tokens: []change{{"a.t", "t", "", "a", "b", 9, 9}},
			}, []transferSpec{ofToken("a.t", "t", "a", "b", 9)}, 5000,
		},
		"a token account that is closed for its rent": {
			txSpec{
				accounts: []string{"payer", "a", "a.t", "b"}, fee: 5000, change: [][2]uint64{
					{9000, 4000},
					{1, 1},
					{rent, 0},
					{1, 1 + rent},
				},
				tokens: []change{{"a.t", "t", "", "a", "", 0, 0}},
			}, []transferSpec{freed("a", "b", rent)}, 5000,
		},
		"wrapped SOL is a token and no coin": {
			txSpec{
				accounts: []string{"a", "a.w", "b.w"}, fee: 5000, change: [][2]uint64{
					{9000, 4000},
					{rent + 700, rent},
					{rent, rent + 700},
				},
				tokens: []change{{"a.w", "w", "", "a", "a", 700, 0}, {"b.w", "w", "", "b", "b", 0, 700}},
			}, []transferSpec{ofToken("b.w", "w", "a", "b", 700)}, 5000,
		},
		"SOL that is unwrapped comes from its owner": {
			txSpec{
				accounts: []string{"payer", "a", "a.w"}, fee: 5000, change: [][2]uint64{
					{9000, 4000},
					{1, 1 + rent + 700},
					{rent + 700, 0},
				},
				tokens: []change{{"a.w", "w", "", "a", "", 700, 0}},
			}, []transferSpec{freed("a", "a", rent+700)}, 5000,
		},
		"SOL that is wrapped is minted": {
			txSpec{
				accounts: []string{"a", "a.w"}, fee: 5000, change: [][2]uint64{{9000 + 700, 4000}, {rent, rent + 700}},
				tokens: []change{{"a.w", "w", "", "a", "a", 0, 700}},
			}, []transferSpec{ofToken("a.w", "w", "", "a", 700)}, 5000,
		},
		"who pays for their own account is no second sender": {
			txSpec{
				accounts: []string{"payer", "x", "x.t", "a", "b"}, fee: 5000, change: [][2]uint64{
					{9000, 4000},
					{rent, 0},
					{0, rent},
					{50, 0},
					{0, 50},
				},
				tokens: []change{{"x.t", "t", "", "", "x", 0, 0}},
			}, []transferSpec{native("a", "b", 50)}, 5000,
		},
		"a balance of some other program's is no token": {
			txSpec{
				accounts: []string{"payer", "a.t", "b.t"}, fee: 5000, change: [][2]uint64{{9000, 4000}, {1, 1}, {1, 1}},
				tokens: []change{
					{"a.t", "t", addressOf("some program"), "a", "a", 5, 0},
					{"b.t", "t", addressOf("some program"), "b", "b", 0, 5},
				},
			}, nil, 5000,
		},
		"what is told of an account that is gone counts for nothing": {
			txSpec{
				accounts: []string{"payer", "a.t", "b.t"}, fee: 5000, change: [][2]uint64{
					{9000, 4000},
					{rent, 0},
					{0, rent},
				},
				tokens: []change{{"a.t", "t", "", "a", "a", 5, 5}, {"b.t", "t", "", "b", "b", 3, 5}},
			}, []transferSpec{ofToken("b.t", "t", "a", "b", 5)}, 5000,
		},
		"accounts of lookup tables": {
			txSpec{
				accounts: []string{"payer", "program", "a.t", "b.t", "t", "x"}, looked: 4, fee: 5000, version: "1",
				change: [][2]uint64{{9000, 4000}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
				tokens: []change{{"a.t", "t", "", "a", "a", 5, 0}, {"b.t", "t", "", "b", "b", 0, 5}},
			}, []transferSpec{ofToken("b.t", "t", "a", "b", 5)}, 5000,
		},
	} {
		for form, text := range map[string]string{"accounts": c.said.accountsForm(1), "full": c.said.fullForm(1)} {
			got, err := readMovements(blockOf(txSpec{
				accounts: []string{"z"},
				change:   [][2]uint64{{1, 1}},
			}.accountsForm(0), text))
			if err != nil {
				t.Errorf("%s, %s: got %v, want the block", what, form, err)
				continue
			}
			var want []chain.Transfer
			for _, m := range c.want {
				want = append(want, m.transfer(1))
			}
			if fmt.Sprint(got.transfers) != fmt.Sprint(want) {
				t.Errorf("%s, %s: got %+v, want %+v", what, form, got.transfers, want)
			}
			if wantFee := []chain.Fee{{
				Payer:  chain.Address(addressOf(c.said.accounts[0])),
				Amount: money.Units(c.paid),
			}}; fmt.Sprint(got.fees) != fmt.Sprint(wantFee) {
				t.Errorf("%s, %s: got fees %v, want %v", what, form, got.fees, wantFee)
			}
		}
	}
}

// Rule DEP-57: in the message or in a lookup table, in order, and without accounts that a balance of which changed.
func TestAccountsThatAPaymentOnlyNamesAreRead(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		said txSpec
		want []string
	}{
		"a payment of lamports": {
			txSpec{
				accounts: []string{"a", "b", "reference", "system"}, fee: 5000,
				change: [][2]uint64{{9000, 3000}, {1, 1001}, {0, 0}, {1, 1}},
			},
			[]string{"reference", "system"},
		},
		"a reference that holds lamports": {
			txSpec{
				accounts: []string{"a", "b", "reference"}, fee: 5000,
				change: [][2]uint64{{9000, 3000}, {1, 1001}, {777, 777}},
			},
			[]string{"reference"},
		},
		"a payment of tokens, with references in a lookup table": {
			txSpec{
				accounts: []string{"payer", "program", "a.t", "b.t", "mint", "reference"}, looked: 2, fee: 5000,
				version: "0",
				change:  [][2]uint64{{9000, 4000}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
				tokens:  []change{{"a.t", "t", "", "a", "a", 5, 0}, {"b.t", "t", "", "b", "b", 0, 5}},
			},
			[]string{"program", "mint", "reference"},
		},
		"no transfer": {
			txSpec{accounts: []string{"a", "reference"}, fee: 5000, change: [][2]uint64{{9000, 4000}, {0, 0}}}, nil,
		},
		"a payment that failed": {
			txSpec{
				accounts: []string{"a", "b", "reference"}, fee: 5000, err: `{"InstructionError":[0,"Custom"]}`,
				change: [][2]uint64{{9000, 4000}, {1, 1}, {0, 0}},
			}, nil,
		},
	} {
		for form, text := range map[string]string{"accounts": c.said.accountsForm(1), "full": c.said.fullForm(1)} {
			other := txSpec{accounts: []string{"y", "z", "other"}, change: [][2]uint64{{9, 4}, {1, 6}, {0, 0}}}
			got, err := readMovements(blockOf(other.accountsForm(0), text))
			if err != nil {
				t.Errorf("%s, %s: got %v, want the block", what, form, err)
				continue
			}
			var want []chain.Address
			for _, name := range c.want {
				want = append(want, chain.Address(addressOf(name)))
			}
			list := got.mentioned[chain.TxHash(txSpec{}.signature(1))].Addresses()
			if !slices.Equal(list, want) {
				t.Errorf("%s, %s: got %v, want %v", what, form, list, want)
			}
		}
	}
}

func TestFeesAreOnePayerEach(t *testing.T) {
	t.Parallel()
	cost := func(who string, n uint64) string {
		return txSpec{accounts: []string{who}, change: [][2]uint64{{9000, 9000 - n}}, fee: n}.accountsForm(0)
	}
	got, err := readMovements(blockOf(cost("a", 5), cost("b", 7), cost("a", 11)))
	want := []chain.Fee{
		{Payer: chain.Address(addressOf("a")), Amount: money.Units(16)},
		{Payer: chain.Address(addressOf("b")), Amount: money.Units(7)},
	}
	if err != nil || fmt.Sprint(got.fees) != fmt.Sprint(want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// H-66, H-67: an unknown form stops the walk, and is never read as empty.
func TestABlockThatLacksAnythingIsNotDecoded(t *testing.T) {
	t.Parallel()
	whole := txSpec{
		accounts: []string{"payer", "a.t", "b.t"}, fee: 5000, change: [][2]uint64{{9000, 4000}, {1, 1}, {1, 1}},
		tokens: []change{{"a.t", "t", "", "a", "a", 5, 0}, {"b.t", "t", "", "b", "b", 0, 5}},
	}.accountsForm(0)
	if _, err := readMovements(blockOf(whole)); err != nil {
		t.Fatalf("got %v, want the block", err)
	}
	swap := func(old, new string) []byte {
		if !strings.Contains(whole, old) {
			t.Fatalf("there is no %s", old)
		}
		return blockOf(strings.Replace(whole, old, new, 1))
	}
	block := string(blockOf(whole))
	for what, raw := range map[string][]byte{
		"null":                []byte("null"),
		"nothing":             nil,
		"an empty object":     []byte("{}"),
		"a list":              []byte("[]"),
		"half of it":          []byte(block[:len(block)/2]),
		"something behind it": []byte(block + "{}"),
		"no transactions":     fmt.Appendf(nil, `{"blockhash":"a","previousBlockhash":"b","parentSlot":1}`),
		"signatures alone": fmt.Appendf(nil,
			`{"blockhash":"a","previousBlockhash":"b","parentSlot":1,"signatures":["x"]}`),
		"transactions null": fmt.Appendf(nil,
			`{"blockhash":"a","previousBlockhash":"b","parentSlot":1,"transactions":null}`),
		"no parent": fmt.Appendf(nil, `{"blockhash":"a","parentSlot":1,"transactions":[]}`),
		"no hash":   fmt.Appendf(nil, `{"previousBlockhash":"a","parentSlot":1,"transactions":[]}`),
		"transactions twice": fmt.Appendf(nil,
			`{"blockhash":"a","previousBlockhash":"b","parentSlot":1,"transactions":[],"transactions":[]}`),
		"version 2":  swap(`"version":"legacy"`, `"version":2`),
		"no version": swap(`,"version":"legacy"`, ``),
		"meta null": blockOf(
			`{"transaction":{"signatures":["x"],"accountKeys":["a"]},"meta":null,"version":0}`,
		),
		"a transaction in base64":    blockOf(`{"transaction":["AAAA","base64"],"meta":{},"version":0}`),
		"no error member":            swap(`"err":null,`, ``),
		"no balances before":         swap(`"preBalances":[9000,1,1],`, ``),
		"one balance less":           swap(`"postBalances":[4000,1,1]`, `"postBalances":[4000,1]`),
		"a balance too many":         swap(`"postBalances":[4000,1,1]`, `"postBalances":[4000,1,1,1]`),
		"a negative balance":         swap(`"postBalances":[4000,`, `"postBalances":[-4000,`),
		"a balance with a fraction":  swap(`"postBalances":[4000,`, `"postBalances":[4000.5,`),
		"a balance with an exponent": swap(`"postBalances":[4000,`, `"postBalances":[4e3,`),
		"a balance beyond 64 bits":   swap(`"postBalances":[4000,`, `"postBalances":[18446744073709551616,`),
		"lamports out of nothing":    swap(`"postBalances":[4000,`, `"postBalances":[40000,`),
		"a fee that nobody paid":     swap(`"fee":5000`, `"fee":5001`),
		"no token balances":          swap(`"preTokenBalances":`, `"tokenBalances":`),
		"token balances null":        swap(`"postTokenBalances":[`, `"postTokenBalances":null,"x":[`),
		"a token of no owner":        swap(fmt.Sprintf(`"owner":%q,`, addressOf("b")), ``),
		"a token of no program":      swap(fmt.Sprintf(`"programId":%q,`, token), ``),
		"a token of no amount":       swap(`"amount":"5",`, ``),
		"a token amount as a number": swap(`"amount":"5"`, `"amount":5`),
		"a token amount of words":    swap(`"amount":"5"`, `"amount":"five"`),
		"a token amount beyond 64":   swap(`"amount":"5"`, `"amount":"18446744073709551616"`),
		"a token of account 3 of 3":  swap(`"accountIndex":2`, `"accountIndex":3`),
		"a token account twice":      swap(`"accountIndex":2`, `"accountIndex":1`),
		"an account without address": swap(fmt.Sprintf(`"pubkey":%q`, addressOf("b.t")), `"pubkey":""`),
		"nobody signed": swap(fmt.Sprintf(`"signatures":[%q]`, txSpec{}.signature(0)),
			`"signatures":[]`),
		"balances twice":             swap(`"fee":5000`, `"fee":5000,"postBalances":[4000,1,1]`),
		"a comma too many":           swap(`"fee":5000,`, `"fee":5000,,`),
		"addresses that are escaped": swap(`{"pubkey":"`, `{"pubkey":"\u0041`),
		"deeper than anything is":    []byte(strings.Repeat("[", 100_000)),
		"deep in what is skipped": fmt.Appendf(nil, `{"rewards":%s,"blockhash":"a"}`,
			strings.Repeat("[", 100_000)),
		"braces that do not fit": fmt.Appendf(nil,
			`{"rewards":[},"blockhash":"a","previousBlockhash":"b","parentSlot":1,"transactions":[]}`),
		"an account of more than all":  swap(`[9000,1,1]`, `[9223372036854775808,1,1]`),
		"more accounts than there are": blockOf(manyAccounts(300)),
	} {
		if got, err := readMovements(raw); !errors.Is(err, chain.ErrUndecodable) {
			t.Errorf("%s: got %+v, %v, want ErrUndecodable", what, got, err)
		}
	}
}

func manyAccounts(n int) string {
	var s txSpec
	for i := range n {
		s.accounts = append(s.accounts, fmt.Sprint(i))
		s.change = append(s.change, [2]uint64{1, 1})
	}
	return s.accountsForm(0)
}

// FuzzDecode compares with the standard library. What is decoded is JSON, its amounts equal those
// that the library reads, and no money is created.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("null"))
	f.Add(blockOf())
	f.Add(blockOf(manyAccounts(3)))
	one := txSpec{
		accounts: []string{"payer", "a.t", "b.t"}, fee: 5000, change: [][2]uint64{
			{9000, 4000},
			{1, 1},
			{1, 1},
		}, looked: 2,
		tokens: []change{{"a.t", "t", "", "a", "a", 5, 0}, {"b.t", "t", "", "b", "b", 0, 5}},
	}
	f.Add(blockOf(one.accountsForm(0), one.fullForm(1)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var rose, fell big.Int
		m := newMovements()
		h, err := decodeBlock(raw, func(x *tx) error {
			for i := range x.accounts {
				rise, fall := x.lamportChange(i)
				rose.Add(&rose, new(big.Int).SetUint64(rise))
				fell.Add(&fell, new(big.Int).SetUint64(fall))
			}
			return m.addTx(x)
		})
		if err != nil {
			if !errors.Is(err, chain.ErrUndecodable) {
				t.Fatalf("got %v, want ErrUndecodable", err)
			}
			return
		}
		if rose.Cmp(&fell) != 0 {
			t.Errorf("got %v lamports risen and %v fallen, want the same", &rose, &fell)
		}
		for _, tr := range m.transfers {
			if tr.Amount.IsZero() || tr.To == "" || tr.Position == "" || tr.Tx == "" {
				t.Errorf("got %+v, want an amount, an owner, an account and a transaction", tr)
			}
		}
		var other struct {
			Blockhash         string
			PreviousBlockhash string
			Transactions      []struct {
				Meta struct {
					Err               json.RawMessage
					PreTokenBalances  []struct{ UITokenAmount struct{ Amount string } }
					PostTokenBalances []struct{ UITokenAmount struct{ Amount string } }
				}
			}
		}
		if !json.Valid(raw) {
			return // what is skipped is not checked
		}
		if err := json.Unmarshal(raw, &other); err != nil {
			return // other casings fit there
		}
		if h.hash == "" || h.parent == "" {
			t.Errorf("got %+v, want it named", h)
		}
	})
}

// busyBlock is as busy as one of the main network: six in ten transactions are votes, the others
// name 20 accounts, eight of them token accounts.
func busyBlock(transactions int) []byte {
	var txs []string
	for i := range transactions {
		who := func(j int) string { return fmt.Sprint((i*31 + j) % 3000) }
		s := txSpec{fee: 5000}
		accounts, tokens := 4, 0
		if i%10 >= 6 {
			accounts, tokens = 20, 8
		}
		for j := range accounts {
			s.accounts = append(s.accounts, who(j))
			s.change = append(s.change, [2]uint64{1_000_000_000_000, 1_000_000_000_000})
		}
		s.change[0][1] -= 5000
		if tokens > 0 {
			s.change[1][1] -= 77_000
			s.change[2][1] += 77_000
		}
		for j := range tokens {
			c := change{who(10 + j), who(j % 3), "", who(j), who(j), 123_456_789, 123_456_789}
			if j < 2 {
				c.after = c.before + 5 - 10*uint64(j)
				c.mint = "usdc"
			}
			s.tokens = append(s.tokens, c)
		}
		txs = append(txs, s.accountsForm(i))
	}
	return blockOf(txs...)
}

// Nodes write no spaces, and the fast path relies on that. With spaces everywhere the same is read,
// and the same refused.
func TestSpacesChangeNothing(t *testing.T) {
	t.Parallel()
	block := busyBlock(9)
	random := rand.New(rand.NewPCG(3, 4))
	const letters = `{}[]",:0123456789eE-.ntf`
	both := 0
	for range 6_000 {
		b := bytes.Clone(block)
		for range random.IntN(3) {
			at := random.IntN(len(b))
			switch c := letters[random.IntN(len(letters))]; random.IntN(3) {
			case 0:
				b[at] = c
			case 1:
				b = slices.Insert(b, at, c)
			default:
				b = slices.Delete(b, at, min(at+1+random.IntN(3), len(b)))
			}
		}
		var spaced bytes.Buffer
		if json.Indent(&spaced, b, " ", "\t") != nil {
			continue // no JSON, and no place in it where a space belongs
		}
		quick, errQuick := readMovements(b)
		slow, errSlow := readMovements(spaced.Bytes())
		if (errQuick == nil) != (errSlow == nil) || !slices.Equal(quick.transfers, slow.transfers) ||
			!slices.Equal(quick.fees, slow.fees) {
			t.Fatalf("%s: got %v, %v, with spaces %v, %v", b, quick.transfers, errQuick, slow.transfers, errSlow)
		}
		if errQuick == nil {
			both++
		}
	}
	if both < 1000 {
		t.Errorf("got %d blocks that are taken, want many", both)
	}
}

// BenchmarkDecode2000 measures a busy block of 2,000 transactions from a provider's answer to its
// movements.
func BenchmarkDecode2000(b *testing.B) {
	raw := busyBlock(2000)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	metered(b, func() {
		if _, err := readMovements(raw); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkScan2000 measures a scan of the same bytes that only checks that they are JSON.
func BenchmarkScan2000(b *testing.B) {
	raw := jsontext.Value(busyBlock(2000))
	b.SetBytes(int64(len(raw)))
	metered(b, func() {
		if !raw.IsValid() {
			b.Fatal("got no JSON")
		}
	})
}

// metered reports the processor time of each round, with the garbage collector's: other processes
// on the machine do not change it.
func metered(b *testing.B, round func()) {
	b.Helper()
	spent := func() time.Duration {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			b.Fatal(err)
		}
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	before := spent()
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(spent()-before)/float64(b.N), "cpu-ns/op")
}
