package delivery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/webhook"
)

const userAgent = "Coffer-Webhooks/1"

// post makes one attempt. It never fails: what went wrong is the outcome.
func (d *Dispatcher) post(ctx context.Context, c claimed) (o outcome) {
	now := d.DB.Clock()().UTC().Truncate(time.Microsecond)
	o = outcome{claimed: c, at: now}
	started := time.Now()
	defer func() { o.took = time.Since(started) }()
	if c.until.Sub(now) < leaseLengthLeft {
		// This process stood still since it claimed: somebody else may be at it already.
		o.abandoned = true
		return o
	}

	key, err := d.secret(c)
	if err == nil {
		o.err = "the message could not be signed"
		var signature string
		if signature, err = webhook.Sign(c.eventID, now, c.body, key, d.Key); err == nil {
			o.err = ""
			return d.send(ctx, o, signature)
		}
	} else {
		o.err = "the endpoint's secret could not be opened"
	}
	d.Log.LogAttrs(ctx, slog.LevelError, o.err, slog.String("endpoint", c.endpoint), slog.Any("error", err))
	return o
}

func (d *Dispatcher) send(ctx context.Context, o outcome, signature string) outcome {
	attempt, cancel := context.WithTimeout(ctx, cmp.Or(d.answerIn, answerTimeout))
	defer cancel()
	r, err := http.NewRequestWithContext(attempt, http.MethodPost, o.url, bytes.NewReader(o.body))
	if err != nil {
		o.err = "the URL cannot be posted to"
		return o
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", userAgent)
	r.Header.Set(webhook.HeaderID, o.eventID)
	r.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(o.at.Unix(), 10))
	r.Header.Set(webhook.HeaderSignature, signature)
	r.Header.Set(webhook.HeaderAttempt, strconv.Itoa(o.attempts+1))

	answer, err := d.via.client().Do(r)
	if err != nil {
		// Cut off because the program stops: it may or may not have arrived.
		if o.abandoned = ctx.Err() != nil && errors.Is(err, context.Canceled); !o.abandoned {
			o.err = describe(err)
		}
		return o
	}
	defer answer.Body.Close()
	// The status decides. The body is read so far that a short one is seen whole and
	// its connection can be used again; that it breaks off changes nothing.
	body, _ := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	crash.Point("K03")
	o.status = answer.StatusCode
	o.response = text(body, keptBytesMax)
	o.asked = asked(answer.StatusCode, answer.Header, o.at)
	return o
}

type opened struct {
	sealed []byte
	key    webhook.Key
}

// secret opens the endpoint's present secret: the one that the claim read.
func (d *Dispatcher) secret(c claimed) (webhook.Key, error) {
	if known, ok := d.secrets.Load(c.endpoint); ok && bytes.Equal(known.(opened).sealed, c.sealed) {
		return known.(opened).key, nil
	}
	plain, err := d.Seal.Unseal(c.sealed, secretPlace(c.orgID, c.endpoint))
	if err != nil {
		return webhook.Key{}, err
	}
	key, err := webhook.ParseKey(string(plain))
	if err != nil {
		return webhook.Key{}, err
	}
	d.secrets.Store(c.endpoint, opened{c.sealed, key})
	return key, nil
}

// text is the beginning of what a receiver said, as PostgreSQL can keep it.
func text(b []byte, bytesMax int) string {
	if len(b) > bytesMax {
		b = b[:bytesMax]
		for len(b) > 0 && !utf8.RuneStart(b[len(b)-1]) {
			b = b[:len(b)-1]
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}
