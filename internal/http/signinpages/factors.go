package signinpages

import (
	"encoding/hex"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
)

// passkeyAct is the name of the act that a passkey's answer carries out.
const passkeyAct = "passkey"

// optionsSuffix makes the name of an act that of the act which gives the script the options for its passkey.
const optionsSuffix = "/options"

// newPasskeyField is the field into which the script writes what a new passkey answers.
var newPasskeyField = pages.Field{
	Name: "newPasskey", BytesMax: 32 << 10, Secret: true, Optional: true, Scripted: true,
}

// optionsAct gives the script the options for the passkey of the form of another act. Rule PAGE-34.
func (s *signInPages) optionsAct(name string, start func(*pages.Request) (signin.PasskeyOptions, error)) pages.Act {
	field := nextField
	field.Scripted = true // Not every form has it.
	return pages.Act{
		Name: name + optionsSuffix, Data: true, Fields: []pages.Field{field, zoneField},
		Run: func(r *pages.Request) (string, error) {
			options, err := start(r)
			if err != nil {
				return "", err
			}
			r.AnswerData(options)
			return "", nil
		},
	}
}

// stepUpOptions makes the options of a second factor that is bound to no act.
func (s *signInPages) stepUpOptions(r *pages.Request) (signin.PasskeyOptions, error) {
	if r.Session == nil {
		return nil, session.Refusal()
	}
	return s.service.StepUpOptions(r.Context(), *r.Session, signin.Act{})
}

// takeProof returns the second factor of a form, and refuses a form without one at its field.
func takeProof(r *pages.Request) (signin.Proof, error) {
	proof := r.TakeProof()
	if proof.Code.IsEmpty() && len(proof.Assertion) == 0 {
		return proof, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s",
			pages.CodeField.Missing).WithParam(ui.CodeName)
	}
	return proof, nil
}

// atField puts a refusal of a credential to the field that has it.
func atField(err error, field string) error {
	if signin.IsRefused(err) {
		return fault.Find(err).WithParam(field)
	}
	return err
}

// actOf names what a factor is shown for: the act, the thing in the path and the terms that were shown.
// A form that makes the thing has a key in place of the thing.
func actOf(r *pages.Request, act pages.Act) signin.Act {
	name := string(act.Action) + "." + act.Name
	if r.Key() != "" {
		return signin.Act{Action: name, Resource: r.Key(), Digest: r.TermsDigest()}
	}
	digest, err := hex.DecodeString(r.Values["digest"])
	if err != nil {
		digest = nil // The feature compares the text and refuses it.
	}
	return signin.Act{Action: name, Resource: r.ResourceID(), Digest: digest}
}

// confirmAct uses a second factor up for an act.
func (s *signInPages) confirmAct(r *pages.Request, act pages.Act, proof signin.Proof) error {
	_, err := s.service.ConfirmAct(r.Context(), s.client(r), *r.Session, actOf(r, act), proof)
	return atField(err, ui.CodeName)
}

// stepUp takes a second factor that counts for ten minutes.
func (s *signInPages) stepUp(r *pages.Request, proof signin.Proof) (session.Session, error) {
	result, err := s.service.StepUp(r.Context(), s.client(r), *r.Session, proof)
	if err != nil {
		return session.Session{}, err
	}
	s.keepTokens(r, result)
	return result.Session, nil
}

// passkeyOptions makes the options with which a passkey confirms an act.
func (s *signInPages) passkeyOptions(r *pages.Request, act pages.Act) (signin.PasskeyOptions, error) {
	if act.StepUp == pages.ActStepUp {
		return s.service.StepUpOptions(r.Context(), *r.Session, actOf(r, act))
	}
	return s.stepUpOptions(r)
}

// stepUpPage takes a second factor that counts for ten minutes, and leads back to a page.
func (s *signInPages) stepUpPage() pages.Page {
	return pages.Page{
		Path: stepUpPath, Title: "Confirm that it is you", Access: pages.SignedIn,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			nextPath := r.ReturnPath(nextOf(r))
			return ui.StepUpForm(ui.StepUpView{
				Form: r.Form, Path: s.path(stepUpPath) + "/" + ui.StepUpAct, BackPath: nextPath, Button: "Confirm",
				Hidden: []ui.Hidden{{Name: pages.NextParameter.Name, Value: nextPath}},
				Text:   "It then counts for ten minutes.",
			}), nil
		},
		Acts: []pages.Act{
			{
				Name: ui.StepUpAct, Fields: []pages.Field{pages.CodeField, pages.PasskeyField, nextField},
				Run: func(r *pages.Request) (string, error) {
					proof, err := takeProof(r)
					if err != nil {
						return "", err
					}
					if _, err := s.stepUp(r, proof); err != nil {
						return "", atField(err, ui.CodeName)
					}
					return r.ReturnPath(nextOf(r)), nil
				},
			},
			s.optionsAct(ui.StepUpAct, s.stepUpOptions),
		},
	}
}

