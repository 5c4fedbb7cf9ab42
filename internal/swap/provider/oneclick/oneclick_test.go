package oneclick

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

func TestTheQuestionIsAskedAsItIsDocumented(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ask := l.Ask()
	if _, err := l.provider.Quote(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	want := `{"dry":false,"depositMode":"SIMPLE","swapType":"EXACT_INPUT","slippageTolerance":100,"originAsset":"` +
		bitcoinAsset + `","depositType":"ORIGIN_CHAIN","destinationAsset":"` + tetherAsset +
		`","amount":"10000","refundTo":"bc1q6mte80265ghwq4vsrpm9lnaz46uvdreu9z8wly","refundType":"ORIGIN_CHAIN",` +
		`"recipient":"0xcac3C41676deF4FE375E57118f3eB83A99105577","recipientType":"DESTINATION_CHAIN",` +
		`"deadline":"2026-06-23T19:00:00.000Z"}`
	if got := l.bodies[len(l.bodies)-1]; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	ask.MinAmountOut, ask.Reference = money.Units(5_900_001), "cs_secret"
	if _, err := l.provider.Quote(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	if got := l.bodies[len(l.bodies)-1]; got != want {
		t.Errorf("got %s, want the caller's least amount and name kept from the provider", got)
	}
}

// A firm answer that was signed with the provider's key is still no offer if it contradicts itself or has a
// form that is not documented.
func TestAContradictingQuoteIsNoOffer(t *testing.T) {
	t.Parallel()
	set := func(part, name string, value any) func(map[string]any) {
		return func(answer map[string]any) { answer[part].(map[string]any)[name] = value }
	}
	for name, c := range map[string]struct {
		change, after func(map[string]any)
		isDryToo      bool
	}{
		"a least amount of 1":       {change: set("quote", "minAmountOut", "1"), isDryToo: true},
		"one unit below":            {change: set("quote", "minAmountOut", "5872243"), isDryToo: true},
		"more at least than at all": {change: set("quote", "minAmountOut", "5931561"), isDryToo: true},
		"an output of 0":            {change: set("quote", "amountOut", "0"), isDryToo: true},
		"an amount with a sign":     {change: set("quote", "amountOut", "-1"), isDryToo: true},
		"an amount as a number":     {change: set("quote", "amountOut", 5931560), isDryToo: true},
		"an amount with a point":    {change: set("quote", "amountOut", "5931560.0"), isDryToo: true},
		"no amount":                 {change: set("quote", "amountOut", nil), isDryToo: true},
		"a larger least amount in":  {change: set("quote", "minAmountIn", "10001"), isDryToo: true},
		"a negative estimate":       {change: set("quote", "timeEstimate", -1), isDryToo: true},
		"an estimate as text":       {change: set("quote", "timeEstimate", "812"), isDryToo: true},
		"a message":                 {change: set("quote", "customRecipientMsg", "call")},
		"a virtual chain":           {change: set("quote", "virtualChainRecipient", "0x1")},
		"several addresses": {
			change: set("quote", "chainDepositAddresses", []any{map[string]any{"address": "x"}}), isDryToo: true,
		},
		"a new member of the request": {after: set("quoteRequest", "bonus", 1), isDryToo: true},
		"a new member of the quote":   {after: set("quote", "riskLevel", 1), isDryToo: true},
		"a member in another case":    {after: set("quote", "DepositAddress", "bc1q"), isDryToo: true},
		"no quote":                    {after: func(a map[string]any) { a["quote"] = nil }, isDryToo: true},
		"no request":                  {after: func(a map[string]any) { delete(a, "quoteRequest") }, isDryToo: true},
		"a number for the signature":  {after: func(a map[string]any) { a["signature"] = 5 }, isDryToo: true},
		"a dry quote instead":         {change: set("quoteRequest", "dry", true)},
	} {
		for _, isFirm := range []bool{true, false} {
			if !isFirm && !c.isDryToo {
				continue
			}
			l := newLab(t)
			l.change, l.after = c.change, c.after
			ask := l.Ask()
			ask.IsFirm = isFirm
			if offer, err := l.provider.Quote(t.Context(), ask); !errors.Is(err, provider.ErrMalformed) {
				t.Errorf("%s, firm %t: got %+v and %v, want it not understood", name, isFirm, offer, err)
			}
		}
	}
}

func TestADryQuoteIsComparedWithItsQuestion(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(request, quote map[string]any){
		"a deposit address":   func(_, q map[string]any) { q["depositAddress"] = "bc1q" },
		"a memo":              func(_, q map[string]any) { q["depositMemo"] = "1" },
		"a firm quote":        func(r, _ map[string]any) { r["dry"] = false },
		"another recipient":   func(r, _ map[string]any) { r["recipient"] = "0x1" },
		"another refund":      func(r, _ map[string]any) { r["refundTo"] = "bc1q" },
		"another origin":      func(r, _ map[string]any) { r["originAsset"] = tetherAsset },
		"another destination": func(r, _ map[string]any) { r["destinationAsset"] = bitcoinAsset },
		"another amount":      func(r, _ map[string]any) { r["amount"] = "9999" },
		"other slippage":      func(r, _ map[string]any) { r["slippageTolerance"] = 99 },
		"another kind":        func(r, _ map[string]any) { r["swapType"] = "FLEX_INPUT" },
		"an account":          func(r, _ map[string]any) { r["recipientType"] = "INTENTS" },
		"a mode with a memo":  func(r, _ map[string]any) { r["depositMode"] = "MEMO" },
	} {
		l := newLab(t)
		l.change = func(a map[string]any) {
			change(a["quoteRequest"].(map[string]any), a["quote"].(map[string]any))
		}
		ask := l.Ask()
		ask.IsFirm = false
		if offer, err := l.provider.Quote(t.Context(), ask); !errors.Is(err, provider.ErrMalformed) {
			t.Errorf("%s: got %+v and %v, want it not understood", name, offer, err)
		}
	}
	l := newLab(t)
	l.change = func(a map[string]any) {
		request := a["quoteRequest"].(map[string]any)
		delete(request, "depositMode")
		request["deadline"], request["confidentiality"] = "2026-06-23T19:00:00Z", "public"
		request["quoteWaitingTimeMs"], request["appFees"], request["referral"] = 0, []any{}, nil
	}
	ask := l.Ask()
	ask.IsFirm = false
	offer, err := l.provider.Quote(t.Context(), ask)
	if err != nil || offer.RefundFee != money.Units(1900) || offer.Estimate != 812*time.Second ||
		offer.MinAmountOut != money.Units(5_872_244) {
		t.Errorf("got %+v and %v, want the offer of an answer in its usual form", offer, err)
	}
}

// The provider's own samples are decoded by the strict form.
func TestThePublishedSamplesHaveTheKnownForm(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"oneclick-firm", "oneclick-dry", "oneclick-status"} {
		raw, err := os.ReadFile("../../signedquote/testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var answer quoteAnswer
		if err := decode(httpjson.Reply{Status: 200, Body: raw}, &answer); err != nil {
			t.Errorf("%s: got %v, want it understood", name, err)
		}
		if answer.Quote == nil || answer.Quote.AmountOut == nil || answer.QuoteRequest.Amount != "10000" {
			t.Errorf("%s: got %+v, want its terms", name, answer)
		}
	}
}

func TestAnAssetIsKnownByItsToken(t *testing.T) {
	t.Parallel()
	decodeList := func(list string, pins map[provider.Token]string, hidesLocal bool) ([]provider.Asset, error) {
		return decodeAssets(httpjson.Reply{Status: 200, Body: []byte(list)}, pins, hidesLocal)
	}
	second := strings.Replace(tetherEntry, `"assetId":"nep141:`, `"assetId":"1cs_v1:`, 1)
	local := strings.Replace(tonEntry, `nep245:`, `local:`, 1)
	alias := strings.Replace(tonEntry, `"ton"`, `"ethereum"`, 1)
	tether := provider.Token{Chain: chain.Ethereum, Contract: chain.Address(strings.ToLower(tetherToken))}
	secondID := "1cs_v1:" + strings.TrimPrefix(tetherAsset, "nep141:")
	for name, c := range map[string]struct {
		list       string
		pins       map[provider.Token]string
		hidesLocal bool
		want       []string
	}{
		"all": {
			"[" + bitcoinEntry + "," + tetherEntry + "]", nil, false, []string{bitcoinAsset, tetherAsset},
		},
		"nothing": {"[]", nil, false, nil},
		"two ids of one token": {
			"[" + tetherEntry + "," + second + "," + bitcoinEntry + "]", nil, false, []string{bitcoinAsset},
		},
		"two ids, one pinned": {
			"[" + tetherEntry + "," + second + "]",
			map[provider.Token]string{tether: secondID},
			false,
			[]string{secondID},
		},
		"another id than pinned":   {"[" + tetherEntry + "]", map[provider.Token]string{tether: secondID}, false, nil},
		"a local world's":          {"[" + local + "]", nil, false, []string{"local:v2_1.omni.hot.tg:1117_"}},
		"a local world's, hidden":  {"[" + local + "," + bitcoinEntry + "]", nil, true, []string{bitcoinAsset}},
		"another name of Ethereum": {"[" + alias + "," + bitcoinEntry + "]", nil, false, []string{bitcoinAsset}},
	} {
		assets, err := decodeList(c.list, c.pins, c.hidesLocal)
		var ids []string
		for _, a := range assets {
			ids = append(ids, a.ID)
		}
		if err != nil || !slices.Equal(ids, c.want) {
			t.Errorf("%s: got %v and %v, want %v", name, ids, err, c.want)
		}
	}
	assets, err := decodeList("["+tetherEntry+"]", nil, false)
	want := provider.Asset{
		Token: tether, ID: tetherAsset, Symbol: "USDT", Decimals: 6, Accepts: true, Delivers: true,
		AcceptsAny: true, PriceUSD: money.MustParseUSD("0.9989"),
	}
	if err != nil || len(assets) != 1 || assets[0] != want {
		t.Errorf("got %+v and %v, want %+v", assets, err, want)
	}
	for name, list := range map[string]string{
		"an object":              `{"tokens":[]}`,
		"null":                   `null`,
		"one id twice":           "[" + tetherEntry + "," + tetherEntry + "]",
		"a new member":           "[" + strings.Replace(tetherEntry, "{", `{"frozen":true,`, 1) + "]",
		"no id":                  "[" + strings.Replace(tetherEntry, `"assetId"`, `"coingeckoId"`, 1) + "]",
		"an empty id":            "[" + strings.Replace(tetherEntry, tetherAsset, ``, 1) + "]",
		"an id with a quote":     "[" + strings.Replace(tetherEntry, tetherAsset, `a\"b`, 1) + "]",
		"no chain":               "[" + strings.Replace(tetherEntry, `"blockchain":"eth",`, ``, 1) + "]",
		"no decimals":            "[" + strings.Replace(tetherEntry, `"decimals":6,`, ``, 1) + "]",
		"decimals as text":       "[" + strings.Replace(tetherEntry, `"decimals":6`, `"decimals":"6"`, 1) + "]",
		"half a decimal":         "[" + strings.Replace(tetherEntry, `"decimals":6`, `"decimals":6.5`, 1) + "]",
		"negative decimals":      "[" + strings.Replace(tetherEntry, `"decimals":6`, `"decimals":-6`, 1) + "]",
		"many decimals":          "[" + strings.Replace(tetherEntry, `"decimals":6`, `"decimals":78`, 1) + "]",
		"a contract of spaces":   "[" + strings.Replace(tetherEntry, tetherToken, `0x 1`, 1) + "]",
		"a contract as a number": "[" + strings.Replace(tetherEntry, `"`+tetherToken+`"`, `1`, 1) + "]",
	} {
		if got, err := decodeList(list, nil, false); !errors.Is(err, provider.ErrMalformed) {
			t.Errorf("%s: got %+v and %v, want it not understood", name, got, err)
		}
	}
}

func TestAReportIsOfItsSwapAndHasNoAmounts(t *testing.T) {
	t.Parallel()
	swap := provider.Ref{DepositAddress: "bc1qa"}
	l := newLab(t)
	l.SetStatus("REFUNDED")
	got, err := l.provider.Status(t.Context(), swap, "0xaa")
	if err != nil || got.Reason != "PRICE MOVED" || got.Refund != provider.RefundPending ||
		!slices.Equal(got.OriginTxs, []chain.TxHash{"0xaa"}) ||
		!slices.Equal(got.DestinationTxs, []chain.TxHash{"3exJVjCE"}) ||
		!got.UpdatedAt.Equal(time.Date(2026, 6, 23, 17, 20, 0, 0, time.UTC)) {
		t.Errorf("got %+v and %v, want what was reported", got, err)
	}
	base := l.report("bc1qa")
	for name, c := range map[string]struct{ old, replacement string }{
		"another address":       {`"depositAddress":"bc1qa"`, `"depositAddress":"bc1qb"`},
		"no address":            {`"depositAddress":"bc1qa"`, `"depositAddress":null`},
		"no quote":              {`"quoteResponse":{`, `"correlation":{`},
		"a quote of null":       {`"quote":{`, `"quotes":{`},
		"an unknown status":     {`"REFUNDED"`, `"RETURNED"`},
		"a status in lowercase": {`"REFUNDED"`, `"refunded"`},
		"no status":             {`"status":"REFUNDED"`, `"status":null`},
		"no time":               {`"updatedAt":"2026-06-23T17:20:00.000Z"`, `"updatedAt":null`},
		"another time":          {`"2026-06-23T17:20:00.000Z"`, `"yesterday"`},
		"a new member":          {`"swapDetails":{`, `"swapDetails":{"sender":"0x1",`},
		"an empty hash":         {`"hash":"0xaa"`, `"hash":""`},
		"a hash with a tag":     {`"hash":"0xaa"`, `"hash":"<b>"`},
		"a long hash":           {`"hash":"0xaa"`, `"hash":"` + strings.Repeat("a", 129) + `"`},
		"no list of hashes":     {`"originChainTxHashes":[`, `"originChainTxHashes":"`},
		"a reason as an object": {`"refundReason":"PRICE\nMOVED"`, `"refundReason":{}`},
	} {
		body := strings.Replace(base, c.old, c.replacement, 1)
		if body == base {
			t.Errorf("%s: nothing was changed", name)
		}
		if report, err := decodeReport(httpjson.Reply{Status: 200, Body: []byte(body)}, swap); err == nil {
			t.Errorf("%s: got %+v, want no report", name, report)
		}
	}
}

func TestTheHashIsPassedOnWhileTheProviderWaitsForIt(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]bool{
		"PENDING_DEPOSIT": true, "KNOWN_DEPOSIT_TX": false, "PROCESSING": false, "SUCCESS": false, "FAILED": false,
	} {
		for _, payment := range []chain.TxHash{"0xaa", ""} {
			l := newLab(t)
			l.SetStatus(status)
			if _, err := l.provider.Status(t.Context(), provider.Ref{DepositAddress: "bc1q?&x"}, payment); err != nil {
				t.Fatal(err)
			}
			isSent := len(l.requests) == 2 && l.requests[1] == "POST /v0/deposit/submit"
			if isSent != (want && payment != "") || l.requests[0] != "GET /v0/status?depositAddress=bc1q%3F%26x" {
				t.Errorf("%s with %q: got %v", status, payment, l.requests)
			}
			if isSent && l.bodies[1] != `{"txHash":"0xaa","depositAddress":"bc1q?&x"}` {
				t.Errorf("got %s", l.bodies[1])
			}
		}
	}
}

func TestARefusalIsAMessageAndNothingElse(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"message":"Amount is too low"}`:                                    "Amount is too low",
		`{"message":"no","correlationId":"1","timestamp":"x","path":"/v0/"}`: "no",
		`{"message":"no","statusCode":400,"error":"Bad Request"}`:            "no",
	} {
		var refused *provider.RefusedError
		err := decodeRefusal(httpjson.Reply{Status: 400, Body: []byte(body)})
		if !errors.As(err, &refused) || refused.Message != want {
			t.Errorf("%s: got %v, want %q", body, err, want)
		}
	}
	for _, body := range []string{
		`{}`, `[]`, `"no"`, `{"message":["no"]}`, `{"message":null}`, `{"message":"no","quote":{}}`,
	} {
		err := decodeRefusal(httpjson.Reply{Status: 400, Body: []byte(body)})
		if !errors.Is(err, provider.ErrMalformed) {
			t.Errorf("%s: got %v, want it not understood", body, err)
		}
	}
}

func TestTheSectionNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	zero, negative := 0, -1
	for name, c := range map[string]struct {
		config  Config
		network chain.Network
		want    string // the setting; "": nothing is wrong
	}{
		"nothing":  {Config{}, chain.Mainnet, ""},
		"no limit": {Config{Service: provider.Service{Quotes: &zero}}, chain.Mainnet, ""},
		"a limit below zero": {
			Config{Service: provider.Service{Quotes: &negative}}, chain.Mainnet, "quotes_per_minute",
		},
		"a local service":     {Config{Service: provider.Service{URL: "http://127.0.0.1:9"}}, chain.Local, ""},
		"a local one on main": {Config{Service: provider.Service{URL: "http://127.0.0.1:9"}}, chain.Mainnet, "url"},
		"no https":            {Config{Service: provider.Service{URL: "http://example.com"}}, chain.Local, "url"},
		"two keys": {
			Config{Keys: []string{Key, "ed25519:5J5tkaxyPoR3Q9S8LXfo5bWnXK5Z2bctJ4mB9gENh7co"}}, chain.Mainnet, "",
		},
		"no key":     {Config{Keys: []string{""}}, chain.Mainnet, "keys"},
		"half a key": {Config{Keys: []string{Key, Key[:20]}}, chain.Mainnet, "keys"},
		"an asset":   {Config{Assets: map[string]string{"BITCOIN:native": bitcoinAsset}}, chain.Mainnet, ""},
		"an asset of no chain": {
			Config{Assets: map[string]string{"native": bitcoinAsset}}, chain.Mainnet, "assets",
		},
		"one token twice": {
			Config{Assets: map[string]string{"ETHEREUM:0xAB": "a", "ETHEREUM:0xab": "b"}}, chain.Mainnet, "assets",
		},
		"an asset of a local world": {
			Config{Assets: map[string]string{"BITCOIN:native": "local:btc"}}, chain.Mainnet, "assets",
		},
		"an asset of a local world at home": {
			Config{Assets: map[string]string{"BITCOIN:native": "local:btc"}}, chain.Local, "",
		},
	} {
		var got []string
		c.config.Check(provider.SectionCheck{
			Network: c.network, Report: func(setting, _ string, _ ...any) { got = append(got, setting) },
		})
		if c.want == "" && len(got) > 0 || c.want != "" && !slices.Contains(got, c.want) {
			t.Errorf("%s: got %v, want %q", name, got, c.want)
		}
		member, err := c.config.Open(provider.SectionEnv{Network: c.network})
		if c.want == "" && (err != nil || member.Provider.Name() != Name) {
			t.Errorf("%s: got %v, want a provider", name, err)
		}
	}
	c := Config{Service: provider.Service{KeyFile: "one_click.key"}}
	c.ReadSecrets(func(setting, file string) string { return setting + " " + file + "\n" })
	if c.Key.Reveal() != "key_file one_click.key" {
		t.Errorf("got another key than the file has")
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"oneclick-firm", "oneclick-dry", "oneclick-status"} {
		raw, err := os.ReadFile("../../signedquote/testdata/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte("[" + bitcoinEntry + "," + tetherEntry + "]"))
	f.Add([]byte(`{"message":"no"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		reply := httpjson.Reply{Status: 200, Body: body}
		assets, err := decodeAssets(reply, nil, true)
		for _, a := range assets {
			if err != nil || a.ID == "" || a.Chain == "" || !json.Valid(body) {
				t.Fatalf("%q: got %+v and %v", body, a, err)
			}
		}
		if report, err := decodeReport(reply, provider.Ref{DepositAddress: "bc1q"}); err == nil &&
			!slices.Contains(provider.Statuses, report.Status) {
			t.Fatalf("%q: got %+v", body, report)
		}
		if err := decodeRefusal(reply); err == nil {
			t.Fatalf("%q: got no error", body)
		}
	})
}
