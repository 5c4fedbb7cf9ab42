package api

import (
	"context"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// OrganizationSettings are an organization's settings as they are in force. What
// this version cannot act on stands at what switches it off, and Unavailable
// names it.
type OrganizationSettings struct {
	OrganizationID string `json:"organizationId"`

	ScreeningSeverityThreshold   *string           `json:"screeningSeverityThreshold"`
	ScreeningUSDThreshold        *string           `json:"screeningUsdThreshold"`
	CustomerWithdrawUSDThreshold *string           `json:"customerWithdrawUsdThreshold"`
	TwoFactorUSDThreshold        *string           `json:"twoFactorUsdThreshold"`
	WithdrawSeverityThreshold    *string           `json:"withdrawSeverityThreshold"`
	ApprovalAllowlist            []ApprovalAllowed `json:"approvalAllowlist"`
	ApprovalQuorum               int               `json:"approvalQuorum"`
	IPAllowlist                  []string          `json:"ipAllowlist"`
	CustomerSwapsEnabled         bool              `json:"customerSwapsEnabled"`
	OrganizationSwapsEnabled     bool              `json:"organizationSwapsEnabled"`
	SwappableMintIDs             []int             `json:"swappableMintIds"`
	SwapFeeBps                   int               `json:"swapFeeBps"`
	FlaggedDepositAPIEnabled     bool              `json:"flaggedDepositApiEnabled"`
	AutoRestoreFailedSwaps       bool              `json:"autoRestoreFailedSwaps"`
	RequireWithdrawIdempotency   bool              `json:"requireWithdrawIdempotency"`

	Unavailable []string     `json:"unavailable"`
	UpdatedAt   webhook.Time `json:"updatedAt"`
}

// ApprovalAllowed is a customer whose withdrawals need no approval.
type ApprovalAllowed struct {
	Email      string  `json:"email"`
	CustomerID *string `json:"customerId,omitempty"`
	Active     bool    `json:"active,omitempty"`
}

// SettingsChange is the body of PATCH /organizations/{organizationId}/settings.
// What is not named stays. Only a threshold takes null, which switches it off.
type SettingsChange struct {
	ScreeningSeverityThreshold   *string           `json:"screeningSeverityThreshold,omitempty"`
	ScreeningUSDThreshold        *string           `json:"screeningUsdThreshold,omitempty"`
	CustomerWithdrawUSDThreshold *string           `json:"customerWithdrawUsdThreshold,omitempty"`
	TwoFactorUSDThreshold        *string           `json:"twoFactorUsdThreshold,omitempty"`
	WithdrawSeverityThreshold    *string           `json:"withdrawSeverityThreshold,omitempty"`
	ApprovalAllowlist            []ApprovalAllowed `json:"approvalAllowlist,omitempty"`
	ApprovalQuorum               int               `json:"approvalQuorum,omitempty"`
	IPAllowlist                  []string          `json:"ipAllowlist,omitempty"`
	CustomerSwapsEnabled         bool              `json:"customerSwapsEnabled,omitempty"`
	OrganizationSwapsEnabled     bool              `json:"organizationSwapsEnabled,omitempty"`
	SwappableMintIDs             []int             `json:"swappableMintIds,omitempty"`
	SwapFeeBps                   int               `json:"swapFeeBps,omitempty"`
	FlaggedDepositAPIEnabled     bool              `json:"flaggedDepositApiEnabled,omitempty"`
	AutoRestoreFailedSwaps       bool              `json:"autoRestoreFailedSwaps,omitempty"`
	RequireWithdrawIdempotency   bool              `json:"requireWithdrawIdempotency,omitempty"`
}

// quorumNow is how many approvals a held withdrawal needs today.
const quorumNow = 1

func showSettings(of string, s org.Settings, callers []netip.Prefix) OrganizationSettings {
	out := OrganizationSettings{
		OrganizationID: of, ApprovalAllowlist: []ApprovalAllowed{}, ApprovalQuorum: quorumNow, IPAllowlist: []string{}, SwappableMintIDs: []int{},
		RequireWithdrawIdempotency: s.RequireWithdrawIdempotency, Unavailable: sortedKeys(org.Later), UpdatedAt: webhook.At(s.UpdatedAt),
	}
	for _, p := range callers {
		out.IPAllowlist = append(out.IPAllowlist, p.String())
	}
	if s.CustomerWithdrawUSDThreshold != nil {
		out.CustomerWithdrawUSDThreshold = pointer(s.CustomerWithdrawUSDThreshold.String())
	}
	return out
}

// severities are the words of a threshold for risk.
var severities = []string{"NONE", "LOW", "MEDIUM", "HIGH", "SEVERE"}

// changes reads what is to be written. Forms are checked first, of everything;
// then what this version cannot act on is refused, unless it says what holds.
func (b SettingsChange) changes(given func(name string) bool) (out org.Changes, err error) {
	var threshold *money.USD
	refuse := func(name, what string) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, "%s is %s, or null."+untouched+" Correct it.", name, what).On(name)
	}
	for _, t := range []struct {
		name string
		text *string
		into **money.USD
	}{
		{"customerWithdrawUsdThreshold", b.CustomerWithdrawUSDThreshold, &threshold},
		{"screeningUsdThreshold", b.ScreeningUSDThreshold, new(*money.USD)},
		{"twoFactorUsdThreshold", b.TwoFactorUSDThreshold, new(*money.USD)},
	} {
		if t.text == nil {
			continue
		}
		v, err := money.ParseUSD(*t.text)
		if err != nil {
			return out, refuse(t.name, `an amount of dollars such as "10000.00", without sign or exponent and with at most 18 digits after the point`)
		}
		*t.into = &v
	}
	for _, t := range []struct {
		name string
		word *string
	}{{"screeningSeverityThreshold", b.ScreeningSeverityThreshold}, {"withdrawSeverityThreshold", b.WithdrawSeverityThreshold}} {
		if t.word != nil && !slices.Contains(severities, *t.word) {
			return out, refuse(t.name, "one of "+strings.Join(severities, ", "))
		}
	}
	callers, err := org.ParseIPAllowlist(b.IPAllowlist)
	if err != nil {
		return out, err
	}
	off := reflect.ValueOf(SettingsChange{ApprovalQuorum: quorumNow})
	is := reflect.ValueOf(b)
	for i := range is.NumField() {
		name, _, _ := strings.Cut(is.Type().Field(i).Tag.Get("json"), ",")
		if org.Later[name] == "" || !given(name) {
			continue
		}
		if v := is.Field(i); v.Kind() == reflect.Slice && v.Len() == 0 || v.Kind() != reflect.Slice && v.Equal(off.Field(i)) {
			continue
		}
		return out, org.NotYet(name)
	}
	if given("customerWithdrawUsdThreshold") {
		out.CustomerWithdrawUSDThreshold = &org.To[*money.USD]{Value: threshold}
	}
	if given("requireWithdrawIdempotency") {
		out.RequireWithdrawIdempotency = &org.To[bool]{Value: b.RequireWithdrawIdempotency}
	}
	if given("ipAllowlist") {
		out.IPAllowlist = &org.To[[]netip.Prefix]{Value: callers}
	}
	return out, nil
}

