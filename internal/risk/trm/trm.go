// Package trm asks TRM Labs about addresses: its paid screening, and its free list of sanctioned
// addresses.
//
// It follows the documentation and is tested with hand-written answers; it was never tried against
// the live service. It never accepts as a verdict an answer about another address or chain, or with
// an undocumented level.
package trm

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/risk"
)

// URL is the address of the service.
const URL = "https://api.trmlabs.com"

// The names of the providers in the API.
const (
	ScreeningName = "TRM"
	SanctionsName = "TRM_SANCTIONS"
)

// chains are the provider's names of the chains that it covers.
var chains = map[chain.Name]string{
	chain.Ethereum: "ethereum", chain.Base: "base", chain.Arbitrum: "arbitrum", chain.Optimism: "optimism",
	chain.Polygon: "polygon",
	chain.BSC:     "binance_smart_chain", chain.Avalanche: "avalanche_c_chain", chain.Solana: "solana",
	chain.Bitcoin: "bitcoin", chain.Tron: "tron",
}

const (
	levelMax   = 15
	percentAll = 100
)

// levels are the documented levels; 0 means unknown.
var levels = map[int]risk.Severity{15: risk.Severe, 10: risk.High, 5: risk.Medium, 1: risk.Low, 0: risk.Unknown}

// weightedSeverity returns the severity of a weighted level: that of the highest level it reaches,
// and LOW for any other level above 0.
func weightedSeverity(level int) risk.Severity {
	for _, l := range []int{15, 10, 5} {
		if level >= l {
			return levels[l]
		}
	}
	if level > 0 {
		return risk.Low
	}
	return risk.Unknown
}

// Screening is the screening of addresses.
type Screening struct {
	Client *httpjson.Client
	Key    seal.Secret
	// EmptyPassword sends the key as the user with an empty password; the documentation sends it as
	// both.
	EmptyPassword bool
	// CounterpartyPercent weighs the exposure to counterparties, relative to the address's own
	// rating; 100 counts all of it.
	CounterpartyPercent int
}

// Name returns TRM.
func (Screening) Name() string { return ScreeningName }

// Covers reports whether the provider has a name for the chain.
func (Screening) Covers(ch chain.Name) bool { return chains[ch] != "" }

type screeningRequest struct {
	Address string `json:"address"`
	Chain   string `json:"chain,omitempty"`
}

type answer struct {
	External   *string      `json:"accountExternalId"`
	Address    *string      `json:"address"`
	Submitted  *string      `json:"addressSubmitted"`
	Chain      *string      `json:"chain"`
	Indicators *[]indicator `json:"addressRiskIndicators"`
	Entities   *[]entity    `json:"entities"`
	URL        *string      `json:"trmAppUrl"`
}

type indicator struct {
	Category   *string          `json:"category"`
	CategoryID *jsontext.Value  `json:"categoryId"`
	Level      *httpjson.Number `json:"categoryRiskScoreLevel"`
	Label      *string          `json:"categoryRiskScoreLevelLabel"`
	Incoming   *string          `json:"incomingVolumeUsd"`
	Outgoing   *string          `json:"outgoingVolumeUsd"`
	Total      *string          `json:"totalVolumeUsd"`
	Type       *string          `json:"riskType"`
}

type entity struct {
	Category   *string          `json:"category"`
	CategoryID *jsontext.Value  `json:"categoryId"`
	Entity     *string          `json:"entity"`
	Level      *httpjson.Number `json:"riskScoreLevel"`
	Label      *string          `json:"riskScoreLevelLabel"`
	URL        *string          `json:"trmAppUrl"`
	URN        *string          `json:"trmUrn"`
}

// Screen asks about one address.
func (s Screening) Screen(ctx context.Context, subject risk.Subject) (risk.Verdict, error) {
	name, ok := chains[subject.Chain]
	if !ok {
		return risk.Verdict{}, risk.NotRetryable("it does not support %s", risk.SanitizeText(string(subject.Chain)))
	}
	body, err := json.Marshal([]screeningRequest{{string(subject.Address), name}})
	if err != nil {
		return risk.Verdict{}, risk.Unavailable("write the request: %w", err)
	}
	login := s.Key.Reveal() + ":"
	if !s.EmptyPassword {
		login += s.Key.Reveal()
	}
	got, err := s.Client.SendRequest(ctx, http.MethodPost, "/public/v2/screening/addresses",
		http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(login))}}, body)
	if err != nil {
		return asUnavailable(err)
	}
	if !got.HasStatus(http.StatusOK, http.StatusCreated) {
		return asUnavailable(got.UnexpectedStatus())
	}
	return s.decodeScreening(got, subject)
}

