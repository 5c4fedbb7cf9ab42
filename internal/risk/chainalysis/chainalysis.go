// Package chainalysis asks Chainalysis about addresses: its paid address screening, and its free
// list of sanctioned addresses.
//
// It follows the documentation and is tested with hand-written answers; it was never tried against
// the live service. It never accepts as a verdict an answer about another address, of another type,
// or with an unknown level.
package chainalysis

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/risk"
)

// The URLs of the two services.
const (
	ScreeningURL = "https://api.chainalysis.com"
	SanctionsURL = "https://public.chainalysis.com"
)

// The names of the providers in the API.
const (
	ScreeningName = "CHAINALYSIS"
	SanctionsName = "CHAINALYSIS_SANCTIONS"
)

// Screening is the address screening: it registers an address, then asks for it.
type Screening struct {
	Client *httpjson.Client
	Key    seal.Secret
}

// Name returns CHAINALYSIS.
func (Screening) Name() string { return ScreeningName }

// Covers returns true for every chain: the service needs only the address.
func (Screening) Covers(ch chain.Name) bool { return ch.Family() != "" }

// entity is an answer, as documented. A field of type jsontext.Value is stored and decides nothing.
type entity struct {
	Address     *string          `json:"address"`
	Risk        *string          `json:"risk"`
	RiskReason  *string          `json:"riskReason"`
	Cluster     *cluster         `json:"cluster"`
	AddressType *string          `json:"addressType"`
	Identified  []identification `json:"addressIdentifications"`
	Exposures   []exposure       `json:"exposures"`
	Triggers    []trigger        `json:"triggers"`
	Status      *string          `json:"status"`
	Pool        *jsontext.Value  `json:"poolMetadata"`
}

type cluster struct {
	Name     *string `json:"name"`
	Category *string `json:"category"`
}

type identification struct {
	Name        *string `json:"name"`
	Category    *string `json:"category"`
	Description *string `json:"description"`
	URL         *string `json:"url"`
}

type exposure struct {
	Category *string         `json:"category"`
	Value    httpjson.Number `json:"value"`
}

type trigger struct {
	Category   *string         `json:"category"`
	Percentage httpjson.Number `json:"percentage"`
	Message    *string         `json:"message"`
	Rule       jsontext.Value  `json:"ruleTriggered"`
}

// levels are the documented levels, by the text of the answer.
var levels = map[string]risk.Severity{"Severe": risk.Severe, "High": risk.High, "Medium": risk.Medium, "Low": risk.Low}

// Screen registers the address and asks for it. An unknown address is UNKNOWN.
func (s Screening) Screen(ctx context.Context, subject risk.Subject) (risk.Verdict, error) {
	header := http.Header{"Token": {s.Key.Reveal()}}
	body, err := json.Marshal(map[string]string{"address": string(subject.Address)})
	if err != nil {
		return risk.Verdict{}, risk.Unavailable("write the request: %w", err)
	}
	const path = "/api/risk/v2/entities"
	registered, err := s.Client.SendRequest(ctx, http.MethodPost, path, header, body)
	if err != nil {
		return asUnavailable(err)
	}
	if !registered.HasStatus(http.StatusOK, http.StatusCreated) {
		return asUnavailable(registered.UnexpectedStatus())
	}
	got, err := s.Client.SendRequest(ctx, http.MethodGet, path+"/"+url.PathEscape(string(subject.Address)), header, nil)
	if err != nil {
		return asUnavailable(err)
	}
	v := risk.Verdict{Provider: ScreeningName, Severity: risk.Unknown, GivenAt: time.Now(), Raw: []byte(got.Body)}
	if got.HasStatus(http.StatusNotFound) {
		return v, nil
	}
	if !got.HasStatus(http.StatusOK) {
		return asUnavailable(got.UnexpectedStatus())
	}
	return decodeEntity(got, subject, v)
}

func decodeEntity(got httpjson.Reply, subject risk.Subject, v risk.Verdict) (risk.Verdict, error) {
	var e entity
	if err := got.Decode(&e); err != nil {
		return risk.Verdict{}, risk.Unavailable("%w", err)
	}
	switch {
	case e.Address == nil || risk.CanonicalAddress(*e.Address) != risk.CanonicalAddress(string(subject.Address)):
		return risk.Verdict{}, risk.Unavailable("an answer about another address")
	case e.Status != nil && *e.Status != "COMPLETE":
		return risk.Verdict{}, risk.Unavailable("status %s", risk.SanitizeText(*e.Status))
	case e.Risk == nil:
		return risk.Verdict{}, risk.Unavailable("an answer without a risk")
	}
	severity, ok := levels[*e.Risk]
	if !ok {
		return risk.Verdict{}, risk.Unavailable("a risk of %q", risk.SanitizeText(*e.Risk))
	}
	v.Severity, v.IsKnown, v.Direct = severity, true, len(e.Identified) > 0
	addCategory := func(category *string) {
		if category != nil {
			v.Categories = append(v.Categories, *category)
		}
	}
	addOwner := func(category *string) {
		if category != nil {
			v.OwnerCategories = append(v.OwnerCategories, *category)
		}
	}
	if e.Cluster != nil {
		addCategory(e.Cluster.Category)
		addOwner(e.Cluster.Category)
		if e.Cluster.Name != nil {
			v.Entity = *e.Cluster.Name
		}
	}
	for _, t := range e.Triggers {
		addCategory(t.Category)
	}
	for _, i := range e.Identified {
		addCategory(i.Category)
		addOwner(i.Category)
		if v.Entity == "" && i.Name != nil {
			v.Entity = *i.Name
		}
	}
	return v, nil
}

// Sanctions is the free list: an address is on it or not.
type Sanctions struct {
	Client *httpjson.Client
	Key    seal.Secret
}

// Name returns CHAINALYSIS_SANCTIONS.
func (Sanctions) Name() string { return SanctionsName }

// Covers returns true for every chain: the service needs only the address.
func (Sanctions) Covers(ch chain.Name) bool { return ch.Family() != "" }

// Screen asks for an address: SEVERE if it is on the list, otherwise NONE.
func (s Sanctions) Screen(ctx context.Context, subject risk.Subject) (risk.Verdict, error) {
	got, err := s.Client.SendRequest(ctx, http.MethodGet, "/api/v1/address/"+url.PathEscape(string(subject.Address)),
		http.Header{"X-Api-Key": {s.Key.Reveal()}}, nil)
	if err != nil {
		return asUnavailable(err)
	}
	if !got.HasStatus(http.StatusOK) {
		return asUnavailable(got.UnexpectedStatus())
	}
	return decodeSanctions(got)
}

func decodeSanctions(got httpjson.Reply) (risk.Verdict, error) {
	var answer struct {
		Identifications *[]identification `json:"identifications"`
	}
	if err := got.Decode(&answer); err != nil {
		return risk.Verdict{}, risk.Unavailable("%w", err)
	}
	if answer.Identifications == nil {
		return risk.Verdict{}, risk.Unavailable("an answer without identifications")
	}
	v := risk.Verdict{
		Provider: SanctionsName, Severity: risk.None, IsKnown: true, Direct: true, GivenAt: time.Now(),
		Raw: []byte(got.Body),
	}
	for _, i := range *answer.Identifications {
		v.Severity = risk.Severe
		if i.Category != nil {
			v.Categories = append(v.Categories, *i.Category)
		}
		if v.Entity == "" && i.Name != nil {
			v.Entity = *i.Name
		}
		if v.Reference == "" && i.URL != nil {
			v.Reference = *i.URL
		}
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
