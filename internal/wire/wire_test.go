package wire_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// Each type of event accepts the struct of one feature, and its object is of the type that
// integrators are shown by its sample.
func TestEveryEventHasAnEncoder(t *testing.T) {
	t.Parallel()
	for _, eventType := range event.AllTypes() {
		sample, ok := webhook.Sample(eventType)
		if !ok {
			t.Errorf("%s: got no sample, want one", eventType)
		}
		var objects []any
		for _, data := range []any{
			deposit.Deposit{},
			withdrawal.Withdrawal{},
			transfer.Transfer{},
			swap.Failed{},
			swap.Swap{},
			checkout.Checkout{},
			billing.Invoice{},
			billing.CreditNote{},
			payout.Batch{},
		} {
			if object, err := wire.NewRecorder().ObjectOf(eventType, data); err == nil {
				objects = append(objects, object)
			}
		}
		switch {
		case len(objects) != 1:
			t.Errorf("%s: got %d structs that it accepts, want one", eventType, len(objects))
		case reflect.TypeOf(objects[0]) != reflect.TypeOf(sample):
			t.Errorf("%s: got %T, want %T", eventType, objects[0], sample)
		}
		if _, err := wire.NewRecorder().ObjectOf(eventType, sample); err == nil {
			t.Errorf("%s: accepts %T, want a refusal of what is no struct of a feature", eventType, sample)
		}
	}
}

// A struct with a value in each field gives an object with a value in each member, except for those
// that no feature fills.
func TestEveryFieldReachesItsObject(t *testing.T) {
	t.Parallel()
	var d deposit.Deposit
	var w, own withdrawal.Withdrawal
	var tr transfer.Transfer
	var sw swap.Swap
	var failed swap.Failed
	var sale checkout.Checkout
	for _, v := range []any{&d, &w, &own, &tr, &sw, &failed, &sale} {
		fill(t, reflect.ValueOf(v).Elem())
	}
	sale.DecidedBy = "USER usr_1"
	refund := *sale.Refund
	w.Owner, own.Owner = ledger.CustomerOwner("ann"), ledger.ProductOwner("CUSTODIAL")
	for name, c := range map[string]struct {
		object any
		empty  []string
	}{
		"deposit":    {wire.Deposit(d), nil},
		"customer's": {wire.Withdrawal(w), []string{"Product", "Memo", "Approvals.ExpiresAt", "ExplorerURL"}},
		"own":        {wire.Withdrawal(own), []string{"CustomerID", "Memo", "Approvals.ExpiresAt", "ExplorerURL"}},
		"transfer":   {wire.Transfer(tr), nil},
		"swap":       {wire.CustomerSwap(sw), nil},
		"failed":     {wire.SwapFailed(failed), nil},
		"delayed":    {wire.SwapDelayed(sw), nil},
		"checkout":   {wire.Checkout(sale), []string{"Refund.ClaimURL", "AcceptedBy.Name"}},
		"refund":     {wire.Refund(refund), []string{"ClaimURL"}},
		"claimable":  {wire.ClaimableRefund(refund, "https://pay.example.com/r/ref_1#k=key"), nil},
	} {
		var empty []string
		listEmpty(reflect.ValueOf(c.object), "", &empty)
		if !slices.Equal(empty, c.empty) {
			t.Errorf("%s: got %q empty, want %q", name, empty, c.empty)
		}
	}
}

// The object of a swap in events says neither what its status is nor why it failed.
func TestTheSummaryOfASwapHasNoStatusAndNoFailureReason(t *testing.T) {
	t.Parallel()
	amountOut, origin := money.Units(149), chain.TxHash("origin")
	solana := mint.Mint{ID: 7, Symbol: "SOL", Name: "Solana", Chain: chain.Solana, Decimals: 9}
	dollars := mint.Mint{ID: 1, Symbol: "USDC", Name: "USD Coin", Chain: chain.Solana, Decimals: 6, Contract: "EPjF"}
	got, err := json.Marshal(wire.SwapSummary(swap.Swap{
		ID: "cs_1", From: solana, To: dollars, AmountIn: money.Units(1000), EstimatedOut: money.Units(150),
		AmountOut: &amountOut, OriginTxHash: &origin,
		CreatedAt: time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC),
	}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"customerSwapId":"cs_1","idempotencyKey":"",` +
		`"fromMint":{"id":7,"symbol":"SOL","name":"Solana","chain":"SOLANA","decimals":9,"contractAddress":null},` +
		`"toMint":{"id":1,"symbol":"USDC","name":"USD Coin","chain":"SOLANA","decimals":6,"contractAddress":"EPjF"},` +
		`"amountIn":"1000","estimatedAmountOut":"150","amountOut":"149","originTxHash":"origin",` +
		`"destinationTxHash":null,"createdAt":"2026-01-31T12:00:00.000Z"}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var keys map[string]any
	if err := json.Unmarshal(got, &keys); err != nil {
		t.Fatal(err)
	}
	for _, absent := range []string{"status", "failureReason"} {
		if _, has := keys[absent]; has {
			t.Errorf("got a member %s, want none", absent)
		}
	}
}

// fill sets every field to a value that is not zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch value := v.Addr().Interface().(type) {
	case *money.Amount:
		*value = money.Units(7)
		return
	case *money.USD:
		*value = money.MustParseUSD("1.5")
		return
	case *time.Time:
		*value = time.Date(2026, time.January, 31, 12, 0, 0, 123456789, time.UTC)
		return
	case *json.RawMessage:
		*value = json.RawMessage("{}")
		return
	case *[]byte:
		*value = bytes.Repeat([]byte{1}, 32)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(t, v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint64:
		v.SetUint(3)
	default:
		t.Fatalf("cannot fill %v", v.Type())
	}
}

