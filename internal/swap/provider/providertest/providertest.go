// Package providertest is the conformance suite of the port to swap providers. It proves for one adapter what
// the comments of package provider promise. An adapter's tests implement Lab, with a service that signs like
// the real one, and call Run. An adapter that does not pass is not wired.
//
// The suite never waits for time to pass. A run leaves nothing behind except what the lab started.
package providertest

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// Lab is a provider's service that a test controls, with the adapter under test. A method that fails ends the
// test.
type Lab interface {
	// Provider returns the adapter, which talks to this lab's service.
	Provider() provider.Provider
	// Ask returns a firm question with exact input that the service answers with an offer.
	Ask() provider.Ask
	// IsFlexible reports whether the adapter also serves questions with flexible input.
	IsFlexible() bool
	// Addresses returns how many deposit addresses the service has made.
	Addresses() int
	// Statuses returns every documented status, with its meaning.
	Statuses() map[string]provider.Status
	// SetStatus makes the service report a status for every swap, with a reason and three hashes where the
	// provider has them.
	SetStatus(status string)
	// Refuse makes the service refuse every quote with a message.
	Refuse(message string)
	// Break makes the service answer everything with a fault. Hang sends to arrived when a request is there.
	Break(fault Fault, arrived chan<- struct{})
	// Forgeries returns what the service can change in a firm quote.
	Forgeries() []Forgery
	// Forge makes the service change every firm quote.
	Forge(f Forgery)
}

// Fault is an answer that is none.
type Fault string

// The faults.
const (
	Hang          Fault = "no answer"
	Page          Fault = "a page with status 200"
	TooMany       Fault = "status 429"
	Denied        Fault = "status 401"
	Broken        Fault = "status 500"
	Half          Fault = "half an answer"
	EmptyBody     Fault = "an empty answer"
	Null          Fault = "null"
	List          Fault = "a list for an object, or an object for a list"
	UnknownMember Fault = "an answer with an unknown member"
	Huge          Fault = "10 MB"
)

// Faults lists all faults.
var Faults = []Fault{Hang, Page, TooMany, Denied, Broken, Half, EmptyBody, Null, List, UnknownMember, Huge}

const hugeBytes = 10 << 20

// Apply makes of an answer what a service with the fault sends: the content type, the status and the body. No
// fault leaves the answer as it is. The lab itself makes Hang.
func (f Fault) Apply(status int, body string) (kind string, newStatus int, newBody string) {
	kind = "application/json; charset=utf-8"
	switch f {
	case Page:
		return "text/html", 200, "<html>" + body
	case TooMany:
		return kind, 429, `{"message":"slow down"}`
	case Denied:
		return kind, 401, `{"message":"who are you"}`
	case Broken:
		return kind, 500, body
	case Half:
		return kind, status, body[:len(body)/2]
	case EmptyBody:
		return kind, status, ""
	case Null:
		return kind, status, "null"
	case List:
		return kind, status, "[" + body + "]"
	case UnknownMember:
		return kind, status, strings.Replace(body, "{", `{"riskLevel":1,`, 1)
	case Huge:
		return kind, status, `{"message":"` + strings.Repeat("a", hugeBytes) + `"}`
	}
	return kind, status, body
}

// Forgery is a change of a firm quote.
type Forgery string

// The forgeries. The service signs all but the last three with its own key, like a genuine quote of another
// customer.
const (
	OtherRecipient   Forgery = "another recipient"
	OtherRefund      Forgery = "another refund address"
	OtherAmount      Forgery = "another amount in"
	OtherOrigin      Forgery = "another origin asset"
	OtherDestination Forgery = "another destination asset"
	MoreSlippage     Forgery = "more slippage"
	Memo             Forgery = "a memo"
	Flexible         Forgery = "flexible input"
	OtherKey         Forgery = "the key of a stranger"
	NoSignature      Forgery = "no signature"
	OtherAddress     Forgery = "another deposit address after signing"
)

// Run proves the promises, each in its own lab.
func Run(t *testing.T, open func(t *testing.T) Lab) {
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.prove(t, func(t *testing.T) lab {
				t.Helper()
				return lab{open(t)}
			})
		})
	}
}

// promise is a statement of package provider with its proof.
type promise struct {
	name  string
	prove func(*testing.T, func(*testing.T) lab)
}

// lab is a Lab with the helpers that proofs share.
type lab struct{ Lab }

func (l lab) quote(t *testing.T, ask provider.Ask) provider.Offer {
	t.Helper()
	offer, err := l.Provider().Quote(t.Context(), ask)
	if err != nil {
		t.Fatalf("got %v, want an offer", err)
	}
	return offer
}

func (l lab) dryAsk() provider.Ask {
	ask := l.Ask()
	ask.IsFirm = false
	return ask
}

