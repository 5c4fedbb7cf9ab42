package solanatx

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mr-tron/base58"
	"pgregory.net/rapid"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	nonce0 = "5L6HrS7UGVtD3kkgWtmDb4yb8EFXmFev2QyNt8TrBJjV" // alice's
	value  = "96GzYFvs4dEeswTaQFQhvbGi6NHUcNHhEgXnPrRjyF2s"
)

func move(t testing.TB, p chain.Payment, program chain.Address, creates bool) Move {
	t.Helper()
	var decimals uint8
	if p.Contract != "" {
		decimals = 6
	}
	m, err := NewMove(p, program, decimals, creates)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// samples are transactions of every form, by name.
func samples(t testing.TB) map[string]Tx {
	t.Helper()
	tx := func(limit uint32, price uint64, moves ...Move) Tx {
		return Tx{Payer: alice, NonceAccount: nonce0, NonceValue: value, Limit: limit, Price: price, Moves: moves}
	}
	coin := func(from, to chain.Address, units uint64) Move {
		return move(t, chain.Payment{From: from, To: to, Amount: money.Units(units)}, "", false)
	}
	dollars := func(from, to, program chain.Address, units uint64, creates bool) Move {
		return move(t, chain.Payment{From: from, To: to, Contract: usdx, Amount: money.Units(units)}, program, creates)
	}
	shut := func(of, program chain.Address) Close {
		t.Helper()
		c, err := NewClose(chain.Payment{From: of, To: alice, Contract: usdx, ClosesTokenAccount: true}, program)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	closes := func(all ...Close) Tx {
		x := tx(60_000, 5_000)
		x.Closes = all
		return x
	}
	creation := func(program chain.Address) Tx {
		x := tx(60_000, 5_000)
		x.Creation = NewCreation(chain.Payment{From: alice, To: bob, Contract: usdx}, program)
		return x
	}
	return map[string]Tx{
		"a creation":               creation(TokenProgram),
		"a creation of Token-2022": creation(Token2022Program),
		"a close":                  closes(shut(bob, TokenProgram)),
		"closes":                   closes(shut(bob, TokenProgram), shut(carol, Token2022Program)),
		"cancel":                   tx(200_000, 0),
		"coin":                     tx(1_000, 1, coin(alice, bob, 1)),
		"coin of another wallet":   tx(1_400_000, 1<<40, coin(carol, bob, 1<<63)),
		"token and its account":    tx(60_000, 5_000, dollars(alice, bob, TokenProgram, 5_000_000, true)),
		"token of another wallet":  tx(60_000, 5_000, dollars(carol, alice, TokenProgram, 5_000_000, false)),
		"token of Token-2022":      tx(60_000, 5_000, dollars(alice, bob, Token2022Program, 1, true)),
		"several": tx(300_000, 5_000, dollars(bob, alice, TokenProgram, 1, true),
			dollars(carol, alice, TokenProgram, 2, false)),
	}
}

func payload(t testing.TB, tx interface{ Payload() ([]byte, error) }) []byte {
	t.Helper()
	b, err := tx.Payload()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestThePayloadIsThatOfAnotherImplementation(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/messages.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(file)) {
		if name, message, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			want[name] = message
		}
	}
	seen := 0
	for name, tx := range samples(t) {
		seen++
		b := payload(t, tx)
		if got := hex.EncodeToString(b); got != want[name] {
			t.Errorf("%s: got %s, want %s", name, got, want[name])
		}
		if got, err := Decode(b); err != nil || !reflect.DeepEqual(got, tx) {
			t.Errorf("%s, decoded: got %+v, %v, want %+v", name, got, err, tx)
		}
	}
	for i := range 4 {
		seen++
		c := NonceCreation{Treasury: alice, N: uint32(i % 2), Blockhash: value, LegacyForm: i > 1}
		name := fmt.Sprintf("nonce account %d", c.N)
		if c.LegacyForm {
			name = "bare " + name
		}
		b := payload(t, c)
		if got := hex.EncodeToString(b); got != want[name] {
			t.Errorf("%s: got %s, want %s", name, got, want[name])
		}
		if got, err := DecodeNonceCreation(b); err != nil || got != c {
			t.Errorf("%s, decoded: got %+v, %v, want %+v", name, got, err, c)
		}
	}
	if seen != len(want) {
		t.Errorf("got %d transactions compared, want %d", seen, len(want))
	}
}

// drawTx draws a transaction that may be too large.
func drawTx(t *rapid.T) Tx {
	person := rapid.Custom(func(t *rapid.T) chain.Address {
		_, a := keyOf(rapid.SampledFrom([]string{
			"alice", "bob", "carol", "dave", "erin", "frank", "grace",
			"heidi",
		}).Draw(t, "name"))
		return a
	})
	tx := Tx{
		Payer: person.Draw(t, "payer"), NonceValue: base58.Encode(append([]byte{1},
			rapid.SliceOfN(rapid.Byte(), 31, 31).Draw(t, "value")...)),
		Limit: rapid.Uint32Range(1, LimitMax).Draw(t, "limit"), Price: rapid.Uint64().Draw(t, "price"),
	}
	var err error
	if tx.NonceAccount, err = NonceAccount(tx.Payer, rapid.Uint32().Draw(t, "n")); err != nil {
		t.Fatal(err)
	}
	made := map[chain.Address]bool{}
	for range rapid.IntRange(0, 5).Draw(t, "moves") {
		p := chain.Payment{
			From: person.Draw(t, "from"), To: person.Draw(t, "to"),
			Amount: money.Units(rapid.Uint64Min(1).Draw(t, "amount")),
		}
		var program chain.Address
		var decimals uint8
		if rapid.Bool().Draw(t, "token") {
			p.Contract = rapid.SampledFrom([]chain.Address{usdx, usdt, wrappedMint}).Draw(t, "mint")
			program = rapid.SampledFrom([]chain.Address{TokenProgram, Token2022Program}).Draw(t, "program")
			decimals = rapid.Byte().Draw(t, "decimals")
		}
		m, err := NewMove(p, program, decimals, p.Contract != "" && rapid.Bool().Draw(t, "creates"))
		if err != nil {
			t.Fatal(err)
		}
		if made[m.To] {
			m.Owner = ""
		}
		made[m.To] = made[m.To] || m.Owner != ""
		if err := m.CheckPayment(p); err != nil {
			t.Errorf("move of %+v: got %v, want it to pay that", p, err)
		}
		tx.Moves = append(tx.Moves, m)
	}
	return tx
}

func TestWhatIsWrittenIsReadAndSignedByThoseWhoHaveTo(t *testing.T) {
	t.Parallel()
	keys := map[chain.Address]ed25519.PrivateKey{}
	for _, name := range []string{"alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"} {
		k, a := keyOf(name)
		keys[a] = k
	}
	rapid.Check(t, func(t *rapid.T) {
		tx := drawTx(t)
		b, err := tx.Payload()
		if err != nil && strings.Contains(err.Error(), "packet") {
			return
		}
		if err != nil {
			t.Fatalf("%+v: got %v", tx, err)
		}
		got, err := Decode(b)
		if err != nil || !reflect.DeepEqual(got, tx) {
			t.Fatalf("got %+v, %v, want %+v", got, err, tx)
		}
		by, err := Signers(b)
		if err != nil || by[0] != tx.Payer {
			t.Fatalf("signers: got %v, %v, want %s first", by, err, tx.Payer)
		}
		want := []chain.Address{tx.Payer}
		for _, m := range tx.Moves {
			want = append(want, m.From)
		}
		slices.Sort(want)
		if sorted := slices.Sorted(slices.Values(by)); !slices.Equal(sorted, slices.Compact(want)) {
			t.Fatalf("signers: got %v, want %v", by, want)
		}
		// The fee counts the same signers.
		free := tx
		free.Price = 0
		if got, want := free.MaxFee(), money.Units(SignatureFee*uint64(len(by))); got != want {
			t.Fatalf("fee: got %v, want %v", got, want)
		}
		var signatures [][64]byte
		for _, a := range by {
			signatures = append(signatures, [64]byte(ed25519.Sign(keys[a], b)))
		}
		raw, hash, err := AttachSignatures(b, signatures...)
		if err != nil || len(raw) > 1232 || string(hash) != base58.Encode(signatures[0][:]) {
			t.Fatalf("attach: got %d bytes, %s, %v", len(raw), hash, err)
		}
		signed, signedHash, err := DecodeSigned(raw)
		if err != nil || signedHash != hash || !reflect.DeepEqual(signed, tx) {
			t.Fatalf("signed: got %+v, %s, %v, want %+v, %s", signed, signedHash, err, tx, hash)
		}
	})
}

func TestAFlippedByteIsRefusedOrIsAnotherTransactionInItsOneForm(t *testing.T) {
	t.Parallel()
	all := map[string][]byte{
		"nonce account":      payload(t, NonceCreation{Treasury: alice, N: 17, Blockhash: value}),
		"bare nonce account": payload(t, NonceCreation{Treasury: alice, N: 17, Blockhash: value, LegacyForm: true}),
	}
	for name, tx := range samples(t) {
		all[name] = payload(t, tx)
	}
	for name, b := range all {
		for i := range b {
			for _, flip := range []byte{1 << (i % 8), 0xff} {
				changed := bytes.Clone(b)
				changed[i] ^= flip
				if tx, err := Decode(changed); err == nil && !bytes.Equal(payload(t, tx), changed) {
					t.Errorf("%s, byte %d: got a payload that is written otherwise: %x", name, i, changed)
				}
				if c, err := DecodeNonceCreation(changed); err == nil && !bytes.Equal(payload(t, c), changed) {
					t.Errorf("%s, byte %d: got a creation that is written otherwise: %x", name, i, changed)
				}
			}
		}
		for n := range b {
			if tx, err := Decode(b[:n]); err == nil {
				t.Errorf("%s, the first %d bytes: got %+v, want an error", name, n, tx)
			}
			if c, err := DecodeNonceCreation(b[:n]); err == nil {
				t.Errorf("%s, the first %d bytes: got %+v, want an error", name, n, c)
			}
		}
	}
}

func TestDecodeRefusesEverythingUnusual(t *testing.T) {
	t.Parallel()
	who, to, from := mustBytes(alice), mustBytes(bob), mustBytes(carol)
	tokens := func(owner chain.Address) [keyBytes]byte {
		a, err := AssociatedAccount(owner, usdx, TokenProgram)
		if err != nil {
			t.Fatal(err)
		}
		return mustBytes(a)
	}
	memo := mustBytes("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
	units := func(begins []byte, n uint64, more ...byte) []byte {
		return append(binary.LittleEndian.AppendUint64(slices.Clone(begins), n), more...)
	}
	advance := instruction{system, advanceNonce, []meta{
		writableMeta(mustBytes(nonce0)), readOnly(blockhashes),
		readOnly(who).asSigner(),
	}}
	limit := instruction{budget, []byte{2, 0, 1, 0, 0}, nil}
	price := instruction{budget, units(setPrice, 9), nil}
	coin := instruction{system, units(transferData, 5), []meta{writableMeta(who).asSigner(), writableMeta(to)}}
	create := instruction{associated, createIdempotent, []meta{
		writableMeta(who).asSigner(), writableMeta(tokens(bob)),
		readOnly(to), readOnly(mustBytes(usdx)), readOnly(system), readOnly(token),
	}}
	pay := instruction{token, units(transferChecked, 5, 6), []meta{
		writableMeta(tokens(alice)),
		readOnly(mustBytes(usdx)), writableMeta(tokens(bob)), readOnly(who).asSigner(),
	}}
	made := func(ins ...instruction) []byte {
		b, err := compileMessage(who, mustBytes(value), ins)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	with := func(in instruction, change func(*instruction)) instruction {
		in.data, in.accounts = slices.Clone(in.data), slices.Clone(in.accounts)
		change(&in)
		return in
	}
	all := func(ins ...instruction) []byte { return made(append([]instruction{advance, limit, price}, ins...)...) }
	for name, in := range map[string][]byte{
		"coin": all(coin), "token": all(pay),
		"token and its account": all(create, pay), "both": all(coin, pay), "cancel": all(), "creation": all(create),
	} {
		if _, err := Decode(in); err != nil {
			t.Fatalf("%s: got %v, want it read", name, err)
		}
	}
	good := all(coin)
	raw := func(change func([]byte) []byte) []byte { return change(bytes.Clone(good)) }
	const keysAt = 4 // behind the header and the number of accounts
	accounts := int(good[3])

	for name, in := range map[string][]byte{
		"nothing":                    nil,
		"a byte":                     {1},
		"a byte too many":            append(bytes.Clone(good), 0),
		"a version":                  append([]byte{0x80}, append(bytes.Clone(good), 0)...),
		"huge":                       make([]byte, 100_000),
		"no signer":                  raw(func(b []byte) []byte { b[0] = 0; return b }),
		"more signers than accounts": raw(func(b []byte) []byte { b[0] = 100; return b }),
		"one more signer":            raw(func(b []byte) []byte { b[0]++; return b }),
		"a signer that only reads":   raw(func(b []byte) []byte { b[1]++; return b }),
		"more that only read":        raw(func(b []byte) []byte { b[2]++; return b }),
		"fewer that only read":       raw(func(b []byte) []byte { b[2]--; return b }),
		"a length in a longer form": raw(func(b []byte) []byte {
			return slices.Concat(b[:3], []byte{b[3] | 0x80, 0}, b[4:])
		}),
		"a length in four bytes": raw(func(b []byte) []byte {
			return slices.Concat(b[:3], []byte{b[3] | 0x80, 0x80, 0x80, 0}, b[4:])
		}),
		"an account that nobody names": raw(func(b []byte) []byte {
			end := keysAt + accounts*keyBytes
			b[2], b[3] = b[2]+1, b[3]+1
			return slices.Concat(b[:end], memo[:], b[end:])
		}),
		"an account twice": raw(func(b []byte) []byte {
			end := keysAt + accounts*keyBytes
			b[2], b[3] = b[2]+1, b[3]+1
			return slices.Concat(b[:end], b[end-keyBytes:end], b[end:])
		}),
		"an account that is not there": raw(func(b []byte) []byte { b[len(b)-14] = 200; return b }),
		"another order of accounts": raw(func(b []byte) []byte {
			// The last two are programs that only read.
			last, before := keysAt+(accounts-1)*keyBytes, keysAt+(accounts-2)*keyBytes
			return slices.Concat(b[:before], b[last:last+keyBytes], b[before:last], b[last+keyBytes:])
		}),
		"no nonce":               made(limit, price, coin),
		"no limit":               made(advance, price, coin),
		"no price":               made(advance, limit, coin),
		"only a payment":         made(coin),
		"the nonce is not first": made(limit, advance, price, coin),
		"price before limit":     made(advance, price, limit, coin),
		"the nonce twice":        all(advance, coin),
		"the limit twice":        all(limit, coin),
		"a memo":                 all(coin, instruction{memo, []byte("hi"), nil}),
		"a memo first": made(append([]instruction{{memo, []byte("hi"), nil}}, advance, limit, price,
			coin)...),
		"another authority": made(with(advance, func(i *instruction) {
			i.accounts[2] = readOnly(from).asSigner()
		}), limit, price, coin),
		"an account more": made(with(advance, func(i *instruction) {
			i.accounts = append(i.accounts, readOnly(from))
		}), limit, price, coin),
		"another sysvar": made(with(advance, func(i *instruction) {
			i.accounts[1] = readOnly(rent)
		}), limit, price, coin),
		"authorize": made(with(advance, func(i *instruction) { i.data = units([]byte{7, 0, 0, 0}, 0) }),
			limit, price, coin),
		"withdraw": all(instruction{
			system, units([]byte{5, 0, 0, 0}, 5),
			[]meta{
				writableMeta(mustBytes(nonce0)), writableMeta(to), readOnly(blockhashes), readOnly(rent),
				readOnly(who).asSigner(),
			},
		}),
		"no compute units": made(advance, with(limit, func(i *instruction) { i.data = []byte{2, 0, 0, 0, 0} }),
			price, coin),
		"too many compute units": made(advance, with(limit, func(i *instruction) { i.data = []byte{2, 0, 0, 0, 1} }),
			price, coin),
		"a limit with an account": made(advance, with(limit,
			func(i *instruction) { i.accounts = []meta{readOnly(who)} }), price, coin),
		"a heap":                 all(instruction{budget, []byte{1, 0, 0, 1, 0}, nil}, coin),
		"nothing paid":           all(with(coin, func(i *instruction) { i.data = units(transferData, 0) })),
		"a transfer and a byte":  all(with(coin, func(i *instruction) { i.data = units(transferData, 5, 0) })),
		"a transfer with a seed": all(with(coin, func(i *instruction) { i.data = units([]byte{11, 0, 0, 0}, 5) })),
		"a receiver that signs":  all(with(coin, func(i *instruction) { i.accounts[1].signer = true })),
		"a third account": all(with(coin, func(i *instruction) {
			i.accounts = append(i.accounts, readOnly(from))
		})),
		"to the System program": all(with(coin, func(i *instruction) { i.accounts[1] = writableMeta(system) })),
		"to the incinerator": all(with(coin, func(i *instruction) {
			i.accounts[1] = writableMeta(mustBytes("1nc1nerator11111111111111111111111111111111"))
		})),
		"to the nonce account": all(with(coin, func(i *instruction) {
			i.accounts[1] = writableMeta(mustBytes(nonce0))
		})),
		"from off the curve": all(with(coin, func(i *instruction) {
			i.accounts[0] = writableMeta(mustBytes(usdx)).asSigner()
		})),
		"the mint may be written": all(with(pay, func(i *instruction) { i.accounts[1].writable = true })),
		"the owner may be written": all(with(pay, func(i *instruction) {
			i.accounts[3] = writableMeta(from).asSigner()
			i.accounts[0] = writableMeta(tokens(carol))
		})),
		"the owner does not sign": all(with(pay, func(i *instruction) {
			i.accounts[3] = readOnly(from)
			i.accounts[0] = writableMeta(tokens(carol))
		})),
		"another source": all(with(pay, func(i *instruction) {
			i.accounts[0] = writableMeta(tokens(carol))
		})),
		"several owners": all(with(pay, func(i *instruction) {
			i.accounts = append(i.accounts, readOnly(from).asSigner())
		})),
		"no token paid":      all(with(pay, func(i *instruction) { i.data = units(transferChecked, 0, 6) })),
		"a token and a byte": all(with(pay, func(i *instruction) { i.data = append(i.data, 0) })),
		"an unchecked transfer": all(instruction{
			token, units([]byte{3}, 5),
			[]meta{writableMeta(tokens(alice)), writableMeta(tokens(bob)), readOnly(who).asSigner()},
		}),
		"approve": all(with(pay, func(i *instruction) { i.data[0] = 13 })),
		"set authority": all(instruction{
			token,
			[]byte{6, 2, 0},
			[]meta{writableMeta(tokens(alice)), readOnly(who).asSigner()},
		}),
		"close": all(instruction{
			token,
			[]byte{9},
			[]meta{writableMeta(tokens(alice)), writableMeta(who), readOnly(who).asSigner()},
		}),
		"a token of another program":     all(with(pay, func(i *instruction) { i.program = memo })),
		"a program's account of both":    all(with(pay, func(i *instruction) { i.program = token2022 })),
		"create in the old form":         all(with(create, func(i *instruction) { i.data = nil }), pay),
		"create and fail":                all(with(create, func(i *instruction) { i.data = []byte{0} }), pay),
		"recover":                        all(with(create, func(i *instruction) { i.data = []byte{2} }), pay),
		"a creation, and a cancel of it": all(create, advance),
		"two creations":                  all(create, create),
		"a creation for another owner":   all(with(create, func(i *instruction) { i.accounts[2] = readOnly(from) })),
		"a creation of another mint": all(with(create, func(i *instruction) {
			i.accounts[3] = readOnly(mustBytes(usdt))
		})),
		"a creation of another program": all(with(create, func(i *instruction) {
			i.accounts[5] = readOnly(token2022)
		})),
		"a creation of no token program": all(with(create, func(i *instruction) { i.accounts[5] = readOnly(memo) })),
		"a creation at another address": all(with(create, func(i *instruction) {
			i.accounts[1] = writableMeta(tokens(carol))
		})),
		"a creation that another pays": all(with(create, func(i *instruction) {
			i.accounts[0] = writableMeta(from).asSigner()
		})),
		"a creation for the fee payer": all(with(create, func(i *instruction) {
			i.accounts[1], i.accounts[2] = writableMeta(tokens(alice)), readOnly(who)
		})),
		"a creation that fails if it exists":  all(with(create, func(i *instruction) { i.data = []byte{0} })),
		"a creation with an owner that signs": all(with(create, func(i *instruction) { i.accounts[2].signer = true })),
		"a close and a creation": all(instruction{token, []byte{9}, []meta{
			writableMeta(tokens(carol)), writableMeta(who), readOnly(from).asSigner(),
		}}, create),
		"an account for a coin":       all(create, coin),
		"an account twice made":       all(create, pay, create, pay),
		"an account behind":           all(pay, create),
		"an account of a third party": all(with(create, func(i *instruction) { i.accounts[2] = readOnly(from) }), pay),
		"another mint's account": all(with(create, func(i *instruction) {
			i.accounts[3] = readOnly(mustBytes(usdt))
		}), pay),
		"somebody else pays the rent": all(with(create, func(i *instruction) {
			i.accounts[0] = writableMeta(from).asSigner()
		}), pay),
		"signed":          append(append([]byte{1}, make([]byte, 64)...), good...),
		"a nonce account": payload(t, NonceCreation{Treasury: alice, Blockhash: value}),
		"a nonce of zero": raw(func(b []byte) []byte {
			clear(b[keysAt+accounts*keyBytes:][:keyBytes])
			return b
		}),
	} {
		if got, err := Decode(in); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
		if got, err := Signers(in); err == nil && name != "a nonce account" {
			t.Errorf("%s: got signers %v, want an error", name, got)
		}
	}
}

func TestOnlyOurNonceAccountsAreMade(t *testing.T) {
	t.Parallel()
	who, account := mustBytes(alice), nonceAccount(mustBytes(alice), 7)
	seeded := func(base [keyBytes]byte, seed string) []byte {
		return append(binary.LittleEndian.AppendUint64(slices.Clone(base[:]), uint64(len(seed))), seed...)
	}
	number := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	init := slices.Concat(initializeNonce, who[:])
	other := mustBytes(bob)
	pay := instruction{
		system, slices.Concat(transferData, number(1)),
		[]meta{writableMeta(who).asSigner(), writableMeta(other)},
	}
	make2 := func(ins ...instruction) []byte {
		b, err := compileMessage(who, mustBytes(value), ins)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	ready := func(init []byte, at [keyBytes]byte) instruction {
		return instruction{system, init, []meta{writableMeta(at), readOnly(blockhashes), readOnly(rent)}}
	}
	// made has what differs from a valid instruction of either form.
	type made struct {
		base            [keyBytes]byte
		seed            string
		lamports, space uint64
		owner           [keyBytes]byte
		init            []byte
		at              [keyBytes]byte
		more            []instruction
	}
	good := made{who, "coffer-nonce-7", NonceRent, 80, system, init, account, nil}
	forms := map[string]func(made) []byte{
		"bare": func(m made) []byte {
			data := slices.Concat(createWithSeed, seeded(m.base, m.seed), number(m.lamports), number(m.space),
				m.owner[:])
			return make2(append([]instruction{{system, data, []meta{
				writableMeta(who).asSigner(), writableMeta(m.at),
				readOnly(who).asSigner(),
			}}, ready(m.init, m.at)}, m.more...)...)
		},
		"paid": func(m made) []byte {
			return make2(append([]instruction{
				{
					system, slices.Concat(transferData, number(m.lamports)),
					[]meta{writableMeta(who).asSigner(), writableMeta(m.at)},
				},
				{
					system, slices.Concat(allocWithSeed, seeded(m.base, m.seed), number(m.space), m.owner[:]),
					[]meta{writableMeta(m.at), readOnly(who).asSigner()},
				},
				ready(m.init, m.at),
			}, m.more...)...)
		},
	}
	for form, write := range forms {
		if c, err := DecodeNonceCreation(write(good)); err != nil ||
			c != (NonceCreation{alice, 7, value, form == "bare"}) {
			t.Fatalf("%s: got %+v, %v, want alice's seventh", form, c, err)
		}
		for name, change := range map[string]func(*made){
			"another authority": func(m *made) { m.init = slices.Concat(initializeNonce, other[:]) },
			"another base":      func(m *made) { m.base = other },
			"another seed":      func(m *made) { m.seed = "nonce-7" },
			"no number":         func(m *made) { m.seed = "coffer-nonce-" },
			"a leading zero":    func(m *made) { m.seed = "coffer-nonce-07" },
			"a sign":            func(m *made) { m.seed = "coffer-nonce-+7" },
			"too far":           func(m *made) { m.seed = "coffer-nonce-4294967296" },
			"more rent":         func(m *made) { m.lamports++ },
			"less rent":         func(m *made) { m.lamports-- },
			"more space":        func(m *made) { m.space++ },
			"another owner":     func(m *made) { m.owner = token },
			"another account":   func(m *made) { m.at = nonceAccount(who, 8) },
			"a payment besides": func(m *made) { m.more = []instruction{pay} },
		} {
			m := good
			change(&m)
			if c, err := DecodeNonceCreation(write(m)); err == nil {
				t.Errorf("%s, %s: got %+v, want an error", form, name, c)
			}
		}
	}
	nine := instruction{
		system, slices.Concat(allocWithSeed, seeded(who, "coffer-nonce-7"), number(80), system[:]),
		[]meta{writableMeta(account), readOnly(who).asSigner()},
	}
	rentPaid := instruction{
		system, slices.Concat(transferData, number(NonceRent)),
		[]meta{writableMeta(who).asSigner(), writableMeta(account)},
	}
	for name, in := range map[string][]byte{
		"paid elsewhere":   make2(instruction{system, rentPaid.data, pay.accounts}, nine, ready(init, account)),
		"paid twice":       make2(rentPaid, rentPaid, nine, ready(init, account)),
		"not initialized":  make2(rentPaid, nine),
		"not made":         make2(rentPaid, ready(init, account)),
		"paid and no more": make2(rentPaid),
		"a payment":        payload(t, samples(t)["coin"]),
		"nothing":          nil,
	} {
		if c, err := DecodeNonceCreation(in); err == nil {
			t.Errorf("%s: got %+v, want an error", name, c)
		}
	}
	for name, c := range map[string]NonceCreation{
		"nobody":             {Blockhash: value},
		"off the curve":      {Treasury: usdx, Blockhash: value},
		"no block":           {Treasury: alice},
		"a block of zero":    {Treasury: alice, Blockhash: string(SystemProgram)},
		"the System program": {Treasury: SystemProgram, Blockhash: value},
	} {
		if b, err := c.Payload(); err == nil {
			t.Errorf("%s: got %x, want an error", name, b)
		}
	}
	if got, want := (NonceCreation{}).MaxCost(), money.Units(1_452_680); got != want {
		t.Errorf("cost: got %v, want %v", got, want)
	}
}

func TestPayloadRefusesWhatDecodeWould(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Tx){
		"no payer":                   func(x *Tx) { x.Payer = "" },
		"a payer off the curve":      func(x *Tx) { x.Payer = usdx },
		"no nonce account":           func(x *Tx) { x.NonceAccount = "" },
		"the payer as nonce account": func(x *Tx) { x.NonceAccount = alice },
		"a sysvar as nonce account":  func(x *Tx) { x.NonceAccount = rentSysvar },
		"no nonce":                   func(x *Tx) { x.NonceValue = "" },
		"a nonce of zero":            func(x *Tx) { x.NonceValue = string(SystemProgram) },
		"a short nonce":              func(x *Tx) { x.NonceValue = "abc" },
		"no limit":                   func(x *Tx) { x.Limit = 0 },
		"too high a limit":           func(x *Tx) { x.Limit = LimitMax + 1 },
		"no sender":                  func(x *Tx) { x.Moves[0].From = "" },
		"another form of a sender":   func(x *Tx) { x.Moves[0].From = "1" + alice },
		"no receiver":                func(x *Tx) { x.Moves[0].To = "" },
		"no amount":                  func(x *Tx) { x.Moves[0].Amount = money.Zero },
		"too much":                   func(x *Tx) { x.Moves[0].Amount = money.MustParse("18446744073709551616") },
		"no program":                 func(x *Tx) { x.Moves[0].TokenProgram = "" },
		"another program":            func(x *Tx) { x.Moves[0].TokenProgram = SystemProgram },
		"no mint":                    func(x *Tx) { x.Moves[0].Mint = "" },
		"a program as mint":          func(x *Tx) { x.Moves[0].Mint = TokenProgram },
		"another owner":              func(x *Tx) { x.Moves[0].Owner = carol },
		"a wallet as token account":  func(x *Tx) { x.Moves[0].To = bob },
		"made twice":                 func(x *Tx) { x.Moves = append(x.Moves, x.Moves[0]) },
		"more than a packet": func(x *Tx) {
			for i := range 20 {
				_, a := keyOf(fmt.Sprint(i))
				x.Moves = append(x.Moves, Move{From: a, To: bob, Amount: money.Units(1)})
			}
		},
		"more accounts than fit": func(x *Tx) {
			for i := range 300 {
				_, a := keyOf(fmt.Sprint(i))
				x.Moves = append(x.Moves, Move{From: a, To: bob, Amount: money.Units(1)})
			}
		},
	} {
		tx := samples(t)["token and its account"]
		change(&tx)
		if b, err := tx.Payload(); err == nil {
			t.Errorf("%s: got %x, want an error", name, b)
		}
	}
	if _, err := NewMove(chain.Payment{From: alice, To: bob, Amount: money.Units(1)}, "", 0, true); err == nil {
		t.Error("account of the native coin: got no error")
	}
	if _, err := NewMove(chain.Payment{From: alice, To: bob, Contract: usdx}, "", 6, true); err == nil {
		t.Error("token without a program: got no error")
	}
}

func TestPaysFindsEveryDifference(t *testing.T) {
	t.Parallel()
	coin := chain.Payment{From: alice, To: bob, Amount: money.Units(1)}
	dollars := chain.Payment{From: alice, To: bob, Contract: usdx, Amount: money.Units(5_000_000)}
	all := samples(t)
	for name, p := range map[string]chain.Payment{"coin": coin, "token and its account": dollars} {
		if err := all[name].CheckPayments(p); err != nil {
			t.Errorf("%s: got %v, want it paid", name, err)
		}
		for what, change := range map[string]func(*chain.Payment){
			"payer":    func(p *chain.Payment) { p.From = carol },
			"receiver": func(p *chain.Payment) { p.To = carol },
			"nobody":   func(p *chain.Payment) { p.To = "" },
			"amount":   func(p *chain.Payment) { p.Amount = money.Units(2) },
			"mint":     func(p *chain.Payment) { p.Contract = usdt },
		} {
			q := p
			change(&q)
			if err := all[name].CheckPayments(q); err == nil {
				t.Errorf("%s, another %s: got no error", name, what)
			}
		}
	}
	if err := all["coin"].CheckPayments(dollars); err == nil {
		t.Error("coin for dollars: got no error")
	}
	if err := all["token of Token-2022"].CheckPayments(dollars); err == nil {
		t.Error("another program's account and amount: got no error")
	}
	for _, name := range []string{"cancel", "several"} {
		if err := all[name].CheckPayments(coin); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	stranger := all["token and its account"].Moves[0]
	stranger.Owner = carol
	if err := stranger.CheckPayment(dollars); err == nil {
		t.Error("account made for somebody else: got no error")
	}
}

// The creation of a token account is exactly that, for the payment that names its wallet and its mint, and no other
// transaction is one. Rule CO-137.
func TestACreationIsOfOneAccountAndDoesNothingElse(t *testing.T) {
	t.Parallel()
	all := samples(t)
	want := chain.Payment{From: alice, To: bob, Contract: usdx, CreatesTokenAccount: true}
	for _, name := range []string{"a creation", "a creation of Token-2022"} {
		if err := all[name].CheckPayments(want); err != nil {
			t.Errorf("%s: got %v, want it to be that", name, err)
		}
		for what, change := range map[string]func(*chain.Payment){
			"another payer":     func(p *chain.Payment) { p.From = carol },
			"another fee payer": func(p *chain.Payment) { p.Payer = carol },
			"another owner":     func(p *chain.Payment) { p.To = carol },
			"another mint":      func(p *chain.Payment) { p.Contract = usdt },
			"no mint":           func(p *chain.Payment) { p.Contract = "" },
			"an amount":         func(p *chain.Payment) { p.Amount = money.Units(1) },
			"a close as well":   func(p *chain.Payment) { p.ClosesTokenAccount = true },
			"a nonce account":   func(p *chain.Payment) { p.CreatesNonceAccount = true },
			"a payment":         func(p *chain.Payment) { p.CreatesTokenAccount, p.Amount = false, money.Units(1) },
		} {
			p := want
			change(&p)
			if err := all[name].CheckPayments(p); err == nil {
				t.Errorf("%s, %s: got no error", name, what)
			}
		}
		if err := all[name].CheckPayments(want, want); err == nil {
			t.Errorf("%s, twice: got no error", name)
		}
		if err := all[name].CheckPayments(); err == nil {
			t.Errorf("%s, no payment: got no error", name)
		}
	}
	for name, tx := range all {
		if strings.HasPrefix(name, "a creation") {
			continue
		}
		if err := tx.CheckPayments(want); err == nil {
			t.Errorf("%s for a creation: got no error", name)
		}
	}
	if err := (NonceCreation{Treasury: alice, Blockhash: value}).CheckPayment(want); err == nil {
		t.Error("a nonce account for a creation: got no error")
	}
	for name, change := range map[string]func(*Tx){
		"with a move":       func(x *Tx) { x.Moves = all["coin"].Moves },
		"with a close":      func(x *Tx) { x.Closes = all["a close"].Closes },
		"of the fee payer":  func(x *Tx) { x.Creation.Owner = alice },
		"of the nonce":      func(x *Tx) { x.Creation.Owner = nonce0 },
		"without an owner":  func(x *Tx) { x.Creation.Owner = "" },
		"without a mint":    func(x *Tx) { x.Creation.Mint = "" },
		"of a program":      func(x *Tx) { x.Creation.Mint = TokenProgram },
		"without a program": func(x *Tx) { x.Creation.TokenProgram = "" },
		"by the System":     func(x *Tx) { x.Creation.TokenProgram = SystemProgram },
	} {
		x := samples(t)["a creation"]
		change(&x)
		if b, err := x.Payload(); err == nil {
			t.Errorf("a creation %s: got %x, want an error", name, b)
		}
		if err := x.CheckPayments(want); err == nil && (len(x.Moves) > 0 || len(x.Closes) > 0) {
			t.Errorf("a creation %s: got no error", name)
		}
	}
}

func TestTheMostThatATransactionCosts(t *testing.T) {
	t.Parallel()
	all := samples(t)
	for name, want := range map[string]struct{ fee, rent string }{
		"cancel":                   {"5000", "0"},
		"coin":                     {"5001", "0"}, // a thousandth, rounded up
		"coin of another wallet":   {"1539316288887", "0"},
		"token and its account":    {"5300", "2039280"},
		"token of another wallet":  {"10300", "0"},
		"token of Token-2022":      {"5300", "2074080"},
		"several":                  {"16500", "2039280"},
		"a creation":               {"5300", "2039280"},
		"a creation of Token-2022": {"5300", "2074080"},
	} {
		tx := all[name]
		fee, rent := money.MustParse(want.fee), money.MustParse(want.rent)
		if tx.MaxFee() != fee || tx.Rent() != rent {
			t.Errorf("%s: got %v and %v, want %v and %v", name, tx.MaxFee(), tx.Rent(), fee, rent)
		}
		if sum, err := fee.Add(rent); err != nil || tx.MaxCost() != sum {
			t.Errorf("%s: got %v, want %v", name, tx.MaxCost(), sum)
		}
	}
	most := Tx{Payer: alice, Limit: LimitMax, Price: 1<<64 - 1}
	if got, want := most.MaxFee(), money.MustParse("25825441703193377261"); got != want {
		t.Errorf("the most: got %v, want %v", got, want)
	}
}

func TestAttachFindsAWrongSignature(t *testing.T) {
	t.Parallel()
	b := payload(t, samples(t)["coin of another wallet"])
	sign := func(name string, message []byte) [64]byte {
		k, _ := keyOf(name)
		return [64]byte(ed25519.Sign(k, message))
	}
	first, second := sign("alice", b), sign("carol", b)
	raw, hash, err := AttachSignatures(b, first, second)
	if err != nil {
		t.Fatal(err)
	}
	if by, err := Signers(b); err != nil || !slices.Equal(by, []chain.Address{alice, carol}) {
		t.Errorf("signers: got %v, %v, want alice and carol", by, err)
	}
	for name, s := range map[string][][64]byte{
		"none": {}, "one": {first}, "three": {first, second, second}, "swapped": {second, first},
		"twice": {first, first}, "somebody else's": {first, sign("bob", b)}, "of other bytes": {
			first,
			sign("carol", b[1:]),
		}, "zero": {first, {}},
	} {
		if raw, _, err := AttachSignatures(b, s...); err == nil {
			t.Errorf("%s: got %x, want an error", name, raw)
		}
	}
	if _, _, err := AttachSignatures(b[1:], first, second); err == nil {
		t.Error("signatures of something else: got no error")
	}

	inner, again, err := VerifySigned(raw)
	if err != nil || again != hash || !bytes.Equal(inner, b) {
		t.Errorf("Open: got %x, %s, %v, want %x, %s", inner, again, err, b, hash)
	}
	for i := range raw {
		changed := bytes.Clone(raw)
		changed[i] ^= 1
		if tx, _, err := DecodeSigned(changed); err == nil {
			t.Errorf("byte %d changed: got %+v, want an error", i, tx)
		}
	}
	for name, in := range map[string][]byte{
		"nothing": nil, "no signature": append([]byte{0},
			b...), "unsigned": b, "cut off": raw[:100], "a byte more": append(bytes.Clone(raw), 0),
		"huge": make([]byte, 1<<20), "a longer length": slices.Concat([]byte{0x82, 0}, raw[1:]),
	} {
		if _, hash, err := VerifySigned(in); err == nil {
			t.Errorf("%s: got %s, want an error", name, hash)
		}
	}

	creation := payload(t, NonceCreation{Treasury: alice, N: 3, Blockhash: value})
	raw, hash, err = AttachSignatures(creation, sign("alice", creation))
	if err != nil {
		t.Fatal(err)
	}
	if inner, again, err := VerifySigned(raw); err != nil || again != hash || !bytes.Equal(inner, creation) {
		t.Errorf("Open: got %x, %s, %v, want the creation", inner, again, err)
	}
	if tx, _, err := DecodeSigned(raw); err == nil {
		t.Errorf("creation as a payment: got %+v, want an error", tx)
	}
}

func TestOnlyAUsableNonceIsRead(t *testing.T) {
	t.Parallel()
	who, v := mustBytes(alice), mustBytes(value)
	good := slices.Concat([]byte{1, 0, 0, 0, 1, 0, 0, 0}, who[:], v[:], []byte{0x88, 0x13, 0, 0, 0, 0, 0, 0})
	authority, val, fee, err := ParseNonce(good)
	if err != nil || authority != alice || val != value || fee != 5000 {
		t.Errorf("got %s, %s, %d, %v, want alice's with 5000", authority, val, fee, err)
	}
	for name, change := range map[string]func([]byte) []byte{
		"a byte less":     func(b []byte) []byte { return b[:79] },
		"a byte more":     func(b []byte) []byte { return append(b, 0) },
		"nothing":         func([]byte) []byte { return nil },
		"legacy":          func(b []byte) []byte { b[0] = 0; return b },
		"a later version": func(b []byte) []byte { b[0] = 2; return b },
		"uninitialized":   func(b []byte) []byte { b[4] = 0; return b },
		"another state":   func(b []byte) []byte { b[7] = 1; return b },
		"without a value": func(b []byte) []byte { clear(b[40:72]); return b },
		"all zero":        func(b []byte) []byte { clear(b); return b },
	} {
		if a, v, _, err := ParseNonce(change(bytes.Clone(good))); err == nil {
			t.Errorf("%s: got %s, %s, want an error", name, a, v)
		}
	}
}

func TestASlotKeyIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	tx := samples(t)["coin"]
	if a, v, err := ParseSlotKey(tx.SlotKey()); err != nil || a != tx.NonceAccount || v != tx.NonceValue ||
		tx.SlotKey() != nonce0+" "+value {
		t.Errorf("got %s, %s, %v, want %s, %s", a, v, err, nonce0, value)
	}
	for _, text := range []string{"", nonce0, nonce0 + " ", " " + value, nonce0 + "  " + value, nonce0 + " " + value +
		" ", nonce0 + " " + value + " " + value, nonce0 + "\n" + value, nonce0 + " " + string(SystemProgram)} {
		if a, v, err := ParseSlotKey(text); err == nil {
			t.Errorf("ParseLease(%q): got %s, %s, want an error", text, a, v)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, tx := range samples(f) {
		f.Add(payload(f, tx))
	}
	f.Add(payload(f, NonceCreation{Treasury: alice, Blockhash: value}))
	f.Fuzz(func(t *testing.T, b []byte) {
		tx, err := Decode(b)
		if err == nil && !bytes.Equal(payload(t, tx), b) {
			t.Errorf("got a transaction that is written otherwise: %+v", tx)
		}
		c, err2 := DecodeNonceCreation(b)
		if err2 == nil && !bytes.Equal(payload(t, c), b) {
			t.Errorf("got a creation that is written otherwise: %+v", c)
		}
		by, err3 := Signers(b)
		if (err3 == nil) != (err == nil || err2 == nil) {
			t.Errorf("signers: got %v, %v, want them of what is read", by, err3)
		}
		if err == nil && by[0] != tx.Payer {
			t.Errorf("signers: got %v, want %s first", by, tx.Payer)
		}
	})
}

func FuzzOpen(f *testing.F) {
	k, _ := keyOf("alice")
	for _, name := range []string{"cancel", "coin", "token and its account"} {
		b := payload(f, samples(f)[name])
		raw, _, err := AttachSignatures(b, [64]byte(ed25519.Sign(k, b)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		inner, hash, err := VerifySigned(b)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(b, inner) || len(b) != 1+64*int(b[0])+len(inner) || string(hash) != base58.Encode(b[1:65]) {
			t.Errorf("got %x and %s of %x", inner, hash, b)
		}
	})
}
