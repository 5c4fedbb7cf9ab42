package oracle

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/risk"
)

const lazarus = "0x098B716B8Aaf21512996dC57EB0615e2383E2f96"

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// nodes answer what a test sets; they are asked about one address.
type nodes []chain.CallResult

func (n nodes) Call(_ context.Context, to chain.Address, data []byte) ([]chain.CallResult, error) {
	if to != DefaultContract ||
		hex.EncodeToString(data) != "df592f7d000000000000000000000000098b716b8aaf21512996dc57eb0615e2383e2f96" {
		return nil, errors.New("another question")
	}
	if n == nil {
		return nil, errors.New("connection refused")
	}
	return n, nil
}

func word(last byte) []byte { return append(make([]byte, 31), last) }

func at(age time.Duration, data []byte) chain.CallResult {
	return chain.CallResult{At: chain.Block{Height: 7, Hash: "0x07", Time: noon.Add(-age)}, Data: data}
}

// Rule RISK-4.
func TestOnlyAWordThatIsYesOrNoIsAnAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes nodes
		want  risk.Severity // "": unavailable
	}{
		"no":                            {nodes{at(0, word(0))}, risk.None},
		"yes":                           {nodes{at(0, word(1))}, risk.Severe},
		"no and no":                     {nodes{at(0, word(0)), at(time.Minute, word(0))}, risk.None},
		"no and yes":                    {nodes{at(0, word(0)), at(time.Minute, word(1))}, risk.Severe},
		"yes, from a node behind":       {nodes{at(time.Hour, word(1))}, risk.Severe},
		"no, from a node behind":        {nodes{at(time.Hour, word(0))}, ""},
		"no, and no from a node behind": {nodes{at(0, word(0)), at(time.Hour, word(0))}, ""},
		"no, from the future":           {nodes{at(-time.Hour, word(0))}, ""},
		"no contract":                   {nodes{at(0, nil)}, ""},
		"no contract at one":            {nodes{at(0, word(0)), at(0, nil)}, ""},
		"two":                           {nodes{at(0, word(2))}, ""},
		"a number":                      {nodes{at(0, slices.Concat([]byte{1}, make([]byte, 31)))}, ""},
		"two words":                     {nodes{at(0, slices.Concat(word(0), word(0)))}, ""},
		"half a word":                   {nodes{at(0, make([]byte, 16))}, ""},
		"nobody":                        {nodes{}, ""},
		"an error":                      {nil, ""},
	} {
		s := Screener{Feeds: map[chain.Name]Feed{chain.Ethereum: {c.nodes, DefaultContract}}, Clock: func() time.Time {
			return noon
		}}
		v, err := s.Screen(t.Context(), risk.Subject{Chain: chain.Ethereum, Address: lazarus})
		if c.want == "" && !errors.Is(err, risk.ErrUnavailable) ||
			c.want != "" && (err != nil || v.Severity != c.want || !v.IsKnown) {
			t.Errorf("%s: got %+v %v, want %q", name, v, err, c.want)
		}
	}
	s := Screener{Feeds: map[chain.Name]Feed{chain.Ethereum: {nodes{at(0, word(0))}, DefaultContract}}}
	for ch, address := range map[chain.Name]chain.Address{
		chain.Base: lazarus, chain.Bitcoin: "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
		chain.Ethereum: "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
	} {
		if v, err := s.Screen(
			t.Context(), risk.Subject{Chain: ch, Address: address},
		); !errors.Is(err, risk.ErrUnavailable) {
			t.Errorf("%s on %s: got %+v %v, want unavailable", address, ch, v, err)
		}
	}
}