// ref returns a swap that the service knows.
func (l lab) ref(t *testing.T) provider.Ref {
	t.Helper()
	offer := l.quote(t, l.Ask())
	return provider.Ref{DepositAddress: offer.Signed.DepositAddress, SignedQuote: offer.Raw}
}

const payment chain.TxHash = "0x00000000000000000000000000000000000000000000000000000000000000aa"

var promises = []promise{
	{"ADryQuoteMakesNoAddress", func(t *testing.T, open func(*testing.T) lab) {
		l := open(t)
		offer := l.quote(t, l.dryAsk())
		if offer.IsFirm() || offer.Signed.DepositAddress != "" || offer.Provider != l.Provider().Name() {
			t.Errorf("got %+v, want an offer without an address", offer)
		}
		if offer.AmountIn != l.Ask().AmountIn || offer.AmountOut.IsZero() || offer.AmountOut.Less(offer.MinAmountOut) {
			t.Errorf("got %s for %s, want the amount of the question", offer.AmountOut, offer.AmountIn)
		}
		if n := l.Addresses(); n != 0 {
			t.Errorf("got %d addresses, want none", n)
		}
	}},
	{"AFirmQuoteIsSignedOverTheQuestion", func(t *testing.T, open func(*testing.T) lab) {
		l := open(t)
		ask := l.Ask()
		offer := l.quote(t, ask)
		q := offer.Signed
		assets, err := l.Provider().Assets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		origin, destination, err := provider.FindPair(assets, ask)
		if err != nil {
			t.Fatal(err)
		}
		if !offer.IsFirm() || q.Scheme == "" || q.DepositAddress == "" || q.OriginAsset != origin.ID ||
			q.DestinationAsset != destination.ID || q.AmountIn != ask.AmountIn || q.MinAmountIn != ask.AmountIn ||
			!strings.EqualFold(q.Recipient, string(ask.Recipient)) || q.SlippageBps > ask.SlippageBps {
			t.Errorf("got %+v, want the terms of %+v", q, ask)
		}
		for _, refundTo := range q.RefundTo {
			if !strings.EqualFold(refundTo, string(ask.RefundTo)) {
				t.Errorf("got the refund address %s, want %s", refundTo, ask.RefundTo)
			}
		}
		if offer.AmountOut != q.AmountOut || offer.MinAmountOut != q.MinAmountOut || offer.AmountIn != q.AmountIn {
			t.Errorf("got the amounts of %+v, want those that are signed", offer)
		}
		if second := l.quote(t, ask); second.Signed.DepositAddress == q.DepositAddress || l.Addresses() != 2 {
			t.Errorf("got the address %s again, want another one for another swap", q.DepositAddress)
		}
	}},
	{"AForgedQuoteIsNoOffer", func(t *testing.T, open func(*testing.T) lab) {
		forgeries := open(t).Forgeries()
		for _, required := range []Forgery{
			OtherRecipient, OtherRefund, OtherAmount, OtherDestination, OtherKey, NoSignature, OtherAddress,
		} {
			if !slices.Contains(forgeries, required) {
				t.Errorf("the lab cannot forge %s", required)
			}
		}
		for _, f := range forgeries {
			l := open(t)
			l.Forge(f)
			offer, err := l.Provider().Quote(t.Context(), l.Ask())
			if !errors.Is(err, provider.ErrUntrusted) || errors.Is(err, provider.ErrUnavailable) {
				t.Errorf("%s: got %v, want it not to be trusted", f, err)
			}
			if !reflect.DeepEqual(offer, provider.Offer{}) {
				t.Errorf("%s: got %+v, want nothing of it", f, offer)
			}
		}
	}},
	{"FlexibleInputIsServedOrRefused", func(t *testing.T, open func(*testing.T) lab) {
		l := open(t)
		ask := l.Ask()
		ask.IsFlexible = true
		offer, err := l.Provider().Quote(t.Context(), ask)
		switch {
		case l.IsFlexible() && (err != nil || !offer.Signed.IsFlexible):
			t.Errorf("got %+v and %v, want a flexible quote", offer, err)
		case !l.IsFlexible() && (!errors.Is(err, provider.ErrNotServed) || l.Addresses() != 0):
			t.Errorf("got %v, want it not served and nothing asked", err)
		}
	}},
	{"APairIsServedOrNotAsked", func(t *testing.T, open func(*testing.T) lab) {
		l := open(t)
		unknown := provider.Token{Chain: chain.Ethereum, Contract: "0x00000000000000000000000000000000000bad00"}
		for name, change := range map[string]func(*provider.Ask){
			"origin":      func(a *provider.Ask) { a.Origin = unknown },
			"destination": func(a *provider.Ask) { a.Destination = unknown },
		} {
			ask := l.Ask()
			change(&ask)
			if _, err := l.Provider().Quote(t.Context(), ask); !errors.Is(err, provider.ErrNotServed) {
				t.Errorf("an unknown %s: got %v, want it not served", name, err)
			}
		}
		if n := l.Addresses(); n != 0 {
			t.Errorf("got %d addresses, want none", n)
		}
	}},
	{"ARefusalHasItsMessage", func(t *testing.T, open func(*testing.T) lab) {
		l := open(t)
		for _, c := range []struct{ message, want string }{
			{"Amount is too low for bridge, try at least 8300", "Amount is too low for bridge, try at least 8300"},
			{"two\nlines\tand \u202ea trick", "two lines and a trick"},
			{strings.Repeat("é", 300), strings.Repeat("é", 100)},
			{"", ""},
		} {
			l.Refuse(c.message)
			for _, ask := range []provider.Ask{l.Ask(), l.dryAsk()} {
				_, err := l.Provider().Quote(t.Context(), ask)
				var refused *provider.RefusedError
				if !errors.As(err, &refused) || refused.Message != c.want ||
					refused.Provider != l.Provider().Name() || errors.Is(err, provider.ErrUnavailable) {
					t.Errorf("%q: got %v, want a refusal with %q", c.message, err, c.want)
				}
			}
		}
	}},
	{"EveryStatusHasItsMeaning", func(t *testing.T, open func(*testing.T) lab) {
		l := open(t)
		swap := l.ref(t)
		for word, want := range l.Statuses() {
			l.SetStatus(word)
			for _, tx := range []chain.TxHash{"", payment} {
				got, err := l.Provider().Status(t.Context(), swap, tx)
				if err != nil || got.Status != want || got.Word != word || got.Provider != l.Provider().Name() ||
					got.Refund == "" || len(got.Raw) == 0 || got.UpdatedAt.IsZero() {
					t.Errorf("%s: got %+v and %v, want %s", word, got, err, want)
				}
			}
		}
		for _, word := range []string{"", "DONE", "success ", "refunding"} {
			l.SetStatus(word)
			if got, err := l.Provider().Status(t.Context(), swap, ""); !errors.Is(err, provider.ErrUnavailable) {
				t.Errorf("the status %q: got %+v and %v, want no report", word, got, err)
			}
		}
	}},
	{"ReportsAreNotMadeConsistent", func(t *testing.T, open func(*testing.T) lab) {
		l := open(t)
		swap := l.ref(t)
		words := slices.Sorted(maps.Keys(l.Statuses()))
		backwards := slices.Clone(words)
		slices.Reverse(backwards)
		for _, word := range slices.Concat(words, words, backwards, backwards) {
			l.SetStatus(word)
			got, err := l.Provider().Status(t.Context(), swap, payment)
			if err != nil || got.Word != word {
				t.Errorf("got %q and %v, want %q as it was reported", got.Word, err, word)
			}
		}
	}},
	{"AFaultIsUnavailable", func(t *testing.T, open func(*testing.T) lab) {
		for _, fault := range Faults {
			l := open(t)
			swap := l.ref(t)
			l.SetStatus(slices.Sorted(maps.Keys(l.Statuses()))[0])
			arrived := make(chan struct{}, 1)
			l.Break(fault, arrived)
			for name, call := range map[string]func(context.Context) error{
				"firm": func(ctx context.Context) error { _, err := l.Provider().Quote(ctx, l.Ask()); return err },
				"dry":  func(ctx context.Context) error { _, err := l.Provider().Quote(ctx, l.dryAsk()); return err },
				"status": func(ctx context.Context) error {
					_, err := l.Provider().Status(ctx, swap, payment)
					return err
				},
			} {
				ctx, cancel := context.WithCancel(t.Context())
				if fault == Hang {
					go func() {
						<-arrived
						cancel()
					}()
				}
				if err := call(ctx); !errors.Is(err, provider.ErrUnavailable) || errors.Is(err, provider.ErrUntrusted) {
					t.Errorf("%s, %s: got %v, want it unavailable", fault, name, err)
				}
				cancel()
			}
		}
	}},
	{"AnAssetIsKnownByItsToken", func(t *testing.T, open func(*testing.T) lab) {
		l := open(t)
		assets, err := l.Provider().Assets(t.Context())
		if err != nil || len(assets) < 2 {
			t.Fatalf("got %v and %v, want the assets", assets, err)
		}
		for _, a := range assets {
			if a.ID == "" || a.Chain == "" || a.Token != a.Canonical() || !a.Accepts && !a.Delivers {
				t.Errorf("got %+v, want an asset with its token", a)
			}
			if found, isFound := provider.FindAsset(assets, a.Token); !isFound || found != a {
				t.Errorf("got %+v for %s, want one asset for a token", found, a.Token)
			}
		}
	}},
	{"NothingIsSwappedForNothing", func(t *testing.T, open func(*testing.T) lab) {
		l := open(t)
		ask := l.Ask()
		ask.AmountIn = money.Units(0)
		if _, err := l.Provider().Quote(t.Context(), ask); err == nil {
			t.Error("got an offer for nothing")
		}
	}},
}
