package local_test

import (
	"path/filepath"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
)

const (
	tronUSDT  chain.Address = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
	tronPayee chain.Address = "TUEZSdKsoDHQMeZwihtdoBiN46zxhGWYdH"
)

// On TRON only its expiry ends a transaction: a second one, for whatever reason, would pay twice.
func TestAnIntentHasOneTransactionOnTRON(t *testing.T) {
	t.Parallel()
	seed, err := keys.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	conf := local.Config{Journal: filepath.Join(t.TempDir(), "journal"), Policy: local.Policy{
		WhitelistCoolingOff: "0s",
		Chains: map[chain.Name]local.ChainPolicy{chain.Tron: {
			SignerID: "0x2b6653dc", FeeMax: money.Units(60_000_000), GasMax: money.Units(100_000_000), Unlimited: true,
		}},
	}}
	if err := local.CreateJournal(conf, seed); err != nil {
		t.Fatal(err)
	}
	v := &solanaEnv{t: t, conf: conf, seed: seed}
	v.open()
	t.Cleanup(func() { _ = v.s.Close() })
	treasury, err := v.s.IssueAddress(t.Context(),
		signer.WalletRef{OrgID: "org_1", Family: chain.TronFamily, Purpose: "TREASURY"})
	if err != nil {
		t.Fatal(err)
	}
	payment := func(id string, contract chain.Address) signer.Intent {
		i := signer.Intent{
			ID: id, Purpose: signer.Payment, Chain: chain.Tron, From: treasury.WalletRef, To: tronPayee,
			Contract: contract,
			Amount:   money.Units(5_000_000), CustomerID: "ann", MintID: 1,
		}
		v.admit(i)
		return i
	}
	request := func(i signer.Intent, n uint64, until int64, change func(*trontx.Tx)) signer.SignRequest {
		tx := trontx.Tx{
			SlotRef: trontx.SlotRef{
				Owner: treasury.Address, RefBlockHash: [8]byte{7}, Timestamp: 1_800_000_000_000,
				Expiration: 1_800_000_600_000 + until,
			},
			Contract: i.Contract, To: i.To, Amount: i.Amount,
		}
		if i.Contract != "" {
			tx.FeeLimit = 30_000_000
		}
		if change != nil {
			change(&tx)
		}
		payload, err := tx.Payload()
		if err != nil {
			t.Fatal(err)
		}
		return signer.SignRequest{
			IntentID: i.ID, Act: signer.Pay, Payload: payload,
			Slot: signer.Slot{Nonce: n, Key: tx.SlotKey()},
		}
	}
	first, second, coin := payment("wd_1", tronUSDT), payment("wd_2", tronUSDT), payment("wd_3", "")
	pays := request(first, 0, 0, nil)
	signed := v.signs(pays)
	if tx, hash, err := trontx.DecodeSigned(signed.Raw); err != nil || hash != signed.Hash ||
		tx.Owner != treasury.Address {
		t.Errorf("got %+v of %s, %v, want what was signed", tx, hash, err)
	}
	if again := v.signs(pays); string(again.Raw) != string(signed.Raw) {
		t.Error("the same again: got other bytes, want the same")
	}
	cancel := pays
	cancel.Act = signer.Cancel
	fresh := request(second, 1, 1, nil)
	fresh.Act = signer.Cancel
	refused := func() {
		t.Helper()
		v.refuses("a dearer one in its slot", request(first, 0, 0, func(tx *trontx.Tx) {
			tx.FeeLimit++
		}), signer.RefusedSlot)
		v.refuses("one that is good for longer", request(first, 0, 5, nil), signer.RefusedSlot)
		v.refuses("the slot of another", request(second, 1, 0, nil), signer.RefusedSlot)
		v.refuses("its own bytes as a cancel", cancel, signer.RefusedPayload)
		v.refuses("a cancel", fresh, signer.RefusedPayload)
	}
	refused()
	v.refuses("another amount", request(second, 1, 1, func(tx *trontx.Tx) {
		tx.Amount = money.Units(5_000_001)
	}), signer.RefusedPayload)
	v.refuses("another payee", request(second, 1, 1, func(tx *trontx.Tx) {
		tx.To = "TYJPRrdB5APNeRs4R7fYZSwW3TcrTKw2gx"
	}), signer.RefusedPayload)
	v.refuses("another token", request(second, 1, 1, func(tx *trontx.Tx) {
		tx.Contract = "TYJPRrdB5APNeRs4R7fYZSwW3TcrTKw2gx"
	}), signer.RefusedPayload)
	v.refuses("TRX for a token", request(second, 1, 1, func(tx *trontx.Tx) {
		tx.Contract, tx.FeeLimit = "", 0
	}), signer.RefusedPayload)
	v.refuses("a fee above the policy", request(second, 1, 1, func(tx *trontx.Tx) {
		tx.FeeLimit = 60_000_000
	}), signer.RefusedFee)
	lied := request(second, 1, 1, nil)
	lied.Slot.Key = request(second, 1, 2, nil).Slot.Key
	v.refuses("a lease that is not in the payload", lied, signer.RefusedPayload)
	v.signs(request(coin, 2, 3, nil))
	if err := v.s.Close(); err != nil {
		t.Fatal(err)
	}
	v.open()
	if again := v.signs(pays); string(again.Raw) != string(signed.Raw) || again.Hash != signed.Hash {
		t.Error("after a restart: got other bytes, want the same")
	}
	refused()
	v.signs(request(second, 1, 4, nil))
}

func TestAPolicyNamesTheNetworkOfTRON(t *testing.T) {
	t.Parallel()
	for id, good := range map[string]bool{
		"0x2b6653dc": true, "0xcd8690dc": true, "2b6653dc": false,
		"0x2B6653DC": false, "0x2b6653": false, "728126428": false, "": false, "0x": false,
	} {
		p := local.Policy{Chains: map[chain.Name]local.ChainPolicy{chain.Tron: {
			SignerID: id, FeeMax: money.Units(1),
			Unlimited: true,
		}}}
		if err := p.Validate(); (err == nil) != good {
			t.Errorf("%q: got %v, want it good: %v", id, err, good)
		}
	}
}
