package relay

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

func readSample(t *testing.T, name string) (answer map[string]any) {
	t.Helper()
	raw, err := os.ReadFile("../../signedquote/testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestTheQuestionIsAskedAsItIsDocumented(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ask := l.Ask()
	ask.MinAmountOut = money.Units(207_000_000)
	base := `{"user":"0xcac3C41676deF4FE375E57118f3eB83A99105577",` +
		`"recipient":"0xF0AE622e463fa757Cf72243569E18Be7Df1996cd","originChainId":8453,` +
		`"originCurrency":"0x0000000000000000000000000000000000000000","destinationChainId":10,` +
		`"destinationCurrency":"0x0b2c639c533813f4aa9d7837caf62653d097ff85","amount":"100000000000000000",` +
		`"tradeType":"EXACT_INPUT","refundTo":"0xcac3C41676deF4FE375E57118f3eB83A99105577","slippageTolerance":"100"`
	for isFirm, want := range map[bool]string{
		true: base + `,"useDepositAddress":true,"strict":true,"includeProtocolData":true}`, false: base + `}`,
	} {
		ask.IsFirm = isFirm
		offer, err := l.provider.Quote(t.Context(), ask)
		if err != nil || offer.Estimate != 2*time.Second || offer.AmountOut != money.Units(210_000_000) {
			t.Fatalf("got %+v and %v, want the offer", offer, err)
		}
		if got := l.bodies[len(l.bodies)-1]; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// An order that the pinned solver signed is still no offer if it goes beyond the question.
func TestAnOrderBeyondTheQuestionIsNoOffer(t *testing.T) {
	t.Parallel()
	part := func(order map[string]any, name string) map[string]any {
		switch name {
		case "payment":
			return order["inputs"].([]any)[0].(map[string]any)["payment"].(map[string]any)
		case "delivered":
			return order["output"].(map[string]any)["payments"].([]any)[0].(map[string]any)
		}
		return order[name].(map[string]any)
	}
	steps := func(change func(step map[string]any)) func(map[string]any) {
		return func(answer map[string]any) { change(answer["steps"].([]any)[0].(map[string]any)) }
	}
	for name, c := range map[string]struct {
		order, after func(map[string]any)
		want         error
	}{
		"a call": {
			order: func(o map[string]any) { part(o, "output")["calls"] = []any{"0x01"} },
			want:  provider.ErrMalformed,
		},
		"an output of nothing": {
			order: func(o map[string]any) { part(o, "delivered")["minimumAmount"] = "0" },
			want:  provider.ErrMalformed,
		},
		"another version": {order: func(o map[string]any) { o["version"] = "v2" }, want: provider.ErrMalformed},
		"no refund": {
			order: func(o map[string]any) { o["inputs"].([]any)[0].(map[string]any)["refunds"] = []any{} },
			want:  provider.ErrUntrusted,
		},
		"another origin chain": {
			order: func(o map[string]any) { part(o, "payment")["chainId"] = "optimism" },
			want:  provider.ErrUntrusted,
		},
		"another chain": {
			order: func(o map[string]any) { part(o, "output")["chainId"] = "base" },
			want:  provider.ErrUntrusted,
		},
		"less in than asked": {
			order: func(o map[string]any) { part(o, "payment")["amount"] = "1" },
			want:  provider.ErrUntrusted,
		},
		"another solver": {
			order: func(o map[string]any) { o["solver"] = factory },
			want:  provider.ErrUntrusted,
		},
		"no order": {
			after: func(a map[string]any) { delete(a, "protocol") },
			want:  provider.ErrUnavailable,
		},
		"an order of null": {
			after: func(a map[string]any) { a["protocol"] = nil },
			want:  provider.ErrUnavailable,
		},
		"two steps": {
			after: func(a map[string]any) { s := a["steps"].([]any); a["steps"] = append(s, s[0]) },
			want:  provider.ErrMalformed,
		},
		"no step": {after: func(a map[string]any) { a["steps"] = []any{} }, want: provider.ErrMalformed},
		"an approval": {
			after: steps(func(s map[string]any) { s["id"] = "approve" }),
			want:  provider.ErrMalformed,
		},
		"a signature to give": {
			after: steps(func(s map[string]any) { s["kind"] = "signature" }),
			want:  provider.ErrMalformed,
		},
		"no id of the request": {
			after: steps(func(s map[string]any) { delete(s, "requestId") }),
			want:  provider.ErrMalformed,
		},
		"an id with a parameter": {
			after: steps(func(s map[string]any) { s["requestId"] = "0x1&requestId=2" }),
			want:  provider.ErrMalformed,
		},
		"no deposit address": {
			after: steps(func(s map[string]any) { delete(s, "depositAddress") }),
			want:  provider.ErrUntrusted,
		},
		"a new member of a step": {
			after: steps(func(s map[string]any) { s["memo"] = "1" }),
			want:  provider.ErrMalformed,
		},
		"a new member of it all": {after: func(a map[string]any) { a["memo"] = "1" }, want: provider.ErrMalformed},
		"a new member beside the order": {after: func(a map[string]any) {
			a["protocol"].(map[string]any)["v2"].(map[string]any)["orderdata"] = "1"
		}, want: provider.ErrMalformed},
	} {
		l := newLab(t)
		l.order, l.after = c.order, c.after
		offer, err := l.provider.Quote(t.Context(), l.Ask())
		if !errors.Is(err, c.want) || errors.Is(err, provider.ErrUntrusted) == errors.Is(err, provider.ErrUnavailable) {
			t.Errorf("%s: got %+v and %v, want %v", name, offer, err, c.want)
		}
	}
	// What describes the order, and is not signed, does not become the offer.
	l := newLab(t)
	l.after = func(a map[string]any) {
		details := a["details"].(map[string]any)
		details["currencyOut"].(map[string]any)["amount"] = "999999999999"
		details["currencyOut"].(map[string]any)["minimumAmount"] = "999999999999"
		details["recipient"] = factory
	}
	offer, err := l.provider.Quote(t.Context(), l.Ask())
	if err != nil || offer.AmountOut != money.Units(210_000_000) || offer.MinAmountOut != money.Units(207_900_000) {
		t.Errorf("got %+v and %v, want the amounts of the order", offer, err)
	}
}

func TestADryQuoteIsComparedWithItsQuestion(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(answer, details, in, out map[string]any){
		"a deposit address": func(a, _, _, _ map[string]any) {
			a["steps"].([]any)[0].(map[string]any)["depositAddress"] = factory
		},
		"no steps":          func(a, _, _, _ map[string]any) { delete(a, "steps") },
		"no details":        func(a, _, _, _ map[string]any) { delete(a, "details") },
		"another recipient": func(_, d, _, _ map[string]any) { d["recipient"] = factory },
		"no recipient":      func(_, d, _, _ map[string]any) { delete(d, "recipient") },
		"no currency in":    func(_, d, _, _ map[string]any) { delete(d, "currencyIn") },
		"another currency in": func(_, _, in, _ map[string]any) {
			in["currency"].(map[string]any)["address"] = dollarContract
		},
		"another chain":        func(_, _, _, out map[string]any) { out["currency"].(map[string]any)["chainId"] = 1 },
		"no currency":          func(_, _, _, out map[string]any) { delete(out, "currency") },
		"another amount":       func(_, _, in, _ map[string]any) { in["amount"] = "1" },
		"no amount":            func(_, _, _, out map[string]any) { delete(out, "amount") },
		"no least amount":      func(_, _, _, out map[string]any) { delete(out, "minimumAmount") },
		"a least amount of 1":  func(_, _, _, out map[string]any) { out["minimumAmount"] = "1" },
		"an amount of 0":       func(_, _, _, out map[string]any) { out["amount"] = "0" },
		"an amount in hex":     func(_, _, _, out map[string]any) { out["amount"] = "0x10" },
		"an amount as number":  func(_, _, _, out map[string]any) { out["amount"] = 210000000 },
		"a new detail":         func(_, d, _, _ map[string]any) { d["warning"] = "x" },
		"an estimate below 0":  func(_, d, _, _ map[string]any) { d["timeEstimate"] = -1 },
		"an estimate of years": func(_, d, _, _ map[string]any) { d["timeEstimate"] = 100000000 },
	} {
		l := newLab(t)
		l.after = func(a map[string]any) {
			d := a["details"].(map[string]any)
			change(a, d, d["currencyIn"].(map[string]any), d["currencyOut"].(map[string]any))
		}
		ask := l.Ask()
		ask.IsFirm = false
		if offer, err := l.provider.Quote(t.Context(), ask); !errors.Is(err, provider.ErrMalformed) {
			t.Errorf("%s: got %+v and %v, want it not understood", name, offer, err)
		}
	}
}

func TestWhatCannotBeProvenIsNotAsked(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, change := range map[string]func(*provider.Ask){
		"an origin without contracts": func(a *provider.Ask) { a.Origin = provider.Token{Chain: chain.Solana} },
		"flexible input":              func(a *provider.Ask) { a.IsFlexible = true },
		"a refund to the sender":      func(a *provider.Ask) { a.RefundTo = zeroAddress },
		"a currency not configured":   func(a *provider.Ask) { a.Origin.Contract = "0x01" },
	} {
		ask := l.Ask()
		change(&ask)
		_, err := l.provider.Quote(t.Context(), ask)
		if !errors.Is(err, provider.ErrNotServed) || len(l.requests) != 0 {
			t.Errorf("%s: got %v after %v, want no question", name, err, l.requests)
		}
	}
	ask := l.Ask()
	ask.IsFirm, ask.Destination = false, provider.Token{Chain: chain.Solana}
	if _, err := l.provider.Quote(t.Context(), ask); err != nil {
		t.Errorf("got %v, want a delivery to a chain without contracts", err)
	}
}

func TestOnlyADocumentedRefusalIsOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status    int
		body      string
		isRefusal bool
	}{
		{400, `{"message":"no","errorCode":"AMOUNT_TOO_LOW"}`, true},
		{404, `{"message":"no","errorCode":"NO_SWAP_ROUTES_FOUND"}`, true},
		{422, `{"message":"no","errorCode":"SANCTIONED_WALLET_ADDRESS","errorData":"x","requestId":"0x1"}`, true},
		{400, `{"message":"no","errorCode":"PRICE_FETCH_FAILED"}`, false},
		{400, `{"message":"no","errorCode":"SERVICE_UNAVAILABLE"}`, false},
		{400, `{"message":"no","errorCode":"REQUEST_TIMED_OUT"}`, false},
		{400, `{"message":"no","errorCode":"RPC_HTTP_ERROR"}`, false},
		{400, `{"message":"no","errorCode":"INSUFFICIENT_FUNDS"}`, false},
		{400, `{"message":"no","errorCode":"NEW_CODE"}`, false},
		{400, `{"message":"no"}`, false},
		{400, `{"errorCode":"AMOUNT_TOO_LOW"}`, false},
		{400, `{"message":"no","errorCode":"AMOUNT_TOO_LOW","steps":[]}`, false},
		{400, `[]`, false},
		{401, `{"message":"no","errorCode":"AMOUNT_TOO_LOW"}`, false},
		{403, `{"message":"no","errorCode":"AMOUNT_TOO_LOW"}`, false},
		{429, `{"message":"no","errorCode":"AMOUNT_TOO_LOW"}`, false},
		{500, `{"message":"no","errorCode":"AMOUNT_TOO_LOW"}`, false},
		{302, `{"message":"no","errorCode":"AMOUNT_TOO_LOW"}`, false},
	} {
		err := decodeRefusal(httpjson.Reply{Status: c.status, Body: []byte(c.body)})
		var refused *provider.RefusedError
		if errors.As(err, &refused) != c.isRefusal || errors.Is(err, provider.ErrUnavailable) == c.isRefusal ||
			c.isRefusal && refused.Message != "no" {
			t.Errorf("%d %s: got %v, want a refusal: %t", c.status, c.body, err, c.isRefusal)
		}
	}
}

func TestAReportSaysWhatIsKnownOfTheRefund(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status, fail, refund string
		want                 provider.RefundReport
		reason               string
	}{
		{"success", `"N/A"`, `"N/A"`, provider.RefundNone, ""},
		{"pending", `null`, `null`, provider.RefundNone, ""},
		{"refund", `"SLIPPAGE"`, `"N/A"`, provider.RefundPending, "SLIPPAGE"},
		{"failure", `"SLIPPAGE"`, `"N/A"`, provider.RefundNone, "SLIPPAGE"},
		{"failure", `"UNKNOWN"`, `null`, provider.RefundNone, "UNKNOWN"},
		{"failure", `"N/A"`, `"AMOUNT_TOO_LOW_TO_REFUND"`, provider.RefundUnavailable, "AMOUNT_TOO_LOW_TO_REFUND"},
		{
			"failure", `"NO_QUOTES"`, `"NEGATIVE_NEW_AMOUNT_AFTER_FEES"`, provider.RefundUnavailable,
			"NO_QUOTES, NEGATIVE_NEW_AMOUNT_AFTER_FEES",
		},
		{"failure", `"N/A"`, `"REFUND_RECIPIENT_IS_VASP"`, provider.RefundManual, "REFUND_RECIPIENT_IS_VASP"},
		{"refund", `"N/A"`, `"MANUAL_REFUND_REQUIRED"`, provider.RefundManual, "MANUAL_REFUND_REQUIRED"},
		{"failure", `"N/A"`, `"SOMETHING_NEW"`, provider.RefundManual, "SOMETHING_NEW"},
		{"failure", `"BLOCKED_WALLET"`, `"N/A"`, provider.RefundManual, "BLOCKED_WALLET"},
	} {
		body := `{"status":"` + c.status + `","failReason":` + c.fail + `,"refundFailReason":` + c.refund +
			`,"updatedAt":1769988962883,"inTxHashes":["0xaa"],"txHashes":["0xbb"],"details":null}`
		got, err := decodeReport(httpjson.Reply{Status: 200, Body: []byte(body)})
		isBack := c.status == "refund" || c.status == "failure"
		if err != nil || got.Refund != c.want || got.Reason != c.reason ||
			!got.UpdatedAt.Equal(time.UnixMilli(1769988962883)) || (len(got.RefundTxs) == 1) != isBack ||
			(len(got.DestinationTxs) == 1) == isBack || !slices.Equal(got.OriginTxs, []chain.TxHash{"0xaa"}) {
			t.Errorf("%s: got %+v and %v, want %s", body, got, err, c.want)
		}
	}
	base := `{"status":"success","updatedAt":1769988962883,"inTxHashes":["0xaa"],"txHashes":[]}`
	for name, c := range map[string]struct{ old, replacement string }{
		"an undocumented status": {`"success"`, `"fallback"`},
		"another case":           {`"success"`, `"Success"`},
		"no status":              {`"success"`, `null`},
		"no time":                {`1769988962883`, `null`},
		"a time as text":         {`1769988962883`, `"1769988962883"`},
		"half a millisecond":     {`1769988962883`, `0.5`},
		"a time before all":      {`1769988962883`, `-1`},
		"an empty hash":          {`"0xaa"`, `""`},
		"a hash with a space":    {`"0xaa"`, `"0xaa 0xbb"`},
		"a hash as a number":     {`"0xaa"`, `1`},
		"a new member":           {`{`, `{"supersededByRequestId":"0x1",`},
		"many hashes":            {`"0xaa"`, strings.Repeat(`"0xaa",`, 50) + `"0xaa"`},
	} {
		body := strings.Replace(base, c.old, c.replacement, 1)
		got, err := decodeReport(httpjson.Reply{Status: 200, Body: []byte(body)})
		if !errors.Is(err, provider.ErrMalformed) {
			t.Errorf("%s: got %+v and %v, want no report", name, got, err)
		}
	}
}

