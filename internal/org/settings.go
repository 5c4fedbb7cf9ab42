package org

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/foureyes"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/operator"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
)

// The bounds of settings.
const (
	ApprovalQuorumMax    = 10
	SwapFeeBpsMax        = 1000 // a tenth
	approvalAllowlistMax = 500
	swappableMintsMax    = 1000
)

// Severity is how bad a provider says that an address is; "" where a threshold is
// not set.
type Severity string

// Severities are the words of a threshold, the least first.
var Severities = []Severity{"NONE", "LOW", "MEDIUM", "HIGH", "SEVERE"}

// What holds where a threshold is not set.
const (
	screensNothing  Severity = ""     // no address is screened, which is looser than every word
	withdrawDefault Severity = "HIGH" // risk.WithdrawalThreshold
)

// ChargedCosts are the costs of a customer's withdrawals that the customer pays.
type ChargedCosts string

// What is charged, the most first.
const (
	ChargeRentAndFailures ChargedCosts = "RENT_AND_FAILURES" // the network fee of payments that failed because of their payee as well
	ChargeRent            ChargedCosts = "RENT"              // the rent of accounts that are made for payees
	ChargeNone            ChargedCosts = "NONE"
)

// charges are the words of chargeCustomerCosts, the most first.
var charges = []ChargedCosts{ChargeRentAndFailures, ChargeRent, ChargeNone}

// Allowed is an entry of the approval allowlist.
type Allowed struct {
	Email      string // as customer.FoldEmail makes it
	CustomerID string // only for this customer; "" for every one who has the e-mail
	Active     bool   // it counts
}

type allowedJSON struct {
	Email      string  `json:"email"`
	CustomerID *string `json:"customerId,omitempty"`
	Active     *bool   `json:"active"`
}

