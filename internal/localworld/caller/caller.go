// Package caller calls the API of a world under test as a patient client does. The service's
// process may be down at any moment, and the client may always send the same request with the same
// key again.
//
// The package never reads the database. A crash leaves no trace.
package caller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/cofferpay/coffer/webhook"
)

// pollInterval is the time between two checks of a condition. What a caller waits for takes blocks;
// more checks are mostly work for the service under test and its database.
const pollInterval = 200 * time.Millisecond

// Caller is a client with an organization's key.
type Caller struct {
	T    testing.TB
	Ctx  context.Context // its end ends all waiting
	Key  string
	Base func() string // current URL of the API, with /v1
	Log  func() string // text that is reported when the waiting ends; nil: none
}

// CallAPI calls until it gets a status below 500, and returns that status.
func (c Caller) CallAPI(method, path string, body, target any) int {
	c.T.Helper()
	payload, err := json.Marshal(body)
	if err != nil {
		c.T.Fatal(err)
	}
	for {
		status, err := c.CallOnce(method, path, payload, target)
		if err == nil && status < 500 {
			return status
		}
		c.WaitRetry(fmt.Errorf("%s %s: %d %w", method, path, status, err))
	}
}

// CallOnce calls once. With a nil target it ignores the body of the answer.
func (c Caller) CallOnce(method, path string, payload []byte, target any) (int, error) {
	req, err := http.NewRequestWithContext(c.Ctx, method, c.Base()+path, bytes.NewReader(payload))
	if err != nil {
		return 0, err
	}
	req.Header.Set("x-api-key", c.Key)
	if method == http.MethodPost {
		req.Header.Set("content-type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if target == nil {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, json.Unmarshal(b, target)
}

// WaitRetry waits before the next check of a condition. When Ctx ends, it fails the test with the
// last error.
func (c Caller) WaitRetry(last error) {
	c.T.Helper()
	select {
	case <-c.Ctx.Done():
		log := ""
		if c.Log != nil {
			log = "\n" + c.Log()
		}
		c.T.Fatalf("waited too long; last: %v%s", last, log)
	case <-time.After(pollInterval):
	}
}

// WaitCredited waits until a customer has one deposit that is credited, and, on request, swept.
func (c Caller) WaitCredited(customer string, swept bool) {
	c.T.Helper()
	for {
		var list struct{ Data []webhook.Deposit }
		c.CallAPI(http.MethodGet, "/deposits?customerId="+customer, nil, &list)
		if len(list.Data) == 1 && list.Data[0].Status == "CREDITED" && (!swept || list.Data[0].SweepTxHash != nil) {
			return
		}
		c.WaitRetry(fmt.Errorf("deposits of %s: %+v", customer, list.Data))
	}
}

// WaitCompleted waits until a withdrawal is completed.
func (c Caller) WaitCompleted(id string) {
	c.T.Helper()
	for {
		var w webhook.Withdrawal
		c.CallAPI(http.MethodGet, "/withdrawals/"+id, nil, &w)
		if w.Status == "COMPLETED" {
			return
		}
		c.WaitRetry(fmt.Errorf("withdrawal %s is %s", id, w.Status))
	}
}
