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

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/webhook"
)

const userAgent = "Coffer-Webhooks/1"

// postDelivery makes one attempt. It returns no error: a failure is in the outcome. Rule EVT-2.
func (d *Dispatcher) postDelivery(ctx context.Context, c claimedDelivery) (o outcome) {
	now := d.DB.Clock()().UTC().Truncate(time.Microsecond)
	o = outcome{claimedDelivery: c, sentAt: now}
	started := time.Now()
	ctx, span := trace.StartAbout(ctx, "webhook post", c.eventID)
	defer func() {
		o.took = time.Since(started)
		span.SetAttribute("status", strconv.Itoa(o.status))
		span.End(nil)
		if d.Observe != nil && !o.abandoned {
			d.Observe(o.metricLabel())
		}
	}()
	if c.leasedUntil.Sub(now) < leaseRemainingMin {
		// This process was suspended since its claim; another process may already have the
		// delivery.
		o.abandoned = true
		return o
	}

	keys, err := d.openKeys(c.orgID, c.endpoint, c.secrets)
	o.err, o.ownFault = "cannot decrypt the endpoint's secret", true
	if err == nil {
		o.err = "cannot sign the message"
		var signature string
		if signature, err = webhook.Sign(c.eventID, now, c.body, keys...); err == nil {
			o.err, o.ownFault = "", false
			return d.sendRequest(ctx, o, signature)
		}
	}
	d.Log.LogAttrs(ctx, slog.LevelError, o.err, slog.String("endpoint", c.endpoint), slog.Any("error", err))
	return o
}

// metricLabel returns the result of a post in one word out of few.
func (o outcome) metricLabel() string {
	switch {
	case o.ownFault:
		return "ours"
	case o.status == 0:
		return o.cause
	case o.status >= 200 && o.status < 600:
		return strconv.Itoa(o.status/100) + "xx"
	}
	return "other"
}

func (d *Dispatcher) sendRequest(ctx context.Context, o outcome, signature string) outcome {
	attempt, cancel := context.WithTimeout(ctx, cmp.Or(d.answerMax, answerTimeout))
	defer cancel()
	r, err := http.NewRequestWithContext(attempt, http.MethodPost, o.url, bytes.NewReader(o.body))
	if err != nil {
		o.cause, o.err = "other", "cannot post to the URL"
		return o
	}
	for name, value := range attemptHeaders(o.eventID, o.sentAt, o.attempts+1) {
		r.Header.Set(name, value)
	}
	r.Header.Set(webhook.HeaderSignature, signature)

	answer, err := d.transport.NewClient().Do(r)
	if err != nil {
		// The program stops and cut the post off: it may or may not have arrived.
		if o.abandoned = ctx.Err() != nil && errors.Is(err, context.Canceled); !o.abandoned {
			o.cause, o.err = describeError(err)
		}
		return o
	}
	defer answer.Body.Close()
	// The status decides. The body is read only so far that a short one is complete and its
	// connection can be used again. A body that breaks off changes nothing.
	body, _ := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	failpoint.Hit("K03")
	o.status = answer.StatusCode
	o.response = truncateText(body, responseKeptBytesMax)
	o.retryAfter = parseRetryAfter(answer.StatusCode, answer.Header, o.sentAt)
	return o
}

// truncateText returns the beginning of a receiver's answer as PostgreSQL can store it.
func truncateText(b []byte, bytesMax int) string {
	if len(b) > bytesMax {
		b = b[:bytesMax]
		for range utf8.UTFMax - 1 { // the rest of a character that was cut
			if r, size := utf8.DecodeLastRune(b); r != utf8.RuneError || size != 1 {
				break
			}
			b = b[:len(b)-1]
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}
