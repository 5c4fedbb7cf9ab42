// Package elliptic asks Elliptic about the exposure of an address.
//
// It follows the documentation and open clients, and is tested with hand-written answers; it was
// never tried against the live service. The clients differ in whether the time of a signature is in
// seconds or milliseconds, so that is a setting. The package never counts an answer without a
// score, or one that is still being processed, as a low one.
package elliptic

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/risk"
)

// URL is the address of the service.
const URL = "https://aml-api.elliptic.co"

// Name is the name of the provider in the API.
const Name = "ELLIPTIC"

const (
	path     = "/v2/wallet/synchronous"
	scoreMax = 10
)

// Thresholds are the scores, from 0 to 10 with a fraction, from which a severity applies. A score
// above 0 and below Medium is LOW.
type Thresholds struct{ Medium, High, Severe *big.Rat }

// DefaultThresholds are 2, 5 and 8.
var DefaultThresholds = Thresholds{big.NewRat(2, 1), big.NewRat(5, 1), big.NewRat(8, 1)}

// Validate refuses thresholds that are not in order.
func (c Thresholds) Validate() error {
	if c.Medium.Sign() <= 0 || c.Medium.Cmp(c.High) >= 0 || c.High.Cmp(c.Severe) >= 0 ||
		c.Severe.Cmp(big.NewRat(scoreMax, 1)) > 0 {
		return errors.New("medium, high and severe have to rise from above 0 to at most 10")
	}
	return nil
}

func (c Thresholds) severityOf(score *big.Rat) risk.Severity {
	switch {
	case score.Cmp(c.Severe) >= 0:
		return risk.Severe
	case score.Cmp(c.High) >= 0:
		return risk.High
	case score.Cmp(c.Medium) >= 0:
		return risk.Medium
	case score.Sign() > 0:
		return risk.Low
	}
	return risk.None
}

// Screener asks for the exposure of a wallet.
type Screener struct {
	Client     *httpjson.Client
	Key        seal.Secret
	Secret     seal.Secret // base64, as the vendor gives it
	Thresholds Thresholds
	// Milliseconds signs the time in milliseconds instead of seconds.
	Milliseconds bool
	Clock        func() time.Time // nil means the system's clock
}

// Name returns ELLIPTIC.
func (Screener) Name() string { return Name }

// Covers returns true for every chain: the service needs only the address.
func (Screener) Covers(ch chain.Name) bool { return ch.Family() != "" }

type walletSubject struct {
	Asset      string `json:"asset"`
	Blockchain string `json:"blockchain"`
	Type       string `json:"type"`
	Hash       string `json:"hash"`
}

type request struct {
	Subject   walletSubject `json:"subject"`
	Type      string        `json:"type"`
	Reference string        `json:"customer_reference"`
}

// answer has the documented members. A field of type jsontext.Value other than the score decides
// nothing.
type answer struct {
	Subject       *walletSubject  `json:"subject"`
	Score         jsontext.Value  `json:"risk_score"`
	ScoreDetail   jsontext.Value  `json:"risk_score_detail"`
	Clusters      []cluster       `json:"cluster_entities"`
	Evaluation    jsontext.Value  `json:"evaluation_detail"`
	Contributions jsontext.Value  `json:"contributions"`
	Process       *string         `json:"process_status"`
	ProcessID     jsontext.Value  `json:"process_status_id"`
	Workflow      jsontext.Value  `json:"workflow_status"`
	WorkflowID    jsontext.Value  `json:"workflow_status_id"`
	ScreeningID   *string         `json:"screening_id"`
	Reference     *string         `json:"customer_reference"`
	Type          jsontext.Value  `json:"type"`
	ID            jsontext.Value  `json:"id"`
	Customer      jsontext.Value  `json:"customer"`
	Blockchain    jsontext.Value  `json:"blockchain_info"`
	Tier          jsontext.Value  `json:"asset_tier"`
	Team          jsontext.Value  `json:"team_id"`
	CreatedAt     jsontext.Value  `json:"created_at"`
	UpdatedAt     jsontext.Value  `json:"updated_at"`
	AnalysedAt    jsontext.Value  `json:"analysed_at"`
	AnalysedBy    jsontext.Value  `json:"analysed_by"`
	Triggered     jsontext.Value  `json:"triggered_rules"`
	Behaviors     jsontext.Value  `json:"detected_behaviors"`
	Changes       jsontext.Value  `json:"changes"`
	Source        jsontext.Value  `json:"screening_source"`
	Error         *jsontext.Value `json:"error"`
}

type cluster struct {
	Name          *string        `json:"name"`
	Category      *string        `json:"category"`
	Primary       *bool          `json:"is_primary_entity"`
	VASP          *bool          `json:"is_vasp"`
	AfterSanction jsontext.Value `json:"is_after_sanction_date"`
}

