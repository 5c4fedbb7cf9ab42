package risk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// AnswerStore stores the providers' answers with their original text, sealed. Only the sealed part
// counts. A party that can write the database can therefore not invent an answer, change one, or
// give an old one a new date. Rule RISK-9.
type AnswerStore struct {
	DB   *pg.DB
	Seal *seal.Keyset
}

// sealedAnswer is the sealed part of a row.
type sealedAnswer struct {
	Subject Subject         `json:"subject"`
	Verdict Verdict         `json:"verdict"`
	Raw     json.RawMessage `json:"raw"`
}

const (
	answerPrefix = "ans"
	rawBytesMax  = 512 << 10
	clockSkewMax = time.Minute // of another process that stores answers
)

func answerBinding(answerID string) seal.Binding {
	return seal.Binding{Kind: "risk_answer", ID: answerID}
}

// storeAnswer writes an answer and sets its id.
func (a *AnswerStore) storeAnswer(ctx context.Context, s Subject, v *Verdict) error {
	raw := v.Raw
	if !json.Valid(raw) { // text that is not JSON is stored as a string
		raw, _ = json.Marshal(string(raw)) // never fails on a string
	}
	if len(raw) > rawBytesMax {
		return fmt.Errorf("store an answer of %s: %d bytes are more than %d", v.Provider, len(raw), rawBytesMax)
	}
	return a.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		v.AnswerID = id.New(answerPrefix, tx.Now)
		text, err := json.Marshal(sealedAnswer{s, *v, raw})
		if err != nil {
			return fmt.Errorf("store an answer of %s: %w", v.Provider, err)
		}
		sealed, err := a.Seal.Seal(text, answerBinding(v.AnswerID))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx,
			`INSERT INTO risk_answers (answer_id, provider, chain, address, given_at, sealed, kept_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			v.AnswerID, v.Provider, string(s.Chain), CanonicalAddress(string(s.Address)), v.GivenAt, sealed, tx.Now)
		if err != nil {
			return fmt.Errorf("store an answer of %s: %w", v.Provider, err)
		}
		return nil
	})
}

// findLatest returns a provider's newest answer about an address that was given after a moment. It
// is the complete original answer, its time included.
func (a *AnswerStore) findLatest(
	ctx context.Context, provider string, s Subject, oldest time.Time,
) (v Verdict, ok bool, err error) {
	var answerID string
	var sealed []byte
	err = a.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT answer_id, sealed FROM risk_answers WHERE provider = $1 AND chain = $2 AND address = $3 AND given_at > $4
			ORDER BY given_at DESC, answer_id DESC LIMIT 1`,
			provider, string(s.Chain), CanonicalAddress(string(s.Address)), oldest).Scan(&answerID, &sealed)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return v, false, nil
	}
	if err != nil {
		return v, false, fmt.Errorf("look for a stored answer of %s: %w", provider, err)
	}
	stored, err := a.unsealAnswer(answerID, sealed)
	if err != nil {
		return v, false, err
	}
	v = stored.Verdict
	if v.Provider != provider || stored.Subject.Chain != s.Chain ||
		CanonicalAddress(string(stored.Subject.Address)) != CanonicalAddress(string(s.Address)) {
		return Verdict{}, false, fmt.Errorf("answer %s is of another address", answerID)
	}
	if !v.GivenAt.After(oldest) || v.GivenAt.After(oldest.Add(answerAgeMax)) {
		return Verdict{}, false, fmt.Errorf("answer %s is of another time", answerID)
	}
	if err := v.validate(); err != nil {
		return Verdict{}, false, fmt.Errorf("answer %s: %w", answerID, err)
	}
	v.Cached, v.Latency = true, 0
	return v, true, nil
}

// answerAgeMax bounds how long any answer may be reused, and how far in the future its time may be.
const answerAgeMax = 30*24*time.Hour + clockSkewMax

func (a *AnswerStore) unsealAnswer(answerID string, sealed []byte) (stored sealedAnswer, err error) {
	text, err := a.Seal.Unseal(sealed, answerBinding(answerID))
	if err != nil {
		return stored, err
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		return stored, fmt.Errorf("read answer %s: %w", answerID, err)
	}
	stored.Verdict.AnswerID = answerID
	return stored, nil
}

// LoadRaw returns a provider's original text of a stored answer. Error: pgx.ErrNoRows if there is
// none.
func (a *AnswerStore) LoadRaw(ctx context.Context, answerID string) (json.RawMessage, error) {
	var sealed []byte
	err := a.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT sealed FROM risk_answers WHERE answer_id = $1`, answerID).Scan(&sealed)
	})
	if err != nil {
		return nil, fmt.Errorf("read answer %s: %w", answerID, err)
	}
	stored, err := a.unsealAnswer(answerID, sealed)
	return stored.Raw, err
}
