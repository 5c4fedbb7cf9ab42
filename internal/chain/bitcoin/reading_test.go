package bitcoin_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/money"
)

func (l *lab) heads(t *testing.T) chain.Heads {
	t.Helper()
	h, err := l.chain.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (l *lab) final(t *testing.T, height uint64) chain.Contents {
	t.Helper()
	c, err := l.chain.Reader.Final(t.Context(), height)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tip returns the newest block.
func (l *lab) tip(t *testing.T) chain.Contents {
	t.Helper()
	c, err := l.chain.Reader.Recent(t.Context(), l.heads(t).Latest.Height)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// senders returns the senders of one movement of a block.
func (l *lab) senders(t *testing.T, c chain.Contents, tr chain.Transfer) []chain.Address {
	t.Helper()
	got, err := l.chain.Reader.Senders(t.Context(), c.Block, []chain.Transfer{tr})
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v, want the senders of one movement", got, err)
	}
	return got[0]
}

func to(c chain.Contents, a chain.Address) []chain.Transfer {
	return slices.DeleteFunc(slices.Clone(c.Transfers), func(tr chain.Transfer) bool { return tr.To != a })
}

func out(t *testing.T, a chain.Address, satoshi int64) *wire.TxOut {
	t.Helper()
	o, err := btcd.NewOutput(a, satoshi)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// coin returns an output of a transaction.
func coin(tx *wire.MsgTx, n int) btcd.Output {
	return btcd.Output{OutPoint: wire.OutPoint{Hash: tx.TxHash(), Index: uint32(n)}, TxOut: *tx.TxOut[n]}
}

func TestOnlyWhatABlockHoldsIsSeen(t *testing.T) {
	t.Parallel()
	l := newLab(t)

	t.Run("one transaction pays two addresses, one of them twice", func(t *testing.T) {
		a, b := l.Account(t), l.Account(t)
		tx, err := l.node.PayOutputs(t.Context(), out(t, a, 1_000), out(t, b, 2_000), out(t, a, 3_000))
		if err != nil {
			t.Fatal(err)
		}
		l.Mine(t, 1)
		c := l.tip(t)
		if got := to(c, a); len(got) != 2 || got[0].Position != "0" || got[1].Position != "2" ||
			got[0].Amount != money.Units(1_000) || got[1].Amount != money.Units(3_000) ||
			got[0].Tx != chain.TxHash(tx.TxHash().String()) {
			t.Errorf("got %+v, want two outputs with their numbers", got)
		}
		if got := to(c, b); len(got) != 1 || got[0].Position != "1" ||
			!slices.Equal(l.senders(t, c, got[0]), []chain.Address{btcd.FaucetAddress()}) {
			t.Errorf("got %+v, want one output of the faucet", got)
		}
		if !c.BalancesProven || c.Verified != "merkle-root" || len(c.Fees) != 0 {
			t.Errorf("got %+v, want it proven by its root, and fees of nobody", c)
		}
	})
	// H-69: its fee is so low that nodes drop it, and it is sent again.
	t.Run("a payment that waits, goes and returns", func(t *testing.T) {
		a := l.Account(t)
		was := l.heads(t).Latest.Height
		tx := l.pay(t, a, money.Units(7_000))
		if _, err := l.node.MineOnly(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Mine(t, 1)
		got := to(l.tip(t), a)
		if len(got) != 1 || got[0].Tx != chain.TxHash(tx.TxHash().String()) {
			t.Errorf("once it is in a block: got %+v, want it", got)
		}
		if c, err := l.chain.Reader.Recent(t.Context(), was+1); err != nil || len(to(c, a)) != 0 {
			t.Errorf("while it waits: got %+v, %v, want nothing", to(c, a), err)
		}
	})
	t.Run("a payment that is replaced by another to us", func(t *testing.T) {
		a := l.Account(t)
		first := l.pay(t, a, money.Units(7_000))
		second, err := l.node.ReplacePayment(t.Context(), first, out(t, a, 6_000))
		if err != nil {
			t.Fatal(err)
		}
		l.Mine(t, 1)
		if got := to(l.tip(t), a); len(got) != 1 || got[0].Tx != chain.TxHash(second.TxHash().String()) ||
			got[0].Amount != money.Units(6_000) {
			t.Errorf("got %+v, want the second alone", got)
		}
	})
	t.Run("a look-alike with the same coins under another name", func(t *testing.T) {
		a := l.Account(t)
		first := l.pay(t, a, money.Units(7_000))
		alike, err := l.node.ReplacePayment(t.Context(), first, first.TxOut[0])
		if err != nil {
			t.Fatal(err)
		}
		if first.TxHash() == alike.TxHash() || first.TxIn[0].PreviousOutPoint != alike.TxIn[0].PreviousOutPoint {
			t.Fatal("got no look-alike, want the same coins under another name")
		}
		if _, err := l.node.MineOnly(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		l.Mine(t, 1)
		c := l.heads(t).Latest.Height
		var got []chain.Transfer
		for h := c - 1; h <= c; h++ {
			b, err := l.chain.Reader.Recent(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, to(b, a)...)
		}
		if len(got) != 1 || got[0].Tx != chain.TxHash(first.TxHash().String()) {
			t.Errorf("got %+v, want the one that a block holds", got)
		}
	})
	t.Run("what is no form of address pays nobody", func(t *testing.T) {
		a := l.Account(t)
		data, err := txscript.NullDataScript([]byte("nothing"))
		if err != nil {
			t.Fatal(err)
		}
		bare, err := txscript.NewScriptBuilder().
			AddData(newKey(t).PubKey().SerializeCompressed()).AddOp(txscript.OP_CHECKSIG).Script()
		if err != nil {
			t.Fatal(err)
		}
		tx, err := l.node.PayOutputs(t.Context(), wire.NewTxOut(0, data), wire.NewTxOut(1_000, bare),
			wire.NewTxOut(1_000, []byte{txscript.OP_1, 2, 0x4e, 0x73}), wire.NewTxOut(1_000,
				append([]byte{txscript.OP_2, 32}, make([]byte, 32)...)), out(t, a, 1_000))
		if err != nil {
			t.Fatal(err)
		}
		l.Mine(t, 1)
		var positions []string
		for _, tr := range l.tip(t).Transfers {
			if tr.Tx == chain.TxHash(tx.TxHash().String()) {
				positions = append(positions, tr.Position)
			}
		}
		if !slices.Equal(positions, []string{"4", "5"}) {
			t.Errorf("got outputs %v, want the one to us and the change", positions)
		}
	})
	t.Run("the older branch comes back", func(t *testing.T) {
		a := l.Account(t)
		l.pay(t, a, money.Units(9_000))
		l.Mine(t, 1)
		was := l.tip(t)
		hash := hashOf(t, was.Hash)
		if err := l.node.InvalidateBlock(t.Context(), hash); err != nil {
			t.Fatal(err)
		}
		if _, err := l.node.MineOnly(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := l.tip(t); got.Height != was.Height || got.Hash == was.Hash || len(to(got, a)) != 0 {
			t.Errorf("got %+v, want another block without the payment", got)
		}
		other := hashOf(t, l.tip(t).Hash)
		if err := l.node.ReconsiderBlock(t.Context(), hash); err != nil {
			t.Fatal(err)
		}
		if err := l.node.InvalidateBlock(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if got := l.tip(t); got.Hash != was.Hash || len(to(got, a)) != 1 {
			t.Errorf("got %+v, want the first block again", got)
		}
	})
	t.Run("a miner's coins count when they can be spent", func(t *testing.T) {
		l.Mine(t, 3)
		final := l.heads(t).Final
		made := final.Height - 99
		hash, err := l.node.BlockHash(t.Context(), int(made))
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.node.ReadBlock(t.Context(), hash)
		if err != nil {
			t.Fatal(err)
		}
		id := chain.TxHash(b.Transactions[0].TxHash().String())
		of := func(c chain.Contents) []chain.Transfer {
			return slices.DeleteFunc(slices.Clone(c.Transfers), func(tr chain.Transfer) bool { return tr.Tx != id })
		}
		c := l.final(t, final.Height)
		got := of(c)
		if len(got) != 1 || got[0].Position != "0" || got[0].From != "" || got[0].To != btcd.FaucetAddress() ||
			got[0].Amount != money.Units(50_0000_0000) {
			t.Fatalf("got %+v, want the coins of block %d in block %d", got, made, final.Height)
		}
		if from := l.senders(t, c, got[0]); len(from) != 0 {
			t.Errorf("got them from %v, want them of nobody", from)
		}
		if got := of(l.final(t, made)); len(got) != 0 {
			t.Errorf("in the block that made them: got %+v, want nothing", got)
		}
		if got := of(l.final(t, final.Height-1)); len(got) != 0 {
			t.Errorf("one block earlier: got %+v, want nothing", got)
		}
	})
	t.Run("balances with and without an index are the same, of every block", func(t *testing.T) {
		key := newKey(t)
		a := btcd.KeyAddress(key)
		first := l.pay(t, a, money.Units(40_000))
		l.Mine(t, 1)
		second := l.pay(t, a, money.Units(5_000))
		spend, err := l.node.BuildSpend(key, []btcd.Output{coin(first, 0)}, 1_000, out(t, l.Account(t), 9_000))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.node.SendTx(t.Context(), spend); err != nil {
			t.Fatal(err)
		}
		l.Mine(t, 1)
		last, err := l.node.BuildSpend(key, []btcd.Output{coin(second, 0), coin(spend, 1)}, 1_000)
		if err != nil {
			t.Fatal(err)
		}
		l.pay(t, a, money.Units(77_000)) // waits
		if _, err := l.node.MineOnly(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		top := l.heads(t).Latest.Height
		both := open(t, config(endpoint(l.node), core(t, l.node)))
		for behind, want := range []uint64{34_000, 35_000, 40_000, 0} {
			c, err := both.Reader.Recent(t.Context(), top-uint64(behind))
			if err != nil {
				t.Fatal(err)
			}
			of := []chain.Holding{{Address: a}, {Address: btcd.FaucetAddress()}, {Address: l.Account(t)}, {Address: a}}
			got, err := both.Reader.Balances(t.Context(), c.Block, of)
			if err != nil || len(got) != 4 || got[0] != got[3] || !got[2].IsZero() || got[1].IsZero() {
				t.Fatalf("%d blocks back: got %v, %v, want four amounts that both kinds of node give", behind, got, err)
			}
			if got[0] != money.Units(want) {
				t.Errorf("%d blocks back: got %v, want %d", behind, got[0], want)
			}
		}
		for name, bad := range map[string]chain.Holding{
			"a token":            {Address: a, Contract: a},
			"of another network": {Address: "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"},
		} {
			if got, err := both.Reader.Balances(t.Context(), l.heads(t).Latest, []chain.Holding{bad}); err == nil {
				t.Errorf("%s: got %v, want an error", name, got)
			}
		}
	})
}

func hashOf(t *testing.T, s string) chainhash.Hash {
	t.Helper()
	h, err := chainhash.NewHashFromStr(s)
	if err != nil {
		t.Fatal(err)
	}
	return *h
}

// wallet is an address of some form, with how it is spent.
type wallet struct {
	script []byte
	sign   func(tx *wire.MsgTx, n int, hashes *txscript.TxSigHashes, spent *wire.TxOut) error
}

func script(t *testing.T, b *txscript.ScriptBuilder) []byte {
	t.Helper()
	s, err := b.Script()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wallets returns one wallet of each form.
func wallets(t *testing.T) map[string]wallet {
	t.Helper()
	key := newKey(t)
	public := key.PubKey().SerializeCompressed()
	keyHash := address.Hash160(public)
	checks := script(t, txscript.NewScriptBuilder().AddData(public).AddOp(txscript.OP_CHECKSIG))
	multi := script(t, txscript.NewScriptBuilder().AddInt64(1).AddData(public).
		AddData(newKey(t).PubKey().SerializeCompressed()).AddInt64(2).AddOp(txscript.OP_CHECKMULTISIG))
	p2pkh := script(t, txscript.NewScriptBuilder().AddOp(txscript.OP_DUP).AddOp(txscript.OP_HASH160).
		AddData(keyHash).AddOp(txscript.OP_EQUALVERIFY).AddOp(txscript.OP_CHECKSIG))
	program := script(t, txscript.NewScriptBuilder().AddOp(txscript.OP_0).AddData(keyHash))
	inScript := func(s []byte) []byte {
		return script(t,
			txscript.NewScriptBuilder().AddOp(txscript.OP_HASH160).AddData(address.Hash160(s)).AddOp(txscript.OP_EQUAL))
	}
	inWitness := func(s []byte) []byte {
		return script(t, txscript.NewScriptBuilder().AddOp(txscript.OP_0).AddData(chainhash.HashB(s)))
	}
	taproot := func(k *btcec.PublicKey) []byte {
		s, err := txscript.PayToTaprootScript(k)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	leaf := txscript.NewBaseTapLeaf(script(t,
		txscript.NewScriptBuilder().AddData(schnorr.SerializePubKey(key.PubKey())).AddOp(txscript.OP_CHECKSIG)))
	tree := txscript.AssembleTaprootScriptTree(leaf, txscript.NewBaseTapLeaf([]byte{txscript.OP_RETURN}))
	root := tree.RootNode.TapHash()
	all := map[string]wallet{
		"P2PK": {checks, func(tx *wire.MsgTx, n int, _ *txscript.TxSigHashes, spent *wire.TxOut) error {
			sig, err := txscript.RawTxInSignature(tx, n, spent.PkScript, txscript.SigHashAll, key)
			tx.TxIn[n].SignatureScript = script(t, txscript.NewScriptBuilder().AddData(sig))
			return err
		}},
		"P2PKH": {p2pkh, func(tx *wire.MsgTx, n int, _ *txscript.TxSigHashes, spent *wire.TxOut) (err error) {
			tx.TxIn[n].SignatureScript, err = txscript.SignatureScript(tx, n, spent.PkScript, txscript.SigHashAll, key,
				true)
			return err
		}},
		"P2SH": {inScript(multi), func(tx *wire.MsgTx, n int, _ *txscript.TxSigHashes, _ *wire.TxOut) error {
			sig, err := txscript.RawTxInSignature(tx, n, multi, txscript.SigHashAll, key)
			tx.TxIn[n].SignatureScript = script(t,
				txscript.NewScriptBuilder().AddOp(txscript.OP_0).AddData(sig).AddData(multi))
			return err
		}},
		"P2SH-P2WPKH": {inScript(program), func(tx *wire.MsgTx, n int, hashes *txscript.TxSigHashes,
			spent *wire.TxOut,
		) (err error) {
			tx.TxIn[n].SignatureScript = script(t, txscript.NewScriptBuilder().AddData(program))
			tx.TxIn[n].Witness, err = txscript.WitnessSignature(tx, hashes, n, spent.Value, program,
				txscript.SigHashAll, key, true)
			return err
		}},
		"P2WPKH": {program, func(tx *wire.MsgTx, n int, hashes *txscript.TxSigHashes, spent *wire.TxOut) (err error) {
			tx.TxIn[n].Witness, err = txscript.WitnessSignature(tx, hashes, n, spent.Value, program,
				txscript.SigHashAll, key, true)
			return err
		}},
		"P2WSH": {inWitness(multi), func(tx *wire.MsgTx, n int, hashes *txscript.TxSigHashes, spent *wire.TxOut) error {
			sig, err := txscript.RawTxInWitnessSignature(tx, hashes, n, spent.Value, multi, txscript.SigHashAll, key)
			tx.TxIn[n].Witness = wire.TxWitness{nil, sig, multi}
			return err
		}},
		"P2TR by its key": {
			taproot(txscript.ComputeTaprootKeyNoScript(key.PubKey())),
			func(tx *wire.MsgTx, n int, hashes *txscript.TxSigHashes, spent *wire.TxOut) (err error) {
				tx.TxIn[n].Witness, err = txscript.TaprootWitnessSignature(tx, hashes, n, spent.Value, spent.PkScript,
					txscript.SigHashDefault, key)
				return err
			},
		},
		"P2TR by a script": {
			taproot(txscript.ComputeTaprootOutputKey(key.PubKey(), root[:])),
			func(tx *wire.MsgTx, n int, hashes *txscript.TxSigHashes, spent *wire.TxOut) error {
				sig, err := txscript.RawTxInTapscriptSignature(tx, hashes, n, spent.Value, spent.PkScript, leaf,
					txscript.SigHashDefault, key)
				if err != nil {
					return err
				}
				control := tree.LeafMerkleProofs[0].ToControlBlock(key.PubKey())
				proof, err := control.ToBytes()
				tx.TxIn[n].Witness = wire.TxWitness{sig, leaf.Script, proof}
				return err
			},
		},
	}
	return all
}

// Every form of output that a transaction spends names its sender, from the output as it was paid
// and not from the input. The caller gets all of them.
func TestAllSendersAreNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := wallets(t)
	all["another"] = wallets(t)["P2WPKH"]
	names := slices.Sorted(maps.Keys(all))
	var outs []*wire.TxOut
	for _, name := range names {
		for range 4 {
			outs = append(outs, wire.NewTxOut(10_000, all[name].script))
		}
	}
	for range names {
		outs = append(outs, wire.NewTxOut(10_000, all["another"].script))
	}
	paid, err := l.node.PayOutputs(t.Context(), outs...)
	if err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
	spend := func(to []byte, from ...btcd.Output) *wire.MsgTx {
		t.Helper()
		tx := wire.NewMsgTx(2)
		before := txscript.NewMultiPrevOutFetcher(nil)
		for _, c := range from {
			tx.AddTxIn(wire.NewTxIn(&c.OutPoint, nil, nil))
			before.AddPrevOut(c.OutPoint, &c.TxOut)
		}
		tx.AddTxOut(wire.NewTxOut(8_000, to))
		hashes := txscript.NewTxSigHashes(tx, before)
		for n, c := range from {
			for _, w := range all {
				if string(w.script) != string(c.PkScript) {
					continue
				}
				if err := w.sign(tx, n, hashes, &c.TxOut); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.node.SendTx(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	addressOf := func(script []byte) chain.Address {
		a, _ := bitcointx.AddressOf(&chaincfg.RegressionNetParams, script)
		return a
	}
	type paying struct {
		what string
		from []chain.Address
		to   chain.Address
	}
	var want []paying
	expect := func(what string, from []chain.Address, spent ...btcd.Output) {
		t.Helper()
		a := l.Account(t)
		spend(out(t, a, 1).PkScript, spent...)
		if slices.Contains(from, "") {
			from = nil
		}
		want = append(want, paying{what, slices.Compact(slices.Sorted(slices.Values(from))), a})
	}
	another := addressOf(all["another"].script)
	for i, name := range names {
		from := []chain.Address{addressOf(all[name].script)}
		expect(name, from, coin(paid, 4*i))
		expect("two of "+name, from, coin(paid, 4*i+1), coin(paid, 4*i+2))
		if name != "another" {
			expect(name+" and another", append(from, another), coin(paid, 4*i+3), coin(paid, 4*len(names)+i))
		}
	}
	// The spent output is created in the same block.
	tap := all["P2TR by its key"].script
	made := spend(tap, coin(paid, 4*slices.Index(names, "another")+3))
	a := l.Account(t)
	spent := coin(made, 0)
	tx, err := l.node.BuildSpend(newKey(t), []btcd.Output{spent}, 500, out(t, a, 1_000))
	if err != nil {
		t.Fatal(err)
	}
	before := txscript.NewMultiPrevOutFetcher(map[wire.OutPoint]*wire.TxOut{spent.OutPoint: &spent.TxOut})
	if err := all["P2TR by its key"].sign(tx, 0, txscript.NewTxSigHashes(tx, before), &spent.TxOut); err != nil {
		t.Fatal(err)
	}
	if err := l.node.SendTx(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	want = append(want, paying{"made in the same block", []chain.Address{addressOf(tap)}, a})

	l.Mine(t, 1)
	c := l.tip(t)
	for _, w := range want {
		got := to(c, w.to)
		if len(got) != 1 || got[0].From != "" {
			t.Fatalf("%s: got %+v, want one movement, and nobody in it", w.what, got)
		}
		if from := l.senders(t, c, got[0]); !slices.Equal(from, w.from) {
			t.Errorf("%s: got it from %v, want it from %v", w.what, from, w.from)
		}
	}
}

// A miner can spend their own taproot output by a rule that is not in use yet, which no node
// relays. The input then looks like a signature and another owner's key.
func TestAnInputThatLooksLikeSomebodysNamesItsOutput(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	key := newKey(t)
	signature := append(append([]byte{0x30, 68}, make([]byte, 68)...), 1)
	leaf := txscript.NewTapLeaf(2, signature)
	tree := txscript.AssembleTaprootScriptTree(leaf)
	root := tree.RootNode.TapHash()
	script, err := txscript.PayToTaprootScript(txscript.ComputeTaprootOutputKey(key.PubKey(), root[:]))
	if err != nil {
		t.Fatal(err)
	}
	paid, err := l.node.PayOutputs(t.Context(), wire.NewTxOut(10_000, script))
	if err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
	control := tree.LeafMerkleProofs[0].ToControlBlock(key.PubKey())
	shown, err := control.ToBytes()
	if err != nil {
		t.Fatal(err)
	}
	if len(shown) != 33 || shown[0] != 2 && shown[0] != 3 {
		t.Fatalf("got %x, want what looks like a public key", shown)
	}
	a := l.Account(t)
	tx := wire.NewMsgTx(2)
	tx.AddTxIn(wire.NewTxIn(&wire.OutPoint{Hash: paid.TxHash(), Index: 0}, nil, wire.TxWitness{signature, shown}))
	tx.AddTxOut(out(t, a, 8_000))
	if _, err := l.node.MineOnly(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	c := l.tip(t)
	got := to(c, a)
	if len(got) != 1 {
		t.Fatalf("got %+v, want the payment", got)
	}
	want, _ := bitcointx.AddressOf(&chaincfg.RegressionNetParams, script)
	if from := l.senders(t, c, got[0]); !slices.Equal(from, []chain.Address{want}) {
		t.Errorf("got it from %v, want it from %s", from, want)
	}
}

// A node with false answers. None of them may be believed.
func TestALyingNodeIsNotBelieved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	key := wallets(t)["P2TR by its key"]
	made, err := l.node.PayOutputs(t.Context(), wire.NewTxOut(20_000, key.script))
	if err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
	a := l.Account(t)
	spent := coin(made, 0)
	tx, err := l.node.BuildSpend(newKey(t), []btcd.Output{spent}, 500, out(t, a, 1_000))
	if err != nil {
		t.Fatal(err)
	}
	before := txscript.NewMultiPrevOutFetcher(map[wire.OutPoint]*wire.TxOut{spent.OutPoint: &spent.TxOut})
	if err := key.sign(tx, 0, txscript.NewTxSigHashes(tx, before), &spent.TxOut); err != nil {
		t.Fatal(err)
	}
	if err := l.node.SendTx(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	l.pay(t, a, money.Units(30_000))
	l.Mine(t, confirmations)
	height := l.heads(t).Final.Height
	if got := to(l.final(t, height), a); len(got) != 2 {
		t.Fatalf("got %+v, want the two payments that the lies are about", got)
	}
	target, err := l.node.BlockHash(t.Context(), int(height))
	if err != nil {
		t.Fatal(err)
	}
	text := func(v any) string {
		var s string
		if err := json.Unmarshal(v.(json.RawMessage), &s); err != nil {
			t.Error(err)
		}
		return s
	}
	block := func(v any, change func(b *wire.MsgBlock)) string {
		var b wire.MsgBlock
		if err := b.Deserialize(hex.NewDecoder(strings.NewReader(text(v)))); err != nil {
			t.Error(err)
		}
		change(&b)
		var raw strings.Builder
		if err := b.Serialize(hex.NewEncoder(&raw)); err != nil {
			t.Error(err)
		}
		return raw.String()
	}
	for name, lie := range map[string]struct {
		method string
		change func(c call, v any) any
		says   string
	}{
		"another amount": {"getblock", func(_ call, v any) any {
			return block(v, func(b *wire.MsgBlock) { b.Transactions[1].TxOut[0].Value++ })
		}, "root in its header"},
		"a payment left out": {"getblock", func(_ call, v any) any {
			return block(v, func(b *wire.MsgBlock) { b.Transactions = b.Transactions[:2] })
		}, "root in its header"},
		"a payment twice": {"getblock", func(_ call, v any) any {
			return block(v, func(b *wire.MsgBlock) { b.Transactions = append(b.Transactions, b.Transactions[2]) })
		}, "root in its header"},
		"another coin spent": {"getblock", func(_ call, v any) any {
			return block(v, func(b *wire.MsgBlock) { b.Transactions[1].TxIn[0].PreviousOutPoint.Index++ })
		}, "root in its header"},
		"another block": {"getblock", func(_ call, v any) any {
			hash, err := l.node.BlockHash(t.Context(), int(height)-1)
			if err != nil {
				t.Error(err)
			}
			b, err := l.node.ReadBlock(t.Context(), hash)
			if err != nil {
				t.Error(err)
			}
			return block(v, func(mine *wire.MsgBlock) { *mine = *b })
		}, "gave block"},
		"a block without work": {"getblock", func(_ call, v any) any {
			return block(v, func(b *wire.MsgBlock) { b.Header.Bits = 0x03000001 })
		}, "gave block"},
		"less than a header": {"getblock", func(_ call, v any) any { return text(v)[:100] }, "cannot be decoded"},
		"a block cut off": {"getblock", func(_ call, v any) any {
			return text(v)[:len(text(v))-10]
		}, "cannot be decoded"},
		"half a byte":       {"getblock", func(_ call, v any) any { return text(v)[1:] }, "hexadecimal"},
		"more than a block": {"getblock", func(_ call, v any) any { return text(v) + "00" }, "follow it"},
		"nothing":           {"getblock", func(call, any) any { return nil }, "hexadecimal"},
		"no block at all":   {"getblock", func(call, any) any { return map[string]any{"tx": []any{}} }, "hexadecimal"},
		"the block below": {"getblockhash", func(c call, v any) any {
			h, err := l.node.BlockHash(t.Context(), max(int(c.Params[0].(float64))-1, 0))
			if err != nil {
				t.Error(err)
			}
			return h.String()
		}, "says that it is block"},
		"no hash":        {"getblockhash", func(call, any) any { return "00" }, "network that begins"},
		"another sender": {"getrawtransaction", func(call, any) any { return raw(t, tx) }, "gave transaction"},
		"no sender":      {"getrawtransaction", func(call, any) any { return "zz" }, "hexadecimal"},
		"half a sender":  {"getrawtransaction", func(_ call, v any) any { return text(v)[:20] }, "transaction"},
		"a huge height":  {"getblockcount", func(call, any) any { return uint64(1) << 60 }, "says that it is block"},
		"a text":         {"getblockcount", func(call, any) any { return "many" }, "getblockcount"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liar := front(t, l.node, func(c call, pass func() (any, error)) (any, error) {
				v, err := pass()
				if err != nil || c.Method != lie.method ||
					c.Method == "getblock" && c.Params[0] != any(target.String()) ||
					c.Method == "getblockhash" && c.Params[0] == any(0.0) && name != "no hash" {
					return v, err
				}
				return lie.change(c, v), nil
			})
			cfg := config(liar)
			reader, err := bitcoin.New(t.Context(), cfg)
			if err == nil {
				at := height
				if name == "a huge height" {
					at = 1 << 50
				}
				var c chain.Contents
				if c, err = reader.Reader.Final(t.Context(), at); err == nil {
					if got, failed := reader.Reader.Senders(t.Context(), c.Block, to(c, a)); failed == nil {
						t.Fatalf("alone: got %+v from %v, want an error", c, got)
					} else {
						err = failed
					}
				}
			}
			if !strings.Contains(err.Error(), lie.says) {
				t.Errorf("got %q, want it to say %q", err, lie.says)
			}
			// Two honest providers are enough, in spite of any answer of the third.
			honest := config(endpoint(l.node), liar, endpoint(l.node)+"/")
			honest.Quorum = 2
			if name == "no hash" {
				return // it is of another network, which is a mistake in the configuration
			}
			two := open(t, honest).Reader
			c, err := two.Final(t.Context(), height)
			got := to(c, a)
			if err != nil || len(got) != 2 {
				t.Errorf("beside two others: got %+v, %v, want the two payments", got, err)
			}
			if from, err := two.Senders(t.Context(), c.Block, got); err != nil || len(from) != 2 || len(from[0]) != 1 ||
				len(from[1]) != 1 {
				t.Errorf("beside two others: got them from %v, %v, want a sender of each", from, err)
			}
		})
	}
}

func raw(t *testing.T, tx *wire.MsgTx) string {
	t.Helper()
	var text strings.Builder
	if err := tx.Serialize(hex.NewEncoder(&text)); err != nil {
		t.Error(err)
	}
	return text.String()
}

// Rule DEP-43.
func TestAFinalBlockSaysHowDeepItIs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cfg := config(endpoint(l.node))
	cfg.Confirmations = 2
	shallow := open(t, cfg)
	for range 3 {
		l.Mine(t, 1)
		for c, want := range map[*chain.Chain]uint64{&l.chain: confirmations, &shallow: 2} {
			h, err := c.Reader.Heads(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b, err := c.Reader.Final(t.Context(), h.Final.Height)
			if err != nil {
				t.Fatal(err)
			}
			// The node's own count of confirmations.
			if has := h.Latest.Height - b.Height + 1; b.Depth != want || has < b.Depth {
				t.Errorf("block %d says %d deep and is %d, want %d", b.Height, b.Depth, has, want)
			}
		}
	}
	if one := money.Units(100_000_000); l.chain.Tiers.Depth(one) != 0 {
		t.Errorf("1 BTC waits for %d blocks, want finality alone", l.chain.Tiers.Depth(one))
	}
	if more := money.Units(100_000_001); l.chain.Tiers.Depth(more) != 6 {
		t.Errorf("more than 1 BTC waits for %d blocks, want 6", l.chain.Tiers.Depth(more))
	}
}

func TestNodesHaveToAgreeOnWhatIsFinal(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.Mine(t, 3)
	height := l.heads(t).Final.Height
	behind := front(t, l.node, func(c call, pass func() (any, error)) (any, error) {
		if c.Method == "getblockcount" {
			return height, nil // two blocks behind: its newest block is the final one
		}
		return pass()
	})
	elsewhere := front(t, l.node, func(c call, pass func() (any, error)) (any, error) {
		if c.Method == "getblockhash" && c.Params[0] == any(float64(height)) {
			return chainhash.HashH([]byte("another fork")).String(), nil
		}
		return pass()
	})
	silent := front(t, l.node, func(c call, pass func() (any, error)) (any, error) {
		if c.Method == "getblockhash" && c.Params[0] == any(0.0) {
			return nil, &btcd.RPCError{Code: -28, Message: "Loading block index…"}
		}
		return pass()
	})
	for name, v := range map[string]struct {
		nodes []string
		agree int
		want  error
	}{
		"one is behind":            {[]string{endpoint(l.node), behind}, 2, chain.ErrNotYet},
		"one of two is behind":     {[]string{endpoint(l.node), behind}, 1, nil},
		"two contradict":           {[]string{endpoint(l.node), elsewhere}, 1, chain.ErrDisagreement},
		"two against one":          {[]string{elsewhere, endpoint(l.node), endpoint(l.node) + "/"}, 2, nil},
		"one starts":               {[]string{silent, endpoint(l.node)}, 1, nil},
		"one starts, both needed":  {[]string{silent, endpoint(l.node)}, 2, errStarts},
		"none of the only network": {[]string{silent}, 1, errStarts},
	} {
		cfg := config(v.nodes...)
		cfg.Quorum = v.agree
		c, err := bitcoin.New(t.Context(), cfg)
		var got chain.Contents
		if err == nil {
			got, err = c.Reader.Final(t.Context(), height)
		}
		switch {
		case v.want == errStarts:
			if err == nil || !strings.Contains(err.Error(), "Loading block index") {
				t.Errorf("%s: got %+v, %v, want what the node says", name, got, err)
			}
		case !errors.Is(err, v.want) || err == nil && got.Height != height:
			t.Errorf("%s: got %+v, %v, want %v", name, got.Block, err, v.want)
		}
	}
	// Heads: the final block is the highest that enough providers have reached.
	cfg := config(endpoint(l.node), behind)
	h, err := open(t, cfg).Reader.Heads(t.Context())
	if err != nil || h.Final.Height != height-2 || h.Latest.Height != height+2 {
		t.Errorf("got heads %d and %d, %v, want %d and %d", h.Latest.Height, h.Final.Height, err, height+2, height-2)
	}
}

var errStarts = errors.New("a node that starts")

func TestAWrongConfigurationIsSaidWithoutAPassword(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	secret := "s3cret"
	wrong := strings.Replace(endpoint(l.node), l.node.Password, secret, 1)
	for name, c := range map[string]struct {
		cfg  bitcoin.Config
		says string
	}{
		"no endpoint": {config(), "no endpoint"},
		"no URL":      {config("node:8332"), "not an http"},
		"twice":       {config(endpoint(l.node), wrong), "given twice"},
		"another network": {
			bitcoin.Config{Network: chain.Mainnet, Endpoints: []string{endpoint(l.node)}, Quorum: 1},
			"right network",
		},
		"no network": {
			bitcoin.Config{Network: "MAIN", Endpoints: []string{endpoint(l.node)}, Quorum: 1},
			"not a network",
		},
		"a wrong genesis": {bitcoin.Config{
			Network: chain.Local, Genesis: "00", Endpoints: []string{endpoint(l.node)},
			Quorum: 1,
		}, "genesis"},
		"a wrong password": {config(wrong), "user and password"},
		"nobody there":     {config("http://coffer:" + secret + "@127.0.0.1:1"), "refused"},
	} {
		c.cfg.Timeout = 5 * time.Second
		_, err := bitcoin.New(t.Context(), c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), secret) ||
			strings.Contains(err.Error(), l.node.Password) {
			t.Errorf("%s: got %v, want it to say %q and no password", name, err, c.says)
		}
	}
	if c := l.chain; c.CAIP2 != "bip122:0f9188f13cb7b2c71f2a335e3a4fc328" || c.Name != chain.Bitcoin ||
		c.Network != chain.Local || c.Sender == nil || c.UTXO == nil || !c.SeparateFeePayer {
		t.Errorf("got %+v, want the chain of regtest", c)
	}
}