// firstFactorPage sets up the factor without which no session opens: an authenticator app, or a passkey.
func (s *signInPages) firstFactorPage() pages.Page {
	return pages.Page{
		Path: authenticatorPath, Title: "Set up your second factor", Access: pages.Everyone,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			switch {
			case r.Session == nil || r.Session.State == session.AwaitingFactor:
				return pages.RedirectTo(s.path(signInPath)), nil
			case r.Session.IsOpen():
				return pages.RedirectTo(r.ReturnPath(nextOf(r))), nil
			}
			return s.firstFactorForm(r.Form, nextOf(r)), nil
		},
		Acts: []pages.Act{
			{Name: "start", Fields: []pages.Field{nextField}, Run: s.startTOTP},
			{
				Name: "confirm", Fields: []pages.Field{pages.CodeField, nextField},
				Run: func(r *pages.Request) (string, error) {
					return withNext(s.path(codesPath), r.ReturnPath(nextOf(r))), s.confirmTOTP(r)
				},
			},
			{
				Name: passkeyAct, Fields: []pages.Field{passkeyNameField, newPasskeyField, nextField},
				Run: func(r *pages.Request) (string, error) {
					return withNext(s.path(codesPath), r.ReturnPath(nextOf(r))), s.addPasskey(r)
				},
			},
			s.optionsAct(passkeyAct, s.enrolmentOptions),
		},
	}
}

// authenticatorPage switches the codes of an authenticator app on, in place of those of another one.
func (s *signInPages) authenticatorPage() pages.Page {
	return pages.Page{
		Path: ownAuthenticatorPath, Title: "Authenticator app", Access: pages.SignedIn,
		Load: func(r *pages.Request) (templ.Component, error) {
			return s.authenticatorForm(r.Form, r.Session.HasTOTP), nil
		},
		Acts: []pages.Act{
			{Name: "start", StepUp: pages.OwnStepUp, Run: s.startTOTP},
			{
				Name: "confirm", Fields: []pages.Field{pages.CodeField},
				Run: func(r *pages.Request) (string, error) {
					return s.path(securityPath), s.confirmTOTP(r)
				},
			},
		},
	}
}

// startTOTP makes a secret for an authenticator app, which is shown once.
func (s *signInPages) startTOTP(r *pages.Request) (string, error) {
	if r.Session == nil {
		return s.path(signInPath), nil
	}
	enrolment, err := s.service.StartTOTP(r.Context(), *r.Session)
	if err != nil {
		return "", err
	}
	picture, box, err := ui.EncodeQR(enrolment.URL.Reveal())
	if err != nil {
		return "", err
	}
	shown := secretView{
		Secret: enrolment.Secret.Reveal(), Picture: picture, Box: box, NextPath: nextOf(r),
		Path: s.path(authenticatorPath),
	}
	if r.Session.IsOpen() {
		shown.Path, shown.IsOpen = s.path(ownAuthenticatorPath), true
	}
	r.ShowOnce(s.authenticatorSecret(r.Form, shown))
	return "", nil
}

// secretView is what is shown once of a secret for an authenticator app.
type secretView struct {
	Secret, Picture, Box, NextPath string
	Path                           string // of the page with the form of its first code
	IsOpen                         bool   // the person is signed in
}

// confirmTOTP takes the first code of a secret.
func (s *signInPages) confirmTOTP(r *pages.Request) error {
	if r.Session == nil {
		return session.Refusal()
	}
	proof, err := takeProof(r)
	if err != nil {
		return err
	}
	result, err := s.service.ConfirmTOTP(r.Context(), s.client(r), *r.Session, proof.Code)
	if err != nil {
		return atField(err, ui.CodeName)
	}
	s.keepTokens(r, result)
	return nil
}

// passkeyNameField is the name of a new passkey.
var passkeyNameField = pages.Field{
	Name: "name", BytesMax: nameBytesMax, Missing: "Give the passkey a name, such as Laptop.",
}

// enrolmentOptions makes the options for a new passkey.
func (s *signInPages) enrolmentOptions(r *pages.Request) (signin.PasskeyOptions, error) {
	if r.Session == nil {
		return nil, session.Refusal()
	}
	return s.service.StartPasskeyEnrolment(r.Context(), *r.Session)
}

// addPasskey adds a new passkey to the account.
func (s *signInPages) addPasskey(r *pages.Request) error {
	if r.Session == nil {
		return session.Refusal()
	}
	answer := r.Values[newPasskeyField.Name]
	if answer == "" {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Your browser did not make a passkey.").WithAdvice("A passkey needs scripts. Allow them for this page.")
	}
	result, err := s.service.FinishPasskeyEnrolment(
		r.Context(), s.client(r), *r.Session, r.Values[passkeyNameField.Name], []byte(answer),
	)
	if err != nil {
		return err
	}
	s.keepTokens(r, result)
	return nil
}

// recoveryCodesPage makes recovery codes, which are shown once.
func (s *signInPages) recoveryCodesPage() pages.Page {
	return pages.Page{
		Path: codesPath, Title: "Recovery codes", Access: pages.SignedIn,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			factors, err := s.service.ListFactors(r.Context(), *r.Session)
			if err != nil {
				return nil, err
			}
			return s.recoveryCodesForm(r.Form, r.ReturnPath(nextOf(r)), factors.RecoveryCodesLeft), nil
		},
		Acts: []pages.Act{{
			Name: "make", Fields: []pages.Field{nextField}, StepUp: pages.OwnStepUp,
			Run: func(r *pages.Request) (string, error) {
				secrets, err := s.service.MakeRecoveryCodes(r.Context(), *r.Session)
				if err != nil {
					return "", err
				}
				codes := make([]string, 0, len(secrets))
				for _, secret := range secrets {
					codes = append(codes, secret.Reveal())
				}
				r.ShowOnce(s.recoveryCodes(codes, r.ReturnPath(nextOf(r))))
				return "", nil
			},
		}},
	}
}
