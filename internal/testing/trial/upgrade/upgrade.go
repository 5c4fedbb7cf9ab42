// Package upgrade replaces the program before the newest migration by this one, under load, as an
// operator would.
//
// The old program creates and fills the database. A crash leaves files in a test's folder; the
// processes end with it.
package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// SourcesBefore writes the sources before the newest migration into a folder, from the history
// around root. ok is false if there is no history.
func SourcesBefore(ctx context.Context, root, newest, folder string) (commit string, ok bool, err error) {
	git := func(args ...string) (string, error) {
		output, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(output)), err
	}
	// A merge with the migration counts as the commit that added it.
	came, err := git("log", "-1", "-m", "--first-parent", "--format=%H", "--diff-filter=A", "--", newest)
	if err != nil {
		return "", false, nil // no git, or no repository
	}
	parent := came + "^"
	if came == "" {
		parent = "HEAD" // not committed yet
	}
	if commit, err = git("rev-parse", "--verify", parent+"^{commit}"); err != nil {
		return "", false, nil // a shallow history
	}
	file := filepath.Join(folder, "sources.tar")
	if _, err := git("archive", "--output", file, commit); err != nil {
		return commit, true, fmt.Errorf("take the sources of %s: %w", commit, err)
	}
	if output, err := exec.CommandContext(ctx, "tar", "-xf", file, "-C", folder).CombinedOutput(); err != nil {
		return commit, true, fmt.Errorf("unpack the sources: %w\n%s", err, output)
	}
	return commit, true, nil
}

// Load calls the API without a pause until it is stopped. It repeats a call with the same key if
// there is no answer, or if the answer says that it was not done.
type Load struct {
	base, key string
	mint      int

	Accepted atomic.Int64 // transfers and withdrawals that were accepted
	mu       sync.Mutex
	wrong    []string // answers that no caller should see
	stop     chan struct{}
	ended    sync.WaitGroup
}

// StartLoad lets customers with money pay each other and pay out.
func StartLoad(ctx context.Context, base, key string, mint int, customers []string, recipient string) *Load {
	l := &Load{base: base, key: key, mint: mint, stop: make(chan struct{})}
	for i, customer := range customers {
		payee := customers[(i+1)%len(customers)]
		l.ended.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				case <-ctx.Done():
					return
				case <-time.After(30 * time.Millisecond):
				}
				id := fmt.Sprintf("%s-%d", customer, n)
				if n%40 == 0 {
					l.callUntilDone(ctx, http.MethodPost, "/withdraw", map[string]any{
						"mintId": mint, "customerId": customer, "amount": "20000", "toAddress": recipient,
						"idempotencyKey": id,
					}, http.StatusAccepted)
					continue
				}
				l.callUntilDone(ctx, http.MethodPost, "/transfers", map[string]any{
					"mintId": mint, "amount": "1", "idempotencyKey": id,
					"from": map[string]any{"customerId": customer}, "to": map[string]any{"customerId": payee},
				}, http.StatusCreated)
			}
		})
	}
	return l
}

// callUntilDone repeats a call until it is done.
func (l *Load) callUntilDone(ctx context.Context, method, path string, body any, want int) {
	for {
		status, text, err := CallAPI(ctx, method, l.base+path, l.key, body)
		switch {
		case err == nil && status == want:
			l.Accepted.Add(1)
			return
		case err == nil && status != http.StatusServiceUnavailable:
			l.mu.Lock()
			l.wrong = append(l.wrong, fmt.Sprintf("%s: %d %s", path, status, text))
			l.mu.Unlock()
			return
		}
		select {
		case <-l.stop:
			return
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop ends the load and returns the wrong answers.
func (l *Load) Stop() []string {
	close(l.stop)
	l.ended.Wait()
	return l.wrong
}

// CallAPI makes one call.
func CallAPI(ctx context.Context, method, url, key string, body any) (status int, text string, err error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return 0, "", err
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(payload))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("x-api-key", key)
	if method == http.MethodPost {
		req.Header.Set("content-type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}