func (s Screening) decodeScreening(got httpjson.Reply, subject risk.Subject) (risk.Verdict, error) {
	var answers []answer
	if err := got.Decode(&answers); err != nil {
		return risk.Verdict{}, risk.Unavailable("%w", err)
	}
	if len(answers) != 1 {
		return risk.Verdict{}, risk.Unavailable("%d answers about one address", len(answers))
	}
	a, wanted := answers[0], risk.CanonicalAddress(string(subject.Address))
	switch {
	case a.Address == nil || risk.CanonicalAddress(*a.Address) != wanted, a.Submitted != nil &&
		risk.CanonicalAddress(*a.Submitted) != wanted:
		return risk.Verdict{}, risk.Unavailable("an answer about another address")
	case a.Chain == nil || *a.Chain != chains[subject.Chain]:
		return risk.Verdict{}, risk.Unavailable("an answer about another chain")
	case a.Indicators == nil || a.Entities == nil:
		return risk.Verdict{}, risk.Unavailable("an answer without indicators or entities")
	}
	// An address without indicators is an answer; a level of 0 means that there is none.
	v := risk.Verdict{
		Provider: ScreeningName, Severity: risk.None, IsKnown: true, GivenAt: time.Now(), Raw: []byte(got.Body),
	}
	highest, named := 0, -1
	if a.URL != nil {
		v.Reference = *a.URL
	}
	addLevel := func(n *httpjson.Number, percent int, isOwner bool) (level int, err error) {
		if n == nil {
			return 0, risk.Unavailable("an answer without a level")
		}
		level, err = n.Int()
		if err != nil {
			return 0, risk.Unavailable("a level: %w", err)
		}
		if _, ok := levels[level]; !ok {
			return 0, risk.Unavailable("a level of %d", level)
		}
		if level == 0 {
			v.IsKnown = false
			return 0, nil
		}
		// Rounded up, because a small weight is not zero.
		level = (level*percent + percentAll - 1) / percentAll
		if level > highest {
			highest, v.Direct = level, isOwner
		}
		return level, nil
	}
	for _, i := range *a.Indicators {
		percent, isOwner := percentAll, true
		switch {
		case i.Type != nil && *i.Type == "COUNTERPARTY":
			percent, isOwner = s.CounterpartyPercent, false
		case i.Type == nil || *i.Type != "OWNERSHIP":
			return risk.Verdict{}, risk.Unavailable("an indicator that is neither ownership nor counterparty")
		}
		if _, err := addLevel(i.Level, percent, isOwner); err != nil {
			return risk.Verdict{}, err
		}
		if i.Category != nil {
			v.Categories = append(v.Categories, *i.Category)
			if isOwner {
				v.OwnerCategories = append(v.OwnerCategories, *i.Category)
			}
		}
	}
	for _, e := range *a.Entities {
		level, err := addLevel(e.Level, percentAll, true)
		if err != nil {
			return risk.Verdict{}, err
		}
		if e.Category != nil {
			v.Categories, v.OwnerCategories = append(v.Categories, *e.Category), append(v.OwnerCategories, *e.Category)
		}
		if level > named && e.Entity != nil {
			named, v.Entity = level, *e.Entity
		}
	}
	switch {
	case highest > 0:
		score := min(highest*100/levelMax, 100)
		v.Severity, v.Score = weightedSeverity(highest), &score
	case !v.IsKnown:
		v.Severity = risk.Unknown
	}
	return v, nil
}

// Sanctions is the free list: an address is on it or not.
type Sanctions struct {
	Client *httpjson.Client
	Key    seal.Secret // may be empty; the service then answers a hundred times a day
}

// Name returns TRM_SANCTIONS.
func (Sanctions) Name() string { return SanctionsName }

// Covers returns true for every chain: the service needs only the address.
func (Sanctions) Covers(ch chain.Name) bool { return ch.Family() != "" }

// Screen asks for an address: SEVERE if it is on the list, otherwise NONE.
func (s Sanctions) Screen(ctx context.Context, subject risk.Subject) (risk.Verdict, error) {
	body, err := json.Marshal([]screeningRequest{{Address: string(subject.Address)}})
	if err != nil {
		return risk.Verdict{}, risk.Unavailable("write the request: %w", err)
	}
	header := http.Header{}
	if key := s.Key.Reveal(); key != "" {
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(key+":"+key)))
	}
	got, err := s.Client.SendRequest(ctx, http.MethodPost, "/public/v1/sanctions/screening", header, body)
	if err != nil {
		return asUnavailable(err)
	}
	if !got.HasStatus(http.StatusOK, http.StatusCreated) {
		return asUnavailable(got.UnexpectedStatus())
	}
	return decodeSanctions(got, subject)
}

func decodeSanctions(got httpjson.Reply, subject risk.Subject) (risk.Verdict, error) {
	var answers []struct {
		Address    *string `json:"address"`
		Sanctioned *bool   `json:"isSanctioned"`
	}
	if err := got.Decode(&answers); err != nil {
		return risk.Verdict{}, risk.Unavailable("%w", err)
	}
	switch {
	case len(answers) != 1:
		return risk.Verdict{}, risk.Unavailable("%d answers about one address", len(answers))
	case answers[0].Address == nil || risk.CanonicalAddress(*answers[0].Address) != risk.CanonicalAddress(
		string(subject.Address),
	):
		return risk.Verdict{}, risk.Unavailable("an answer about another address")
	case answers[0].Sanctioned == nil:
		return risk.Verdict{}, risk.Unavailable("an answer that does not say whether it is sanctioned")
	}
	v := risk.Verdict{
		Provider: SanctionsName, Severity: risk.None, IsKnown: true, Direct: true, GivenAt: time.Now(),
		Raw: []byte(got.Body),
	}
	if *answers[0].Sanctioned {
		v.Severity, v.Categories = risk.Severe, []string{"SANCTIONS"}
	}
	return v, nil
}

// asUnavailable converts an error to ErrUnavailable, marked as not retryable if the service refused
// the request.
func asUnavailable(err error) (risk.Verdict, error) {
	if httpjson.IsRefused(err) {
		return risk.Verdict{}, risk.NotRetryable("%w", err)
	}
	return risk.Verdict{}, fmt.Errorf("%w: %w", risk.ErrUnavailable, err)
}
