package payerpages

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Cases plays payers who pay as real ones do, each in another way. There is one in the local world alone, where no real
// money moves.
type Cases interface {
	// List returns the names of the cases; none before the world can play them.
	List() []string
	// Play plays a case with an option of a checkout, and returns when it can be seen what became of it. That may take
	// as long as the checkout is open. An error says why nothing was sent, or what was.
	Play(ctx context.Context, checkoutID string, mintID int, name string) error
}

const (
	casesPath = "/cases"
	caseName  = "case"

	// caseAnswerWait is how long a form waits for a refusal. The page shows everything else by itself.
	caseAnswerWait = 2 * time.Second
	caseTimeout    = 2 * time.Hour
	playersMax     = 20 // at the same time
)

// players are the cases that are being played, one of a checkout at a time.
type players struct {
	mu          sync.Mutex
	ofCheckouts map[string]bool
}

// enter begins a case of a checkout, if there is room for it.
func (p *players) enter(checkoutID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ofCheckouts[checkoutID] || len(p.ofCheckouts) >= playersMax {
		return false
	}
	if p.ofCheckouts == nil {
		p.ofCheckouts = map[string]bool{}
	}
	p.ofCheckouts[checkoutID] = true
	return true
}

func (p *players) leave(checkoutID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ofCheckouts, checkoutID)
}

// listCases returns the cases that a page offers.
func (s *server) listCases() []string {
	if s.conf.Cases == nil {
		return nil
	}
	return s.conf.Cases.List()
}

// playCase plays a payer. Rule CO-124.
func (s *server) playCase(r *request) error {
	if err := r.ParseForm(); err != nil {
		return errBadForm
	}
	name, mintID := r.PostForm.Get(caseName), readMint(r.PostForm.Get(mintName))
	if mintID == 0 || !slices.Contains(s.listCases(), name) {
		return errBadForm
	}
	view, err := s.conf.Checkouts.View(r.Context(), r.checkoutID)
	if err != nil {
		return err
	}
	if !s.players.enter(r.checkoutID) {
		s.writeCheckout(r, http.StatusConflict, view, mintID, r.language.text("cases.busy"))
		return nil
	}
	played := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), caseTimeout)
		defer cancel()
		err := s.conf.Cases.Play(ctx, r.checkoutID, mintID, name)
		if err != nil {
			s.conf.Log.LogAttrs(ctx, slog.LevelWarn, "a case was not played to its end", slog.String("case", name),
				slog.String("checkout", r.checkoutID), slog.Any("error", err))
		}
		s.players.leave(r.checkoutID) // before the answer, which may be followed by another case at once
		played <- err
	}()
	timer := time.NewTimer(caseAnswerWait)
	defer timer.Stop()
	select {
	case err = <-played:
	case <-timer.C:
	}
	if err != nil {
		// Who plays is the developer of the shop, and the text of the error says what to do.
		s.writeCheckout(r, http.StatusUnprocessableEntity, view, mintID,
			r.language.text("cases.failed", "reason", err.Error()))
		return nil
	}
	http.Redirect(r.w, r.Request, r.link("", mintName, strconv.Itoa(mintID)), http.StatusSeeOther)
	return nil
}

// caseText returns what a case is called.
func (p *checkoutPage) caseText(name string) string {
	if text := p.text("cases." + name); text != "" {
		return text
	}
	return name
}

// caseMint returns the mint with which a case is played: that of the panel, or the first one that is offered.
func (p *checkoutPage) caseMint() string {
	switch {
	case p.Chosen != nil:
		return strconv.Itoa(p.Chosen.MintID)
	case len(p.Offered) > 0:
		return strconv.Itoa(p.Offered[0].MintID)
	}
	return ""
}