// MarshalJSON has the interface's names.
func (a Allowed) MarshalJSON() ([]byte, error) {
	out := allowedJSON{Email: a.Email, Active: &a.Active}
	if a.CustomerID != "" {
		out.CustomerID = &a.CustomerID
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes; an entry that does not say so is active.
func (a *Allowed) UnmarshalJSON(text []byte) error {
	var in allowedJSON
	if err := strictly(text, &in); err != nil {
		return err
	}
	*a = Allowed{Email: in.Email, Active: in.Active == nil || *in.Active}
	if in.CustomerID != nil {
		if *in.CustomerID == "" {
			return errors.New("an entry for a customer without an id")
		}
		a.CustomerID = *in.CustomerID
	}
	return nil
}

func compareAllowed(a, b Allowed) int {
	if c := strings.Compare(a.Email, b.Email); c != 0 {
		return c
	}
	return strings.Compare(a.CustomerID, b.CustomerID)
}

// Settings are what an organization has set.
type Settings struct {
	ScreeningSeverityThreshold   Severity   // deposits whose sender is above it are held; "": none is screened
	ScreeningUSDThreshold        *money.USD // deposits strictly above it are screened; nil: none is
	CustomerWithdrawUSDThreshold *money.USD // withdrawals strictly above it wait for approval; nil: none do for their value
	TwoFactorUSDThreshold        *money.USD // the organization's own withdrawals strictly above it wait for approval; nil: none do for their value
	WithdrawSeverityThreshold    Severity   // withdrawals to destinations above it are refused; "": HIGH is the threshold where this installation screens
	ApprovalAllowlist            []Allowed  // sorted; see Skips
	ApprovalQuorum               int        // approvals that a held withdrawal needs, 1 to ApprovalQuorumMax
	IPAllowlist                  []netip.Prefix
	CustomerSwapsEnabled         bool
	OrganizationSwapsEnabled     bool
	SwappableMintIDs             []int // sorted
	SwapFeeBps                   int
	FlaggedDepositAPIEnabled     bool // the organization's key may decide about held deposits
	AutoRestoreFailedSwaps       bool
	RequireWithdrawIdempotency   bool         // a withdrawal without a key is refused
	CustomerFeeDayUSD            *money.USD   // what one customer's withdrawals may cost the organization in 24 hours before further ones are held; nil: no limit
	ChargeCustomerCosts          ChargedCosts // which of those costs the customers pay; "" is NONE
	AdditionalAPIKeys            bool         // keys beside the main one work, and an earlier value of the main one in its overlap
	UpdatedAt                    time.Time
}

// Skips tells whether the approval allowlist has a customer: an active entry with
// the e-mail that this service knows of them, for that customer or for every one who
// has it. Whether that e-mail is old enough to be trusted is for the caller to know.
func (s Settings) Skips(customerID, email string) bool {
	if email == "" || !customer.PlainEmail(email) {
		return false
	}
	email = customer.FoldEmail(email)
	return slices.ContainsFunc(s.ApprovalAllowlist, func(a Allowed) bool {
		return a.Active && a.Email == email && (a.CustomerID == "" || a.CustomerID == customerID)
	})
}

// setting is one of an organization's settings under the interface's name: how it is
// shown and read as JSON, and whether a change of it loosens a control.
type setting struct {
	name    string
	show    func(Settings) any
	read    func(text json.RawMessage, into *Settings) error
	loosens func(was, to Settings) bool // nil: it controls nothing
}

// settings are in the order of the interface.
var settings = []setting{
	severity("screeningSeverityThreshold", func(s *Settings) *Severity { return &s.ScreeningSeverityThreshold }, screensNothing),
	dollars("screeningUsdThreshold", func(s *Settings) **money.USD { return &s.ScreeningUSDThreshold }),
	dollars("customerWithdrawUsdThreshold", func(s *Settings) **money.USD { return &s.CustomerWithdrawUSDThreshold }),
	dollars("twoFactorUsdThreshold", func(s *Settings) **money.USD { return &s.TwoFactorUSDThreshold }),
	// Unset, it is the default where this installation screens. Where it does not, a
	// threshold holds every withdrawal, and without one none is held.
	severity("withdrawSeverityThreshold", func(s *Settings) *Severity { return &s.WithdrawSeverityThreshold }, withdrawDefault, screensNothing),
	{
		"approvalAllowlist", func(s Settings) any { return orNone(s.ApprovalAllowlist) }, readAllowlist,
		func(was, to Settings) bool { return widens(was.ApprovalAllowlist, to.ApprovalAllowlist) },
	},
	{
		"approvalQuorum", func(s Settings) any { return s.ApprovalQuorum },
		func(text json.RawMessage, into *Settings) error {
			if err := number(text, &into.ApprovalQuorum, 1, ApprovalQuorumMax); err != nil {
				return refuse("approvalQuorum", "approvalQuorum is a whole number from 1 to %d.", ApprovalQuorumMax)
			}
			return nil
		},
		func(was, to Settings) bool { return to.ApprovalQuorum < was.ApprovalQuorum },
	},
	{
		"ipAllowlist", func(s Settings) any { return orNone(s.IPAllowlist) },
		func(text json.RawMessage, into *Settings) error {
			var list []string
			if err := array(text, &list); err != nil {
				return refuse("ipAllowlist", "ipAllowlist is a list of addresses and networks.")
			}
			var err error
			into.IPAllowlist, err = ParseIPAllowlist(list)
			return err
		},
		func(was, to Settings) bool { return letsMoreIn(was.IPAllowlist, to.IPAllowlist) },
	},
	flag("customerSwapsEnabled", func(s *Settings) *bool { return &s.CustomerSwapsEnabled }, nil),
	flag("organizationSwapsEnabled", func(s *Settings) *bool { return &s.OrganizationSwapsEnabled }, nil),
	{"swappableMintIds", func(s Settings) any { return orNone(s.SwappableMintIDs) }, readMints, nil},
	{
		"swapFeeBps", func(s Settings) any { return s.SwapFeeBps },
		func(text json.RawMessage, into *Settings) error {
			if err := number(text, &into.SwapFeeBps, 0, SwapFeeBpsMax); err != nil {
				return refuse("swapFeeBps", "swapFeeBps is a whole number of basis points from 0 to %d.", SwapFeeBpsMax)
			}
			return nil
		}, nil,
	},
	flag("flaggedDepositApiEnabled", func(s *Settings) *bool { return &s.FlaggedDepositAPIEnabled },
		func(was, to bool) bool { return to && !was }),
	flag("autoRestoreFailedSwaps", func(s *Settings) *bool { return &s.AutoRestoreFailedSwaps }, nil),
	flag("requireWithdrawIdempotency", func(s *Settings) *bool { return &s.RequireWithdrawIdempotency },
		func(was, to bool) bool { return was && !to }),
	dollars("customerFeeDayUsd", func(s *Settings) **money.USD { return &s.CustomerFeeDayUSD }),
	{
		"chargeCustomerCosts", func(s Settings) any { return cmp.Or(s.ChargeCustomerCosts, ChargeNone) },
		func(text json.RawMessage, into *Settings) error {
			var word *ChargedCosts
			if err := json.Unmarshal(text, &word); err != nil || word == nil || !slices.Contains(charges, *word) {
				return refuse("chargeCustomerCosts", "chargeCustomerCosts is one of NONE, RENT, RENT_AND_FAILURES.")
			}
			into.ChargeCustomerCosts = *word
			return nil
		},
		// What customers do not pay, they can have the organization pay.
		func(was, to Settings) bool {
			rank := func(s Settings) int { return slices.Index(charges, cmp.Or(s.ChargeCustomerCosts, ChargeNone)) }
			return rank(to) > rank(was)
		},
	},
	flag("additionalApiKeys", func(s *Settings) *bool { return &s.AdditionalAPIKeys },
		func(was, to bool) bool { return to && !was }),
}

// severity is a threshold in words. unset has the words that may hold while none is set.
// A change loosens the threshold if the word that holds rises under any of them: the
// words that hold are compared, not the words that are written.
func severity(name string, of func(*Settings) *Severity, unset ...Severity) setting {
	rank := func(word Severity) int {
		if word == screensNothing {
			return len(Severities)
		}
		return slices.Index(Severities, word)
	}
	return setting{
		name,
		func(s Settings) any {
			if *of(&s) == "" {
				return nil
			}
			return *of(&s)
		},
		func(text json.RawMessage, into *Settings) error {
			var word *Severity
			if err := json.Unmarshal(text, &word); err != nil || word != nil && !slices.Contains(Severities, *word) {
				return refuse(name, "%s is one of NONE, LOW, MEDIUM, HIGH, SEVERE, or null.", name)
			}
			*of(into) = ""
			if word != nil {
				*of(into) = *word
			}
			return nil
		},
		// What is above the threshold is held, so a higher one lets more through.
		func(was, to Settings) bool {
			return slices.ContainsFunc(unset, func(u Severity) bool { return rank(cmp.Or(*of(&to), u)) > rank(cmp.Or(*of(&was), u)) })
		},
	}
}

func dollars(name string, of func(*Settings) **money.USD) setting {
	return setting{
		name,
		func(s Settings) any {
			if *of(&s) == nil {
				return nil
			}
			return (*of(&s)).String()
		},
		func(text json.RawMessage, into *Settings) error {
			var word *string
			err := json.Unmarshal(text, &word)
			if err == nil && word == nil {
				*of(into) = nil
				return nil
			}
			var v money.USD
			if err == nil {
				v, err = money.ParseUSD(*word)
			}
			if err != nil {
				return refuse(name, `%s is an amount of dollars such as "10000.00", without sign or exponent and with at most 18 digits after the point, or null.`, name)
			}
			*of(into) = &v
			return nil
		},
		func(was, to Settings) bool {
			w, t := *of(&was), *of(&to)
			return w != nil && (t == nil || t.Cmp(*w) > 0)
		},
	}
}

func flag(name string, of func(*Settings) *bool, loosens func(was, to bool) bool) setting {
	out := setting{
		name: name,
		show: func(s Settings) any { return *of(&s) },
		read: func(text json.RawMessage, into *Settings) error {
			var v *bool
			if err := json.Unmarshal(text, &v); err != nil || v == nil {
				return refuse(name, "%s is true or false.", name)
			}
			*of(into) = *v
			return nil
		},
	}
	if loosens != nil {
		out.loosens = func(was, to Settings) bool { return loosens(*of(&was), *of(&to)) }
	}
	return out
}

// orNone shows a list without entries as one.
func orNone[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func refuse(name, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidRequest, format+" Nothing was written and no money moved. Correct it and send the request again.", args...).On(name)
}

// strictly reads one JSON value that has no member that into does not know.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// array reads a list: null is none, and no element of one is null.
func array[T any](text json.RawMessage, into *[]T) error {
	var raw []*T
	if err := strictly(text, &raw); err != nil {
		return err
	}
	if raw == nil {
		return errors.New("null is no list")
	}
	*into = make([]T, 0, len(raw))
	for _, v := range raw {
		if v == nil {
			return errors.New("null is no entry")
		}
		*into = append(*into, *v)
	}
	return nil
}

func number(text json.RawMessage, into *int, least, most int) error {
	var v *int
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	if v == nil || *v < least || *v > most {
		return errors.New("out of bounds")
	}
	*into = *v
	return nil
}

func readAllowlist(text json.RawMessage, into *Settings) error {
	const name = "approvalAllowlist"
	var list []Allowed
	if err := array(text, &list); err != nil {
		return refuse(name, `approvalAllowlist is a list of entries such as {"email": "ann@example.com", "customerId": "user_42", "active": true}, of which only email is needed.`)
	}
	if len(list) > approvalAllowlistMax {
		return refuse(name, "approvalAllowlist has at most %d entries.", approvalAllowlistMax)
	}
	for i, a := range list {
		if customer.CheckEmail(a.Email) != nil {
			return refuse(name, "Entry %d of approvalAllowlist has no e-mail address.", i+1)
		}
		if !customer.PlainEmail(a.Email) {
			return refuse(name, "Entry %d of approvalAllowlist has a character that looks like another one or is not shown, such as a full-width letter: write the address in plain letters.", i+1)
		}
		if a.CustomerID != "" && customer.CheckID(a.CustomerID) != nil {
			return refuse(name, "Entry %d of approvalAllowlist has a customerId that no customer can have.", i+1)
		}
		list[i].Email = customer.FoldEmail(a.Email)
	}
	slices.SortFunc(list, compareAllowed)
	for i := range list[:max(0, len(list)-1)] {
		// Which of the two would count is not to be guessed.
		if compareAllowed(list[i], list[i+1]) == 0 {
			return refuse(name, "approvalAllowlist has the same e-mail for the same customer twice.")
		}
	}
	into.ApprovalAllowlist = list
	return nil
}

// widens tells whether a list has an active entry that the one before did not have.
func widens(was, to []Allowed) bool {
	return slices.ContainsFunc(to, func(a Allowed) bool { return a.Active && !slices.Contains(was, a) })
}

func readMints(text json.RawMessage, into *Settings) error {
	const name = "swappableMintIds"
	var list []int
	if err := array(text, &list); err != nil || len(list) > swappableMintsMax {
		return refuse(name, "swappableMintIds is a list of at most %d ids of mints.", swappableMintsMax)
	}
	slices.Sort(list)
	into.SwappableMintIDs = slices.Compact(list)
	return nil
}

// letsMoreIn tells whether there is an address that a list has and the one before
// had not.
func letsMoreIn(was, to []netip.Prefix) bool {
	if len(was) == 0 {
		return false
	}
	return len(to) == 0 || slices.ContainsFunc(to, func(p netip.Prefix) bool {
		return !slices.ContainsFunc(was, func(w netip.Prefix) bool { return w.Bits() <= p.Bits() && w.Contains(p.Addr()) })
	})
}

// Member is a setting under the interface's name, with its value in JSON.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members are all settings in the order of the interface.
func (s Settings) Members() []Member {
	out := make([]Member, 0, len(settings))
	for _, one := range settings {
		text, err := json.Marshal(one.show(s))
		if err != nil {
			panic("org: a setting that cannot be written: " + err.Error())
		}
		out = append(out, Member{one.name, text})
	}
	return out
}

// Names are the names of all settings, in the order of the interface.
func Names() []string {
	out := make([]string, 0, len(settings))
	for _, one := range settings {
		out = append(out, one.name)
	}
	return out
}

// Changes are settings to write, all or none: by the interface's name the value
// that the interface takes, in JSON.
type Changes map[string]json.RawMessage

// apply reads the changes, all of them before anything is written. Errors:
// INVALID_REQUEST on the setting, UNKNOWN_FIELD.
func (c Changes) apply(s Settings) (Settings, error) {
	known := 0
	for _, one := range settings {
		text, given := c[one.name]
		if !given {
			continue
		}
		known++
		if err := one.read(text, &s); err != nil {
			return s, err
		}
	}
	if known == len(c) {
		return s, nil
	}
	names := Names()
	for name := range c {
		if !slices.Contains(names, name) {
			return s, fault.New(fault.Invalid, fault.UnknownField, "There is no setting %s. Nothing was changed and no money moved. There are %s.", name, strings.Join(names, ", ")).On(name)
		}
	}
	panic("impossible: every name is known and not all were read")
}

// Check refuses changes that cannot be read, before anything is looked up.
// Errors: INVALID_REQUEST on the setting, UNKNOWN_FIELD.
func (c Changes) Check() error {
	_, err := c.apply(Settings{})
	return err
}

// Difference is a setting whose value changes.
type Difference struct {
	Setting   string          `json:"setting"`
	From      json.RawMessage `json:"from"`
	To        json.RawMessage `json:"to"`
	Loosening bool            `json:"-"` // it takes away from a control
}

func differences(was, to Settings) (all []Difference) {
	before, after := was.Members(), to.Members()
	for i, one := range settings {
		if !bytes.Equal(before[i].Value, after[i].Value) {
			all = append(all, Difference{one.name, before[i].Value, after[i].Value, one.loosens != nil && one.loosens(was, to)})
		}
	}
	return all
}

const selectSettings = `
	SELECT screening_severity_threshold, screening_usd_threshold, customer_withdraw_usd_threshold, two_factor_usd_threshold,
		withdraw_severity_threshold, approval_allowlist, approval_quorum, ip_allowlist, customer_swaps_enabled, organization_swaps_enabled,
		swappable_mint_ids, swap_fee_bps, flagged_deposit_api_enabled, auto_restore_failed_swaps, require_withdraw_idempotency, customer_fee_day_usd, charge_customer_costs, additional_api_keys, updated_at
	FROM organization_settings WHERE org_id = $1`

// SettingsOf reads an organization's settings. Error: NOT_FOUND.
func SettingsOf(ctx context.Context, tx pg.Tx, org string) (Settings, error) {
	return read(ctx, tx, org, selectSettings)
}

func read(ctx context.Context, tx pg.Tx, org, sql string) (Settings, error) {
	var s Settings
	var screening, withdraw *Severity
	err := tx.QueryRow(ctx, sql, org).Scan(&screening, &s.ScreeningUSDThreshold, &s.CustomerWithdrawUSDThreshold, &s.TwoFactorUSDThreshold,
		&withdraw, &s.ApprovalAllowlist, &s.ApprovalQuorum, &s.IPAllowlist, &s.CustomerSwapsEnabled, &s.OrganizationSwapsEnabled,
		&s.SwappableMintIDs, &s.SwapFeeBps, &s.FlaggedDepositAPIEnabled, &s.AutoRestoreFailedSwaps, &s.RequireWithdrawIdempotency, &s.CustomerFeeDayUSD, &s.ChargeCustomerCosts, &s.AdditionalAPIKeys, &s.UpdatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, absent()
	}
	if err != nil {
		return s, fmt.Errorf("read the settings of %s: %w", org, err)
	}
	if screening != nil {
		s.ScreeningSeverityThreshold = *screening
	}
	if withdraw != nil {
		s.WithdrawSeverityThreshold = *withdraw
	}
	return s, nil
}

func gate(org string) string { return "settings of " + org }

// HoldSettings keeps an organization's settings as they are until the transaction ends,
// for whoever decides by them. It comes before any lock that a payment takes.
func HoldSettings(ctx context.Context, tx pg.Tx, org string) error {
	return pg.Share(ctx, tx, gate(org))
}

// Change writes settings in a transaction of the system, each that changes with its
// row in the audit log, and returns what then holds. It waits for whoever decides by
// the settings of before, and is seen by whoever decides later. It asks nobody else:
// see Ask. Errors: NOT_FOUND, INVALID_REQUEST on the setting, UNKNOWN_FIELD.
func Change(ctx context.Context, tx pg.Tx, by audit.Actor, org string, c Changes) (Settings, error) {
	was, to, err := plan(ctx, tx, org, c)
	if err != nil {
		return Settings{}, err
	}
	return write(ctx, tx, by, org, was, to, "")
}

// Outcome is what came of changes that were asked for.
type Outcome struct {
	Settings Settings
	Waits    *foureyes.Request // what waits for another operator; nil: nothing does
}

// Ask is Change by an operator, where a second one may have to agree: what loosens a
// control then waits in a request, and the rest is written at once. Errors: those of
// Change and of foureyes.Ask.
func Ask(ctx context.Context, tx pg.Tx, by operator.Key, rule foureyes.Rule, org string, c Changes) (out Outcome, err error) {
	was, to, err := plan(ctx, tx, org, c)
	if err != nil {
		return out, err
	}
	holds, err := rule.Holds(ctx, tx)
	if err != nil {
		return out, err
	}
	held, wanted := foureyes.Values{}, foureyes.Values{}
	now := Changes{}
	for _, d := range differences(was, to) {
		if holds && d.Loosening {
			held[d.Setting], wanted[d.Setting] = d.From, d.To
		} else {
			now[d.Setting] = d.To
		}
	}
	if len(wanted) > 0 {
		r, err := foureyes.Ask(ctx, tx, by, org, foureyes.Settings, held, wanted)
		if err != nil {
			return out, err
		}
		out.Waits = &r
		if to, err = now.apply(was); err != nil {
			return out, fmt.Errorf("read the settings of %s again: %w", org, err)
		}
	}
	out.Settings, err = write(ctx, tx, by.Actor(), org, was, to, "")
	return out, err
}

// Agree applies a request of settings to which another operator has agreed. Errors:
// INVALID_STATE when a setting is not any more what it was when the change was asked
// for: whoever agreed saw something else.
func Agree(by operator.Key) func(ctx context.Context, tx pg.Tx, r foureyes.Request) error {
	return func(ctx context.Context, tx pg.Tx, r foureyes.Request) error {
		was, to, err := plan(ctx, tx, r.OrgID, Changes(r.Wanted))
		if err != nil {
			return err
		}
		asked, err := Changes(r.Was).apply(was)
		if err != nil {
			return fmt.Errorf("read what held when %s was asked for: %w", r.ID, err)
		}
		if moved := differences(was, asked); len(moved) > 0 {
			return fault.New(fault.Conflict, fault.InvalidState,
				"%s was changed since this was asked for. Nothing was changed by this request. Whoever asked withdraws it, and asks again.", moved[0].Setting).On(moved[0].Setting)
		}
		_, err = write(ctx, tx, by.Actor(), r.OrgID, was, to, r.ID)
		return err
	}
}

// HistoryRow is a change of a setting, as the audit log has it.
type HistoryRow struct {
	Difference
	By            audit.Actor
	At            time.Time
	ChangeRequest string // chg_…, where somebody else had asked for it
}

// History is a page of the changes of an organization's settings. Error: NOT_FOUND.
func History(ctx context.Context, tx pg.Tx, org string, p page.Page) (out page.Result[HistoryRow], err error) {
	if _, err := ByID(ctx, tx, org); err != nil {
		return out, err
	}
	found, err := audit.List(ctx, tx, audit.Filter{OrgID: org, ResourceID: org, Action: SettingChanged}, p)
	if err != nil {
		return out, err
	}
	out.Next = found.Next
	for _, row := range found.Items {
		h := HistoryRow{By: row.Actor, At: row.At}
		var detail struct {
			Difference
			ChangeRequest string `json:"changeRequest"`
		}
		if err := json.Unmarshal(row.Detail, &detail); err != nil {
			return out, fmt.Errorf("read row %d of the audit log: %w", row.ID, err)
		}
		h.Difference, h.ChangeRequest = detail.Difference, detail.ChangeRequest
		out.Items = append(out.Items, h)
	}
	return out, nil
}

// plan holds an organization's settings and tells what they would become.
func plan(ctx context.Context, tx pg.Tx, org string, c Changes) (was, to Settings, err error) {
	if err = pg.Exclude(ctx, tx, gate(org)); err != nil {
		return was, to, err
	}
	if was, err = read(ctx, tx, org, selectSettings+" FOR UPDATE"); err != nil {
		return was, to, err
	}
	if to, err = c.apply(was); err != nil {
		return was, to, err
	}
	if _, given := c["swappableMintIds"]; given {
		var absent *int64
		err = tx.QueryRow(ctx, `SELECT min(i) FROM unnest($1::bigint[]) i WHERE NOT EXISTS (SELECT FROM mints m WHERE m.mint_id = i)`, to.SwappableMintIDs).Scan(&absent)
		if err != nil {
			return was, to, fmt.Errorf("look for the mints of %s: %w", org, err)
		}
		if absent != nil {
			return was, to, refuse("swappableMintIds", "There is no mint %d.", *absent)
		}
	}
	return was, to, nil
}

// write makes settings what they are to become. agreed is the change request that
// asked for it, or "".
func write(ctx context.Context, tx pg.Tx, by audit.Actor, org string, was, to Settings, agreed string) (Settings, error) {
	changes := differences(was, to)
	if len(changes) == 0 {
		return was, nil
	}
	allowlist, err := json.Marshal(to.ApprovalAllowlist)
	if err != nil {
		return Settings{}, fmt.Errorf("write the approval allowlist of %s: %w", org, err)
	}
	_, err = tx.Exec(ctx, `
		UPDATE organization_settings SET
			screening_severity_threshold = nullif($2, ''), screening_usd_threshold = $3, customer_withdraw_usd_threshold = $4, two_factor_usd_threshold = $5,
			withdraw_severity_threshold = nullif($6, ''), approval_allowlist = $7, approval_quorum = $8, ip_allowlist = $9, customer_swaps_enabled = $10,
			organization_swaps_enabled = $11, swappable_mint_ids = $12, swap_fee_bps = $13, flagged_deposit_api_enabled = $14,
			auto_restore_failed_swaps = $15, require_withdraw_idempotency = $16, updated_at = $17, customer_fee_day_usd = $18, charge_customer_costs = $19,
			additional_api_keys = $20
		WHERE org_id = $1`, org,
		to.ScreeningSeverityThreshold, to.ScreeningUSDThreshold, to.CustomerWithdrawUSDThreshold, to.TwoFactorUSDThreshold,
		to.WithdrawSeverityThreshold, string(allowlist), to.ApprovalQuorum, to.IPAllowlist, to.CustomerSwapsEnabled,
		to.OrganizationSwapsEnabled, to.SwappableMintIDs, to.SwapFeeBps, to.FlaggedDepositAPIEnabled,
		to.AutoRestoreFailedSwaps, to.RequireWithdrawIdempotency, tx.Now, to.CustomerFeeDayUSD, cmp.Or(to.ChargeCustomerCosts, ChargeNone), to.AdditionalAPIKeys)
	if err != nil {
		return Settings{}, fmt.Errorf("change the settings of %s: %w", org, err)
	}
	entries := make([]audit.Entry, 0, len(changes))
	for _, d := range changes {
		detail := map[string]any{"setting": d.Setting, "from": d.From, "to": d.To}
		if agreed != "" {
			detail["changeRequest"] = agreed
		}
		entries = append(entries, audit.Entry{OrgID: org, Actor: by, Action: SettingChanged, ResourceKind: "ORGANIZATION", ResourceID: org, Detail: detail})
	}
	if err := audit.Record(ctx, tx, entries...); err != nil {
		return Settings{}, err
	}
	to.UpdatedAt = tx.Now
	return to, nil
}

// SettingChanged is the action of the audit log under which every change of a
// setting stands: what it was, what it became, who changed it.
const SettingChanged = "settings.changed"

// SetWithdrawThreshold sets customerWithdrawUsdThreshold, nil for none, in a
// transaction of the system. Error: NOT_FOUND.
func SetWithdrawThreshold(ctx context.Context, tx pg.Tx, by audit.Actor, org string, threshold *money.USD) error {
	return set(ctx, tx, by, org, "customerWithdrawUsdThreshold", threshold)
}

// SetRequireWithdrawIdempotency sets requireWithdrawIdempotency, in a
// transaction of the system. Error: NOT_FOUND.
func SetRequireWithdrawIdempotency(ctx context.Context, tx pg.Tx, by audit.Actor, org string, required bool) error {
	return set(ctx, tx, by, org, "requireWithdrawIdempotency", required)
}

// SetIPAllowlist sets ipAllowlist, as ParseIPAllowlist reads it, in a transaction
// of the system. Every request that is let in after the commit is looked at by the
// new list. Error: NOT_FOUND.
func SetIPAllowlist(ctx context.Context, tx pg.Tx, by audit.Actor, org string, list []netip.Prefix) error {
	if list == nil {
		list = []netip.Prefix{}
	}
	return set(ctx, tx, by, org, "ipAllowlist", list)
}

func set(ctx context.Context, tx pg.Tx, by audit.Actor, org, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s of %s: %w", name, org, err)
	}
	_, err = Change(ctx, tx, by, org, Changes{name: text})
	return err
}

// Later are the settings that are kept and shown, and that this version does not act
// on yet, each with what is missing.
var Later = map[string]string{
	"customerSwapsEnabled":     "swaps",
	"organizationSwapsEnabled": "swaps",
	"swappableMintIds":         "swaps",
	"swapFeeBps":               "swaps",
	"autoRestoreFailedSwaps":   "swaps",
}