// Screen asks about one address. An address that is on no chain yet, and one without a score, is
// UNKNOWN.
func (s Screener) Screen(ctx context.Context, subject risk.Subject) (risk.Verdict, error) {
	body, err := json.Marshal(request{
		walletSubject{"holistic", "holistic", "address", string(subject.Address)},
		"wallet_exposure",
		risk.CanonicalAddress(string(subject.Address)),
	})
	if err != nil {
		return risk.Verdict{}, risk.Unavailable("write the request: %w", err)
	}
	now := time.Now()
	if s.Clock != nil {
		now = s.Clock()
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	if s.Milliseconds {
		stamp = strconv.FormatInt(now.UnixMilli(), 10)
	}
	signature, err := s.signRequest(stamp, http.MethodPost, path, body)
	if err != nil {
		return risk.Verdict{}, err
	}
	got, err := s.Client.SendRequest(ctx, http.MethodPost, path, http.Header{
		"X-Access-Key": {s.Key.Reveal()}, "X-Access-Timestamp": {stamp}, "X-Access-Sign": {signature},
	}, body)
	if err != nil {
		return asUnavailable(err)
	}
	if got.HasStatus(http.StatusNotFound) {
		return risk.Verdict{Provider: Name, Severity: risk.Unknown, GivenAt: time.Now(), Raw: []byte(got.Body)}, nil
	}
	if !got.HasStatus(http.StatusOK) {
		return asUnavailable(got.UnexpectedStatus())
	}
	return s.decodeExposure(got, subject)
}

// signRequest signs exactly what is sent.
func (s Screener) signRequest(stamp, method, path string, body []byte) (string, error) {
	secret, err := base64.StdEncoding.DecodeString(s.Secret.Reveal())
	if err != nil || len(secret) == 0 {
		return "", risk.NotRetryable("the secret is not base64")
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(stamp + method + path))
	mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

func (s Screener) decodeExposure(got httpjson.Reply, subject risk.Subject) (risk.Verdict, error) {
	var a answer
	if err := got.Decode(&a); err != nil {
		return risk.Verdict{}, risk.Unavailable("%w", err)
	}
	wanted := risk.CanonicalAddress(string(subject.Address))
	switch {
	case a.Subject != nil && risk.CanonicalAddress(a.Subject.Hash) != wanted, a.Reference != nil &&
		*a.Reference != wanted:
		return risk.Verdict{}, risk.Unavailable("an answer about another address")
	case a.Process == nil || *a.Process != "complete":
		return risk.Verdict{}, risk.Unavailable("an incomplete answer")
	case a.Error != nil && a.Error.Kind() != 'n':
		return risk.Verdict{}, risk.Unavailable("an answer with an error")
	}
	v := risk.Verdict{Provider: Name, Severity: risk.Unknown, GivenAt: time.Now(), Raw: []byte(got.Body)}
	if a.ScreeningID != nil {
		v.Reference = *a.ScreeningID
	}
	for _, c := range a.Clusters {
		primary := c.Primary != nil && *c.Primary
		v.Direct = v.Direct || primary
		if c.Category != nil {
			v.Categories = append(v.Categories, *c.Category)
			if primary {
				v.OwnerCategories = append(v.OwnerCategories, *c.Category)
			}
		}
		if primary && c.VASP != nil && *c.VASP {
			v.NameVASP()
		}
		if c.Name != nil && (v.Entity == "" || primary) {
			v.Entity = *c.Name
		}
	}
	score, ok, err := a.readScore()
	if err != nil || !ok {
		return v, err
	}
	v.Severity, v.IsKnown = s.Thresholds.severityOf(score), true
	v.Score = scaleToHundred(score)
	return v, nil
}

// readScore reads the score; ok is false if the vendor has none, which it reports as null. It fails
// if the member is missing or is no score.
func (a answer) readScore() (score *big.Rat, ok bool, err error) {
	if len(a.Score) == 0 {
		return nil, false, risk.Unavailable("an answer without a score")
	}
	if a.Score.Kind() == 'n' {
		return nil, false, nil
	}
	var n httpjson.Number
	if err := n.UnmarshalJSON(a.Score); err != nil {
		return nil, false, risk.Unavailable("a score: %w", err)
	}
	score, err = n.Rat()
	if err != nil || score.Sign() < 0 || score.Cmp(big.NewRat(scoreMax, 1)) > 0 {
		return nil, false, risk.Unavailable("a score of %s", risk.SanitizeText(string(n)))
	}
	return score, true, nil
}

// scaleToHundred converts a score out of 10 to one out of 100, rounded up.
func scaleToHundred(score *big.Rat) *int {
	scaled := new(big.Rat).Mul(score, big.NewRat(10, 1))
	n := new(big.Int).Add(scaled.Num(), new(big.Int).Sub(scaled.Denom(), big.NewInt(1)))
	v := int(n.Div(n, scaled.Denom()).Int64())
	return &v
}

// asUnavailable converts an error to ErrUnavailable, marked as not retryable if the service refused
// the request.
func asUnavailable(err error) (risk.Verdict, error) {
	if httpjson.IsRefused(err) {
		return risk.Verdict{}, risk.NotRetryable("%w", err)
	}
	return risk.Verdict{}, fmt.Errorf("%w: %w", risk.ErrUnavailable, err)
}