// listEmpty adds the paths of zero members of an object.
func listEmpty(v reflect.Value, path string, empty *[]string) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case v.IsZero():
		*empty = append(*empty, path)
	case v.Type() == reflect.TypeFor[webhook.Time]():
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if path != "" {
				name = path + "." + name
			}
			listEmpty(v.Field(i), name, empty)
		}
	}
}

// What is missing is null or absent, and an empty list is [].
func TestWhatIsMissingIsPrintedAsTheInterfaceSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		object any
		want   string
	}{
		"transfer": {
			wire.Transfer(transfer.Transfer{}),
			`{"transferId":"","idempotencyKey":"","mintId":0,"mint":{"id":0,"symbol":"","name":"","chain":"",` +
				`"decimals":0,"contractAddress":null},"amount":"0","amountDecimal":"0","from":{},"to":{},` +
				`"reference":null,"metadata":{},"createdAt":"0001-01-01T00:00:00.000Z"}`,
		},
		"charge": {
			wire.CustomerCharge(&withdrawal.CustomerCharge{}),
			`{"costs":"","mintId":0,"rentMax":"0","failureMax":null,"charged":null}`,
		},
		"no charge": {wire.CustomerCharge(nil), `null`},
		"swap": {
			wire.CustomerSwap(swap.Swap{RefundReport: provider.RefundNone}),
			`{"swapId":"","idempotencyKey":"","customerId":"","fromMintId":0,"toMintId":0,"amountIn":"0",` +
				`"estimatedAmountOut":"0","minAmountOut":"0","amountOut":null,"originTxHash":null,` +
				`"destinationTxHash":null,"failureReason":null,"failureMessage":null,"completedAt":null,"status":"",` +
				`"feeAmount":"0","feeBps":0,"usdValue":null,"estimatedTimeSeconds":null,"refundStatus":"NONE",` +
				`"refundedAmount":null,"refundTxHash":null,"restoredAt":null,"depositId":null,"provider":"",` +
				`"metadata":{},"createdAt":"0001-01-01T00:00:00.000Z","updatedAt":"0001-01-01T00:00:00.000Z"}`,
		},
		"flag": {
			wire.Deposit(deposit.Deposit{FlagReason: &deposit.FlagReason{}}).FlagReason,
			`{"code":"","score":null,"severity":null,"entity":null,"categories":[],"provider":null}`,
		},
	} {
		got, err := json.Marshal(c.object)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s %v, want %s", name, got, err, c.want)
		}
	}
}

// The events of a swap and the deposit that completes it show the same summary. It has no status and
// no failure reason. Rule SWAP-60.
func TestTheSummaryOfASwapHasNeitherStatusNorFailureReason(t *testing.T) {
	t.Parallel()
	madeAt := time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)
	reason, out, refunded := "PROVIDER_FAILED", money.Units(149301122), money.Units(7)
	origin, destination := chain.TxHash("0x1"), chain.TxHash("0x2")
	from := mint.Mint{ID: 7, Symbol: "SOL", Name: "Solana", Chain: chain.Solana, Decimals: 9}
	to := mint.Mint{ID: 1, Symbol: "USDC", Name: "USD Coin", Chain: chain.Solana, Decimals: 6, Contract: "EPjF"}
	w := swap.Swap{
		ID: "cs_1", IdempotencyKey: "swap-7781", CustomerID: "user_42", From: from, To: to, Status: swap.FailedStatus,
		FailureReason: &reason, FailureMessage: &reason, AmountIn: money.Units(1000000000),
		EstimatedOut: money.Units(149250000), AmountOut: &out, OriginTxHash: &origin, DestinationTxHash: &destination,
		CreatedAt: madeAt,
	}
	const want = `{"customerSwapId":"cs_1","idempotencyKey":"swap-7781",` +
		`"fromMint":{"id":7,"symbol":"SOL","name":"Solana","chain":"SOLANA","decimals":9,"contractAddress":null},` +
		`"toMint":{"id":1,"symbol":"USDC","name":"USD Coin","chain":"SOLANA","decimals":6,"contractAddress":"EPjF"},` +
		`"amountIn":"1000000000","estimatedAmountOut":"149250000","amountOut":"149301122","originTxHash":"0x1",` +
		`"destinationTxHash":"0x2","createdAt":"2026-01-31T12:00:00.000Z"}`
	credit := deposit.SwapCredit{
		ID: w.ID, IdempotencyKey: w.IdempotencyKey, FromMint: from, ToMint: to, AmountIn: w.AmountIn,
		EstimatedOut: w.EstimatedOut, AmountOut: w.AmountOut, OriginTxHash: w.OriginTxHash,
		DestinationTxHash: w.DestinationTxHash, CreatedAt: w.CreatedAt,
	}
	for name, c := range map[string]struct {
		object any
		want   string
	}{
		"summary": {wire.SwapSummary(w), want},
		"deposit": {wire.Deposit(deposit.Deposit{Swap: &credit}).Swap, want},
		"failed": {
			wire.SwapFailed(swap.Failed{Swap: w}), `{"customerId":"user_42","swap":` + want + `,"refundedAmount":null}`,
		},
		"refunded": {
			wire.SwapFailed(swap.Failed{Swap: w, Refunded: &refunded}),
			`{"customerId":"user_42","swap":` + want + `,"refundedAmount":"7"}`,
		},
		"delayed": {wire.SwapDelayed(w), `{"customerId":"user_42","swap":` + want + `}`},
	} {
		got, err := json.Marshal(c.object)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s %v, want %s", name, got, err, c.want)
		}
	}
}
