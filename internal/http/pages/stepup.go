package pages

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity/signin"
)

// optionsSuffix makes the path of a form that of the options for a passkey.
const optionsSuffix = "/options"

// errStepUp says that an act needs a second factor of the last ten minutes and has none.
var errStepUp = errors.New("the act needs a second factor of the last ten minutes")

// proofError says that the second factor of a step-up was refused.
type proofError struct{ cause error }

func (e proofError) Error() string { return "step up: " + e.cause.Error() }
func (e proofError) Unwrap() error { return e.cause }

// needsFresh reports whether an act needs a second factor of the last ten minutes.
func (a Act) needsFresh() bool { return a.StepUp == SudoStepUp || a.StepUp == OwnStepUp }

// hasSecret reports whether the form of an act has a field that never comes back to the browser.
func (a Act) hasSecret() bool {
	return slices.ContainsFunc(a.Fields, func(f Field) bool { return f.Secret })
}

// confirm checks the second factor that an act needs. Rules PAGE-30 and SIGN-10.
func (s *server) confirm(r *Request, act Act, proof signin.Proof) error {
	switch {
	case act.StepUp == ActStepUp:
		return s.surface.ConfirmAct(r, act, proof)
	case !act.needsFresh():
		return nil
	case act.StepUp == SudoStepUp && r.Session.IsRestricted(r.Now):
		return signin.NewRestriction(r.Session.Account.RestrictedUntil)
	case r.Session.HasFreshFactor(r.Now):
		return nil
	case proof.Code.IsEmpty() && len(proof.Assertion) == 0:
		return errStepUp
	}
	stepped, err := s.surface.StepUp(r, proof)
	if err != nil {
		return proofError{err}
	}
	r.Session = &stepped
	return nil
}

// askFactor answers an act that needs a second factor: a page that asks for one and carries what the user
// typed to the act. What a form with a secret had is not carried: it would write the secret into a page.
// cause is why the factor before was refused; it may be nil. Rule PAGE-30.
func (s *server) askFactor(w http.ResponseWriter, r *Request, act Act, cause error) {
	status := http.StatusForbidden
	view := ui.StepUpView{
		Form: r.Form, Path: r.URL.EscapedPath(), BackPath: s.lookPath(r), Button: "Confirm and go on",
		Text: "It then counts for ten minutes.",
	}
	view.Form.Act, view.Form.Errors, view.Form.Refusal = ui.StepUpAct, map[string]string{}, nil
	if act.hasSecret() {
		view.Path, view.Button = s.surface.StepUpPath+"/"+ui.StepUpAct, "Confirm"
		view.Text = "Afterwards, fill in the form again. It has a secret, so what you typed was not kept."
		view.Hidden = []ui.Hidden{{Name: NextParameter.Name, Value: view.BackPath}}
	} else {
		for _, f := range act.Fields {
			value := r.Values[f.Name]
			switch {
			case f.HasBoxes:
				for _, entry := range r.ListTicked(f.Name) {
					view.Hidden = append(view.Hidden, ui.Hidden{Name: f.Name, Value: entry})
				}
			case value != "" || !f.Checkbox:
				view.Hidden = append(view.Hidden, ui.Hidden{Name: f.Name, Value: value})
			}
		}
		if r.key != "" {
			view.Hidden = append(view.Hidden, ui.Hidden{Name: ui.KeyName, Value: r.key})
		}
	}
	if cause != nil {
		var refusal ui.Refusal
		if refusal, status = s.describe(r, cause); signin.IsRefused(cause) {
			view.Form.Errors[ui.CodeName] = fieldError(fault.Find(cause))
		} else {
			refusal.LinkPath = ""
			view.Form.Refusal = &refusal
		}
	}
	s.render(w, r, status, "Confirm that it is you", ui.StepUpForm(view))
}

// handleOptions makes the options with which a passkey confirms an act.
func (s *server) handleOptions(p Page, act Act) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req := s.open(w, r, p)
		if req == nil {
			return
		}
		if !req.IsAllowed(act.Action) {
			s.refuseData(w, req, newRoleMissing(req.Session, act.Action))
			return
		}
		values, err := parseForm(w, r, act)
		if err != nil {
			s.refuseData(w, req, err)
			return
		}
		req.Values = map[string]string{}
		for _, f := range act.Fields {
			if entries := values[f.Name]; len(entries) == 1 && !f.Secret || f.HasBoxes {
				req.Values[f.Name] = strings.Join(entries, tickedSeparator)
			}
		}
		if act.Keyed {
			req.Values[ui.KeyName] = values.Get(ui.KeyName)
			if err := s.takeKey(req, act); err != nil {
				s.refuseData(w, req, err)
				return
			}
		}
		options, err := s.surface.PasskeyOptions(req, act)
		if err != nil {
			s.refuseData(w, req, err)
			return
		}
		writeData(w, http.StatusOK, json.RawMessage(options))
	}
}

// refusedData is the answer to a request of the script that was not done.
type refusedData struct {
	Message string `json:"message"`
	// StepUp is the page on which a second factor is shown first.
	StepUp string `json:"stepUp,omitempty"`
}

// refuseData refuses a request of the script.
func (s *server) refuseData(w http.ResponseWriter, r *Request, err error) {
	if signin.NeedsSudo(err) {
		form := strings.TrimSuffix(r.URL.EscapedPath(), optionsSuffix)
		writeData(w, http.StatusForbidden, refusedData{
			StepUp: s.stepUpPath(rootOr(form[:strings.LastIndexByte(form, '/')])),
		})
		return
	}
	refusal, status := s.describe(r, err)
	sentences := []string{refusal.Reason, refusal.NextStep}
	for _, name := range kernel.SortedKeys(r.Form.Errors) {
		sentences = append(sentences, r.Form.Errors[name])
	}
	writeData(w, status, refusedData{Message: strings.TrimSpace(strings.Join(sentences, " "))})
}

// stepUpPath returns the page that takes a second factor and leads back to a page.
func (s *server) stepUpPath(returnPath string) string {
	return s.surface.StepUpPath + "?" + url.Values{NextParameter.Name: {returnPath}}.Encode()
}

// writeData writes an answer for the script.
func writeData(w http.ResponseWriter, status int, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		panic("pages: cannot write an answer: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // The browser is gone.
}