func (a *api) getSettings(c *call) (answer, error) {
	name, err := c.organization()
	if err != nil {
		return answer{}, err
	}
	var s org.Settings
	var callers []netip.Prefix
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if s, err = org.SettingsOf(ctx, tx, name); err == nil {
			callers, err = org.IPAllowlist(ctx, tx, name)
		}
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showSettings(name, s, callers)}, nil
}

func (a *api) changeSettings(c *call) (answer, error) {
	name, err := c.organization()
	if err != nil {
		return answer{}, err
	}
	var body SettingsChange
	if err := decode(c.body, &body); err != nil {
		return answer{}, err
	}
	wanted, err := body.changes(func(name string) bool { return given(c.body, name) })
	if err != nil {
		return answer{}, err
	}
	var s org.Settings
	var callers []netip.Prefix
	err = a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if s, err = org.Change(ctx, tx, c.who.Actor(), name, wanted); err == nil {
			callers, err = org.IPAllowlist(ctx, tx, name)
		}
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: showSettings(name, s, callers)}, nil
}

// plainText refuses what is too long or cannot be shown in a line.
func plainText(name, s string, bytesMax int) error {
	if len(s) > bytesMax || strings.ContainsFunc(s, unicode.IsControl) {
		return fault.New(fault.Invalid, fault.InvalidRequest, "%s has at most %d bytes and no control characters."+untouched+" Correct it.", name, bytesMax).On(name)
	}
	return nil
}
