package browser

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// Authenticator is a virtual device with the passkeys of a tab. Its user touches it at once: while its screen
// lock confirms the user, a page that offers passkeys in its fields is answered as soon as it is there.
type Authenticator struct {
	page *Page
	id   webauthn.AuthenticatorID
}

// AddAuthenticator gives the tab a device with passkeys, whose screen lock confirms its user.
func (p *Page) AddAuthenticator() *Authenticator {
	p.t.Helper()
	a := &Authenticator{page: p}
	p.call(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, webauthn.Enable, webauthn.EnableParams{}); err != nil {
			return err
		}
		made, err := cdp.Call(ctx, t, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
			Options: &webauthn.VirtualAuthenticatorOptions{
				Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
				HasResidentKey: true, HasUserVerification: true, IsUserVerified: true,
				AutomaticPresenceSimulation: true,
			},
		})
		a.id = made.AuthenticatorID
		return err
	})
	return a
}

// SetVerified says whether the screen lock of the device confirms its user.
func (a *Authenticator) SetVerified(isVerified bool) {
	a.page.t.Helper()
	a.page.call(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{
			AuthenticatorID: a.id, IsUserVerified: isVerified,
		})
		return err
	})
}

// Remove takes the device away from the tab.
func (a *Authenticator) Remove() {
	a.page.t.Helper()
	a.page.call(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, webauthn.RemoveVirtualAuthenticator, webauthn.RemoveVirtualAuthenticatorParams{
			AuthenticatorID: a.id,
		})
		return err
	})
}

// SetTimeZone moves the tab into a time zone.
func (p *Page) SetTimeZone(zone string) {
	p.t.Helper()
	p.call(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
		return err
	})
}

// DisableScripts makes the tab one in which the user has switched scripts off. The tab runs no script of a
// page then; the test still looks at the page.
func (p *Page) DisableScripts() {
	p.t.Helper()
	p.call(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{
			Value: true,
		})
		return err
	})
}

// lookInterval is how often a test looks at a page that it waits for.
const lookInterval = 50 * time.Millisecond

// lookUntil looks at a page until an expression is true there.
func (p *Page) lookUntil(expression string) {
	p.t.Helper()
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !Evaluate[bool](p, expression) {
		select {
		case <-tick.C:
		case <-deadline.C:
			p.t.Fatalf("wait until %s; the page complained: %q", expression, p.ListComplaints())
		}
	}
}

func (p *Page) call(command func(context.Context, *chromedp.Target) error) {
	p.t.Helper()
	p.runActions(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		return chromedp.Void{}, command(ctx, t)
	})
}
