package signer_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

func newSwapIntent() signer.Intent {
	wallet := func(purpose string) signer.WalletRef {
		return signer.WalletRef{OrgID: "org_1", Family: chain.EVM, Purpose: purpose, Subject: "cs_1"}
	}
	return signer.Intent{
		ID: "cs_1", Purpose: signer.SwapPayment, Chain: chain.Ethereum,
		From: signer.WalletRef{OrgID: "org_1", Family: chain.EVM, Purpose: signer.TreasuryPurpose},
		To:   "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", Amount: money.Units(1000), CustomerID: "alice", MintID: 1,
		Swap: &signer.SwapTerms{
			Provider: "ONE_CLICK", Scheme: signedquote.OneClickV0, SignedQuote: []byte(`{"quote":"<&>"}`),
			Delivery: wallet(signer.SwapDeliveryPurpose), Refund: wallet(signer.SwapRefundPurpose), ToMintID: 2,
			ToChain: chain.Base, ToContract: "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
			EstimatedOut: money.Units(990), MinOut: money.Units(980),
			PayBy: signer.FormatMicros(time.Date(2026, 6, 23, 19, 0, 0, 123_456_789, time.UTC)),
		},
	}
}

// changeLeaves changes each field of a value alone, also those of the structs in it, and calls check each time.
func changeLeaves(t *testing.T, path string, v reflect.Value, check func(path string)) {
	t.Helper()
	was := reflect.ValueOf(v.Interface())
	switch field := v.Addr().Interface().(type) {
	case *money.Amount:
		*field = money.Units(1)
	case *[]byte:
		*field = append(bytes.Clone(*field), ' ')
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Int:
			v.SetInt(v.Int() + 1)
		case reflect.Struct:
			for n := range v.NumField() {
				changeLeaves(t, path+"."+v.Type().Field(n).Name, v.Field(n), check)
			}
			return
		default:
			t.Fatalf("%s has the kind %s, which this test does not change", path, v.Kind())
		}
	}
	check(path)
	v.Set(was)
}

// Every field of the terms is compared, and covered by the grant: also one that a later version adds.
func TestEveryTermOfASwapCounts(t *testing.T) {
	t.Parallel()
	key, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	known, intent := newSwapIntent(), newSwapIntent()
	intent.Grant = key.MakeGrant(signer.Terms{
		OrgID: "org_1", WithdrawalID: intent.ID, Chain: intent.Chain, MintID: intent.MintID, To: intent.To,
		Amount: intent.Amount, Swap: intent.Swap,
	}, money.Zero, 0, 0, nil)
	if refusal := key.CheckGrant(intent); refusal != nil || !known.HasSameWords(intent) {
		t.Fatalf("got %v and the same words %v, want the intent as it was granted", refusal, known.HasSameWords(intent))
	}
	fields := 0
	changeLeaves(t, "Swap", reflect.ValueOf(intent.Swap).Elem(), func(path string) {
		fields++
		if known.HasSameWords(intent) {
			t.Errorf("%s was changed, and the intent has the same words", path)
		}
		if refusal := key.CheckGrant(intent); refusal == nil || refusal.Code != signer.RefusedGrant {
			t.Errorf("%s was changed, and the grant is %v", path, refusal)
		}
	})
	if fields < 18 {
		t.Errorf("got %d fields, want those of the terms and both wallets", fields)
	}
	if !known.HasSameWords(intent) {
		t.Error("the test did not undo its changes")
	}
}

// An intent has the same words after it was a line of the journal or a request on the wire.
func TestASwapHasTheSameWordsAfterARoundTrip(t *testing.T) {
	t.Parallel()
	intent := newSwapIntent()
	text, err := json.Marshal(intent)
	if err != nil {
		t.Fatal(err)
	}
	var read signer.Intent
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if !read.HasSameWords(intent) || !intent.HasSameWords(read) || !reflect.DeepEqual(read, intent) {
		t.Errorf("got %+v, want %+v", read, intent)
	}
	none := intent
	none.Swap = nil
	if none.HasSameWords(intent) || intent.HasSameWords(none) {
		t.Error("an intent without terms has the words of one with them")
	}
}