func TestAReportIsAskedByTheRequestOfTheQuote(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.SetStatus("pending")
	id := "0x" + strings.Repeat("ab", 32)
	swap := provider.Ref{SignedQuote: []byte(`{"steps":[{"requestId":"` + id + `"}]}`)}
	if _, err := l.provider.Status(t.Context(), swap, "0xaa"); err != nil {
		t.Fatal(err)
	}
	if got := l.requests[0]; got != "GET /intents/status/v3?requestId="+id {
		t.Errorf("got %s", got)
	}
	for _, raw := range []string{
		``, `{}`, `{"steps":[]}`, `{"steps":[{"requestId":"0x1"}]}`, `{"steps":[{},{}]}`,
		`{"steps":[{"requestId":"` + strings.ToUpper(id) + `"}]}`,
	} {
		_, err := l.provider.Status(t.Context(), provider.Ref{SignedQuote: []byte(raw)}, "")
		if !errors.Is(err, provider.ErrUnavailable) || len(l.requests) != 1 {
			t.Errorf("%s: got %v after %d requests, want none", raw, err, len(l.requests))
		}
	}
}

func TestTheSectionNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	solver := common.HexToAddress("0xf70da97812cb96acdf810712aa562db8dfa3dbef")
	for name, c := range map[string]struct {
		change func(*Config)
		want   string // the setting; "": nothing is wrong
	}{
		"nothing":          {func(*Config) {}, ""},
		"no solver":        {func(c *Config) { c.Solvers = nil }, "solvers"},
		"no address":       {func(c *Config) { c.Solvers[0] = "0x1" }, "solvers"},
		"the zero address": {func(c *Config) { c.Solvers[0] = zeroAddress }, "solvers"},
		"no chain":         {func(c *Config) { c.Chains["BASE"] = nil }, "chains.BASE"},
		"no id":            {func(c *Config) { c.Chains["BASE"].ID = 0 }, "chains.BASE"},
		"no name":          {func(c *Config) { c.Chains["BASE"].Name = "" }, "chains.BASE"},
		"no native":        {func(c *Config) { c.Chains["BASE"].Native = "" }, "chains.BASE"},
		"another machine":  {func(c *Config) { c.Chains["BASE"].VM = "ton-vm" }, "chains.BASE"},
		"half the contracts": {
			func(c *Config) { c.Chains["BASE"].Depositor = "" }, "chains.BASE",
		},
		"a factory of nothing": {func(c *Config) { c.Chains["BASE"].Factory = zeroAddress }, "chains.BASE"},
		"contracts on Solana":  {func(c *Config) { c.Chains["SOLANA"].Factory = factory }, "chains.SOLANA"},
		"an empty contract":    {func(c *Config) { c.Chains["BASE"].Currencies[0].Contract = "" }, "chains.BASE"},
		"many decimals":        {func(c *Config) { c.Chains["BASE"].Currencies[0].Decimals = 78 }, "chains.BASE"},
		"a chain in lowercase": {func(c *Config) { c.Chains["base"] = c.Chains["BASE"] }, "chains.base"},
		"one name twice":       {func(c *Config) { c.Chains["OPTIMISM"].Name = "base" }, "chains"},
		"one currency twice": {func(c *Config) {
			c.Chains["BASE"].Currencies = append(c.Chains["BASE"].Currencies, CurrencyConfig{"native", "ETH", 18})
		}, "chains"},
		"an address that is not https": {func(c *Config) { c.URL = "http://127.0.0.1:9" }, "url"},
	} {
		config := newConfig(solver)
		c.change(config)
		var got []string
		config.Check(provider.SectionCheck{
			Network: chain.Mainnet, Report: func(setting, _ string, _ ...any) { got = append(got, setting) },
		})
		if c.want == "" && len(got) > 0 || c.want != "" && !slices.Contains(got, c.want) {
			t.Errorf("%s: got %v, want %q", name, got, c.want)
		}
		member, err := config.Open(provider.SectionEnv{})
		if c.want == "" && (err != nil || member.QuotesPerMinute != 40) {
			t.Errorf("%s: got %v, want a provider", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"relay-open", "relay-strict"} {
		raw, err := os.ReadFile("../../signedquote/testdata/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"status":"success","updatedAt":1769988962883,"inTxHashes":["0xaa"],"txHashes":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		reply := httpjson.Reply{Status: 200, Body: body}
		report, err := decodeReport(reply)
		if err == nil && (!slices.Contains(provider.Statuses, report.Status) || report.UpdatedAt.IsZero()) {
			t.Fatalf("%q: got %+v", body, report)
		}
		var answer quoteAnswer
		if err := decode(reply, &answer); err == nil {
			_, _ = answer.requestID()
			_, _ = answer.dryOffer(provider.Ask{}, currency{}, currency{})
		}
	})
}
