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

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// The limits of settings.
const (
	ApprovalQuorumMax    = 10
	SwapFeeBpsMax        = 1000 // a tenth
	approvalAllowlistMax = 500
	swappableMintsMax    = 1000
)

// Severity is a provider's rating of an address; "" where a threshold is not set.
type Severity string

// Severities lists the values of a threshold, the lowest first.
var Severities = []Severity{"NONE", "LOW", "MEDIUM", "HIGH", "SEVERE"}

// The severities that apply where a threshold is not set.
const (
	noScreening     Severity = ""     // no address is screened, which is looser than every value
	withdrawDefault Severity = "HIGH" // risk.WithdrawalThreshold
)

// ChargedCosts names the costs of a customer's withdrawals that the customer pays.
type ChargedCosts string

// The values of ChargedCosts, the most costs first.
const (
	// Also the network fee of payments that failed because of their payee.
	ChargeRentAndFailures ChargedCosts = "RENT_AND_FAILURES"
	ChargeRent            ChargedCosts = "RENT" // the rent of accounts created for payees
	ChargeNone            ChargedCosts = "NONE"
)

// chargedCosts lists the values of chargeCustomerCosts, the most costs first.
var chargedCosts = []ChargedCosts{ChargeRentAndFailures, ChargeRent, ChargeNone}

// AllowlistEntry is an entry of the approval allowlist.
type AllowlistEntry struct {
	Email string // as customer.FoldEmail makes it
	// Only this customer; "" means every customer who has the e-mail.
	CustomerID string
	Active     bool // an inactive entry has no effect
}

type allowlistEntryJSON struct {
	Email      string  `json:"email"`
	CustomerID *string `json:"customerId,omitempty"`
	Active     *bool   `json:"active"`
}

// MarshalJSON encodes the entry with the interface's names.
func (a AllowlistEntry) MarshalJSON() ([]byte, error) {
	encoded := allowlistEntryJSON{Email: a.Email, Active: &a.Active}
	if a.CustomerID != "" {
		encoded.CustomerID = &a.CustomerID
	}
	return json.Marshal(encoded)
}

// UnmarshalJSON reads the encoding of MarshalJSON. An entry without "active" is active.
func (a *AllowlistEntry) UnmarshalJSON(text []byte) error {
	var decoded allowlistEntryJSON
	if err := decodeStrict(text, &decoded); err != nil {
		return err
	}
	*a = AllowlistEntry{Email: decoded.Email, Active: decoded.Active == nil || *decoded.Active}
	if decoded.CustomerID != nil {
		if *decoded.CustomerID == "" {
			return errors.New("an entry for a customer without an id")
		}
		a.CustomerID = *decoded.CustomerID
	}
	return nil
}

func compareEntries(a, b AllowlistEntry) int {
	if c := strings.Compare(a.Email, b.Email); c != 0 {
		return c
	}
	return strings.Compare(a.CustomerID, b.CustomerID)
}

// Settings holds the settings of an organization.
type Settings struct {
	// Deposits whose sender is above it are flagged; "" screens none.
	ScreeningSeverityThreshold Severity
	// Deposits strictly above it are screened; nil screens none.
	ScreeningUSDThreshold *money.USD
	// Withdrawals strictly above it wait for approval; with nil none waits for its value.
	CustomerWithdrawUSDThreshold *money.USD
	// The organization's own withdrawals strictly above it wait for approval; with nil none waits
	// for its value.
	TwoFactorUSDThreshold *money.USD
	// Withdrawals to destinations above it are refused; "" means HIGH where this installation
	// screens.
	WithdrawSeverityThreshold Severity
	ApprovalAllowlist         []AllowlistEntry // sorted; see SkipsApproval
	// Approvals that a held withdrawal needs, 1 to ApprovalQuorumMax.
	ApprovalQuorum             int
	IPAllowlist                []netip.Prefix
	CustomerSwapsEnabled       bool
	OrganizationSwapsEnabled   bool
	SwappableMintIDs           []int // sorted
	SwapFeeBps                 int
	FlaggedDepositAPIEnabled   bool // the organization's key may decide about flagged deposits
	AutoRestoreFailedSwaps     bool
	RequireWithdrawIdempotency bool // a withdrawal without an idempotency key is refused
	// What one customer's withdrawals may cost the organization in 24 hours before further ones are
	// held; nil means no limit.
	CustomerFeeDayUSD   *money.USD
	ChargeCustomerCosts ChargedCosts // which of those costs the customers pay; "" is NONE
	// Additional keys work, and so does an earlier value of the main key in its overlap.
	AdditionalAPIKeys bool
	// A batch payout that is worth strictly less needs no person; with nil every batch needs one.
	BatchAutoApproveUSD *money.USD
	UpdatedAt           time.Time
}

// SkipsApproval reports whether the approval allowlist contains a customer. It looks for an active
// entry with the e-mail that this service knows of the customer, for that customer or for every
// customer with the e-mail. The caller decides whether that e-mail is old enough to be trusted.
func (s Settings) SkipsApproval(customerID, email string) bool {
	if email == "" || !customer.PlainEmail(email) {
		return false
	}
	email = customer.FoldEmail(email)
	return slices.ContainsFunc(s.ApprovalAllowlist, func(a AllowlistEntry) bool {
		return a.Active && a.Email == email && (a.CustomerID == "" || a.CustomerID == customerID)
	})
}

// setting is one of an organization's settings under the interface's name. It holds how the setting
// is shown and read as JSON, and whether a change of it loosens a control.
type setting struct {
	name    string
	show    func(Settings) any
	read    func(text json.RawMessage, target *Settings) error
	loosens func(before, after Settings) bool // nil: the setting controls nothing
}

// settings lists all settings in the order of the interface. Rule OP-10.
var settings = []setting{
	severitySetting("screeningSeverityThreshold", func(s *Settings) *Severity { return &s.ScreeningSeverityThreshold },
		noScreening),
	usdSetting("screeningUsdThreshold", func(s *Settings) **money.USD { return &s.ScreeningUSDThreshold }),
	usdSetting("customerWithdrawUsdThreshold", func(s *Settings) **money.USD {
		return &s.CustomerWithdrawUSDThreshold
	}),
	usdSetting("twoFactorUsdThreshold", func(s *Settings) **money.USD { return &s.TwoFactorUSDThreshold }),
	// An unset threshold means the default where this installation screens. Where it does not
	// screen, a threshold holds every withdrawal, and without one none is held.
	severitySetting("withdrawSeverityThreshold", func(s *Settings) *Severity { return &s.WithdrawSeverityThreshold },
		withdrawDefault, noScreening),
	{
		"approvalAllowlist", func(s Settings) any { return orEmpty(s.ApprovalAllowlist) }, readAllowlist,
		func(before, after Settings) bool {
			return addsEntries(before.ApprovalAllowlist, after.ApprovalAllowlist)
		},
	},
	{
		"approvalQuorum", func(s Settings) any { return s.ApprovalQuorum },
		func(text json.RawMessage, target *Settings) error {
			if err := decodeInt(text, &target.ApprovalQuorum, 1, ApprovalQuorumMax); err != nil {
				return newSettingFault("approvalQuorum", "approvalQuorum has to be a whole number from 1 to %d.",
					ApprovalQuorumMax)
			}
			return nil
		},
		func(before, after Settings) bool { return after.ApprovalQuorum < before.ApprovalQuorum },
	},
	{
		"ipAllowlist", func(s Settings) any { return orEmpty(s.IPAllowlist) },
		func(text json.RawMessage, target *Settings) error {
			var list []string
			if err := decodeList(text, &list); err != nil {
				return newSettingFault("ipAllowlist", "ipAllowlist has to be a list of addresses and networks.")
			}
			var err error
			target.IPAllowlist, err = ParseIPAllowlist(list)
			return err
		},
		func(before, after Settings) bool { return addsAddresses(before.IPAllowlist, after.IPAllowlist) },
	},
	// A swap hands money to a provider that this service does not control.
	boolSetting("customerSwapsEnabled", func(s *Settings) *bool { return &s.CustomerSwapsEnabled },
		func(before, after bool) bool { return after && !before }),
	boolSetting("organizationSwapsEnabled", func(s *Settings) *bool { return &s.OrganizationSwapsEnabled },
		func(before, after bool) bool { return after && !before }),
	{
		"swappableMintIds", func(s Settings) any { return orEmpty(s.SwappableMintIDs) }, readSwappableMints,
		func(before, after Settings) bool {
			return slices.ContainsFunc(after.SwappableMintIDs, func(mintID int) bool {
				return !slices.Contains(before.SwappableMintIDs, mintID)
			})
		},
	},
	{
		"swapFeeBps", func(s Settings) any { return s.SwapFeeBps },
		func(text json.RawMessage, target *Settings) error {
			if err := decodeInt(text, &target.SwapFeeBps, 0, SwapFeeBpsMax); err != nil {
				return newSettingFault("swapFeeBps", "swapFeeBps has to be a whole number of basis points from 0 to "+
					"%d.",
					SwapFeeBpsMax)
			}
			return nil
		}, nil,
	},
	boolSetting("flaggedDepositApiEnabled", func(s *Settings) *bool { return &s.FlaggedDepositAPIEnabled },
		func(before, after bool) bool { return after && !before }),
	boolSetting("autoRestoreFailedSwaps", func(s *Settings) *bool { return &s.AutoRestoreFailedSwaps }, nil),
	boolSetting("requireWithdrawIdempotency", func(s *Settings) *bool { return &s.RequireWithdrawIdempotency },
		func(before, after bool) bool { return before && !after }),
	usdSetting("customerFeeDayUsd", func(s *Settings) **money.USD { return &s.CustomerFeeDayUSD }),
	{
		"chargeCustomerCosts", func(s Settings) any { return cmp.Or(s.ChargeCustomerCosts, ChargeNone) },
		func(text json.RawMessage, target *Settings) error {
			var word *ChargedCosts
			if err := json.Unmarshal(text, &word); err != nil || word == nil || !slices.Contains(chargedCosts, *word) {
				return newSettingFault("chargeCustomerCosts",
					"chargeCustomerCosts has to be one of NONE, RENT, RENT_AND_FAILURES.")
			}
			target.ChargeCustomerCosts = *word
			return nil
		},
		// Customers can cause costs for the organization that they do not pay themselves.
		func(before, after Settings) bool {
			rank := func(s Settings) int {
				return slices.Index(chargedCosts, cmp.Or(s.ChargeCustomerCosts, ChargeNone))
			}
			return rank(after) > rank(before)
		},
	},
	boolSetting("additionalApiKeys", func(s *Settings) *bool { return &s.AdditionalAPIKeys },
		func(before, after bool) bool { return after && !before }),
	batchSetting(),
}

// batchSetting builds batchAutoApproveUsd. Unlike a threshold it lets more through the higher it is, and nothing
// while it is not set.
func batchSetting() setting {
	built := usdSetting("batchAutoApproveUsd", func(s *Settings) **money.USD { return &s.BatchAutoApproveUSD })
	built.loosens = func(before, after Settings) bool {
		w, t := before.BatchAutoApproveUSD, after.BatchAutoApproveUSD
		return t != nil && t.Cmp(money.USD{}) > 0 && (w == nil || t.Cmp(*w) > 0)
	}
	return built
}

// severitySetting builds a setting for a severity threshold. unset lists the values that may apply
// while none is set. A change loosens the threshold if the effective value rises under any of them.
// It compares the effective values, not the written ones. Rule OP-10.
func severitySetting(name string, field func(*Settings) *Severity, unset ...Severity) setting {
	rank := func(word Severity) int {
		if word == noScreening {
			return len(Severities)
		}
		return slices.Index(Severities, word)
	}
	return setting{
		name,
		func(s Settings) any {
			if *field(&s) == "" {
				return nil
			}
			return *field(&s)
		},
		func(text json.RawMessage, target *Settings) error {
			var word *Severity
			if err := json.Unmarshal(text, &word); err != nil || word != nil && !slices.Contains(Severities, *word) {
				return newSettingFault(name, "%s has to be one of NONE, LOW, MEDIUM, HIGH, SEVERE, or null.", name)
			}
			*field(target) = ""
			if word != nil {
				*field(target) = *word
			}
			return nil
		},
		// Ratings above the threshold are held, so a higher threshold lets more through.
		func(before, after Settings) bool {
			return slices.ContainsFunc(unset, func(u Severity) bool {
				return rank(cmp.Or(*field(&after), u)) > rank(cmp.Or(*field(&before), u))
			})
		},
	}
}

func usdSetting(name string, field func(*Settings) **money.USD) setting {
	return setting{
		name,
		func(s Settings) any {
			if *field(&s) == nil {
				return nil
			}
			return (*field(&s)).String()
		},
		func(text json.RawMessage, target *Settings) error {
			var word *string
			err := json.Unmarshal(text, &word)
			if err == nil && word == nil {
				*field(target) = nil
				return nil
			}
			var v money.USD
			if err == nil {
				v, err = money.ParseUSD(*word)
			}
			if err != nil {
				return newSettingFault(
					name,
					`%s has to be an amount of dollars such as "10000.00", without sign or exponent and with at most 18 digits after the point, or null.`,
					name,
				)
			}
			*field(target) = &v
			return nil
		},
		func(before, after Settings) bool {
			w, t := *field(&before), *field(&after)
			return w != nil && (t == nil || t.Cmp(*w) > 0)
		},
	}
}

func boolSetting(name string, field func(*Settings) *bool, loosens func(before, after bool) bool) setting {
	built := setting{
		name: name,
		show: func(s Settings) any { return *field(&s) },
		read: func(text json.RawMessage, target *Settings) error {
			var v *bool
			if err := json.Unmarshal(text, &v); err != nil || v == nil {
				return newSettingFault(name, "%s has to be true or false.", name)
			}
			*field(target) = *v
			return nil
		},
	}
	if loosens != nil {
		built.loosens = func(before, after Settings) bool { return loosens(*field(&before), *field(&after)) }
	}
	return built
}

// orEmpty replaces nil by an empty list.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func newSettingFault(name, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, format, args...).
		WithAdvice("Correct it and send the request again.").WithParam(name)
}

// decodeStrict reads one JSON value and refuses members that target does not have.
func decodeStrict(text []byte, target any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(target); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one value")
	}
	return nil
}

// decodeList reads a list. It refuses null, as the list and as an element.
func decodeList[T any](text json.RawMessage, target *[]T) error {
	var raw []*T
	if err := decodeStrict(text, &raw); err != nil {
		return err
	}
	if raw == nil {
		return errors.New("null is not a list")
	}
	*target = make([]T, 0, len(raw))
	for _, v := range raw {
		if v == nil {
			return errors.New("null is not an entry")
		}
		*target = append(*target, *v)
	}
	return nil
}

func decodeInt(text json.RawMessage, target *int, minimum, maximum int) error {
	var v *int
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	if v == nil || *v < minimum || *v > maximum {
		return errors.New("out of bounds")
	}
	*target = *v
	return nil
}

func readAllowlist(text json.RawMessage, target *Settings) error {
	const name = "approvalAllowlist"
	var list []AllowlistEntry
	if err := decodeList(text, &list); err != nil {
		return newSettingFault(
			name,
			`approvalAllowlist has to be a list of entries such as {"email": "ann@example.com", "customerId": "user_42", "active": true}. Only email is required.`,
		)
	}
	if len(list) > approvalAllowlistMax {
		return newSettingFault(name, "approvalAllowlist may have at most %d entries.", approvalAllowlistMax)
	}
	for i, entry := range list {
		if customer.CheckEmail(entry.Email) != nil {
			return newSettingFault(name, "Entry %d of approvalAllowlist has no e-mail address.", i+1)
		}
		if !customer.PlainEmail(entry.Email) {
			return newSettingFault(
				name,
				"Entry %d of approvalAllowlist has a character that looks like another one or is not shown, such as "+
					"a full-width letter: write the address in plain letters.",
				i+1,
			)
		}
		if entry.CustomerID != "" && customer.CheckID(entry.CustomerID) != nil {
			return newSettingFault(name, "Entry %d of approvalAllowlist has an invalid customerId.",
				i+1)
		}
		list[i].Email = customer.FoldEmail(entry.Email)
	}
	slices.SortFunc(list, compareEntries)
	for i := range list[:max(0, len(list)-1)] {
		// It would be unclear which of the two counts.
		if compareEntries(list[i], list[i+1]) == 0 {
			return newSettingFault(name, "approvalAllowlist has the same e-mail for the same customer twice.")
		}
	}
	target.ApprovalAllowlist = list
	return nil
}

// addsEntries reports whether after has an active entry that before did not have.
func addsEntries(before, after []AllowlistEntry) bool {
	return slices.ContainsFunc(after, func(entry AllowlistEntry) bool {
		return entry.Active && !slices.Contains(before, entry)
	})
}

func readSwappableMints(text json.RawMessage, target *Settings) error {
	const name = "swappableMintIds"
	var list []int
	if err := decodeList(text, &list); err != nil || len(list) > swappableMintsMax {
		return newSettingFault(name, "swappableMintIds has to be a list of at most %d ids of mints.", swappableMintsMax)
	}
	slices.Sort(list)
	target.SwappableMintIDs = slices.Compact(list)
	return nil
}

// addsAddresses reports whether after allows an address that before did not allow.
func addsAddresses(before, after []netip.Prefix) bool {
	if len(before) == 0 {
		return false
	}
	return len(after) == 0 || slices.ContainsFunc(after, func(p netip.Prefix) bool {
		return !slices.ContainsFunc(before, func(w netip.Prefix) bool {
			return w.Bits() <= p.Bits() && w.Contains(p.Addr())
		})
	})
}

// SettingValue is a setting under the interface's name, with its value in JSON.
type SettingValue struct {
	Name  string
	Value json.RawMessage
}

// ListValues returns all settings in the order of the interface.
func (s Settings) ListValues() []SettingValue {
	members := make([]SettingValue, 0, len(settings))
	for _, item := range settings {
		text, err := json.Marshal(item.show(s))
		if err != nil {
			panic("org: cannot encode a setting: " + err.Error())
		}
		members = append(members, SettingValue{item.name, text})
	}
	return members
}

// SettingNames returns the names of all settings, in the order of the interface.
func SettingNames() []string {
	names := make([]string, 0, len(settings))
	for _, item := range settings {
		names = append(names, item.name)
	}
	return names
}

// Changes are settings to write, all or none. They map the interface's name to the value that the
// interface takes, in JSON.
type Changes map[string]json.RawMessage

// applyTo reads all changes before anything is written. Errors: INVALID_REQUEST on the setting,
// UNKNOWN_FIELD. Rule OP-4.
func (c Changes) applyTo(s Settings) (Settings, error) {
	applied := 0
	for _, item := range settings {
		text, present := c[item.name]
		if !present {
			continue
		}
		applied++
		if err := item.read(text, &s); err != nil {
			return s, err
		}
	}
	if applied == len(c) {
		return s, nil
	}
	names := SettingNames()
	for name := range c {
		if !slices.Contains(names, name) {
			return s, fault.New(fault.Invalid, fault.UnknownField, fault.NothingWritten,
				"The setting %s does not exist.", name).
				WithAdvice("The settings are %s.", strings.Join(names, ", ")).WithParam(name)
		}
	}
	panic("impossible: every name is known, and not all were read")
}

// Check refuses changes that cannot be read, without a database. Errors: INVALID_REQUEST on the
// setting, UNKNOWN_FIELD.
func (c Changes) Check() error {
	_, err := c.applyTo(Settings{})
	return err
}

// Difference is a setting whose value changes.
type Difference struct {
	Setting   string          `json:"setting"`
	From      json.RawMessage `json:"from"`
	To        json.RawMessage `json:"to"`
	Loosening bool            `json:"-"` // it loosens a control
}

func findDifferences(before, after Settings) (changed []Difference) {
	oldMembers, newMembers := before.ListValues(), after.ListValues()
	for i, item := range settings {
		if !bytes.Equal(oldMembers[i].Value, newMembers[i].Value) {
			changed = append(changed, Difference{
				item.name, oldMembers[i].Value, newMembers[i].Value, item.loosens != nil && item.loosens(before, after),
			})
		}
	}
	return changed
}

const selectSettings = `
	SELECT screening_severity_threshold, screening_usd_threshold, customer_withdraw_usd_threshold, two_factor_usd_threshold,
		withdraw_severity_threshold, approval_allowlist, approval_quorum, ip_allowlist, customer_swaps_enabled, organization_swaps_enabled,
		swappable_mint_ids, swap_fee_bps, flagged_deposit_api_enabled, auto_restore_failed_swaps, require_withdraw_idempotency, customer_fee_day_usd, charge_customer_costs, additional_api_keys, batch_auto_approve_usd, updated_at
	FROM organization_settings WHERE org_id = $1`

// SettingsOf reads an organization's settings. Error: NOT_FOUND.
func SettingsOf(ctx context.Context, tx pg.Tx, org string) (Settings, error) {
	return readSettings(ctx, tx, org, selectSettings)
}

func readSettings(ctx context.Context, tx pg.Tx, org, sql string) (Settings, error) {
	return scanSettings(tx.QueryRow(ctx, sql, org), org)
}

// QueueSettings queues SettingsOf. The function that it returns gives the result once the batch was sent.
func QueueSettings(b *pgx.Batch, org string) func() (Settings, error) {
	var s Settings
	err := errors.New("the settings were not read")
	b.Queue(selectSettings, org).QueryRow(func(row pgx.Row) error {
		s, err = scanSettings(row, org)
		return nil
	})
	return func() (Settings, error) { return s, err }
}

func scanSettings(row pgx.Row, org string) (Settings, error) {
	var s Settings
	var screening, withdraw *Severity
	err := row.Scan(&screening, &s.ScreeningUSDThreshold, &s.CustomerWithdrawUSDThreshold, &s.TwoFactorUSDThreshold,
		&withdraw, &s.ApprovalAllowlist, &s.ApprovalQuorum, &s.IPAllowlist, &s.CustomerSwapsEnabled,
		&s.OrganizationSwapsEnabled,
		&s.SwappableMintIDs, &s.SwapFeeBps, &s.FlaggedDepositAPIEnabled, &s.AutoRestoreFailedSwaps,
		&s.RequireWithdrawIdempotency, &s.CustomerFeeDayUSD, &s.ChargeCustomerCosts, &s.AdditionalAPIKeys,
		&s.BatchAutoApproveUSD, &s.UpdatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, newNotFound()
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

// LockSettingsShared locks an organization's settings in shared mode until the transaction ends,
// for a transaction that decides by them. It comes before any lock that a payment takes. Rule OP-4.
func LockSettingsShared(ctx context.Context, tx pg.Tx, org string) error {
	return pg.LockShared(ctx, tx, identity.SettingsLock(org))
}

// QueueLockSettingsShared adds LockSettingsShared to a batch.
func QueueLockSettingsShared(b *pgx.Batch, org string) {
	pg.QueueLockShared(b, identity.SettingsLock(org))
}

// ChangeSettings writes settings in a transaction of the system, with a row in the audit log for
// each that changes, and returns the settings after the change. It waits for transactions that
// decide by the former settings; those that decide later see the change. It needs no second
// operator: see RequestChange. Errors: NOT_FOUND, INVALID_REQUEST on the setting, UNKNOWN_FIELD.
func ChangeSettings(ctx context.Context, tx pg.Tx, actor audit.Actor, org string, c Changes) (Settings, error) {
	before, after, err := planChange(ctx, tx, org, c)
	if err != nil {
		return Settings{}, err
	}
	return writeSettings(ctx, tx, actor, org, before, after, requestCause{})
}

// Plan is a change of settings that was read and compared and is not written. The settings stay locked until
// the transaction ends.
type Plan struct {
	OrgID         string
	Before, After Settings
	Differences   []Difference
}

// PlanChange reads changes in a transaction of the system and locks the settings. Errors: NOT_FOUND,
// INVALID_REQUEST on the setting, UNKNOWN_FIELD.
func PlanChange(ctx context.Context, tx pg.Tx, org string, c Changes) (Plan, error) {
	before, after, err := planChange(ctx, tx, org, c)
	if err != nil {
		return Plan{}, err
	}
	return Plan{OrgID: org, Before: before, After: after, Differences: findDifferences(before, after)}, nil
}

// KeepSome returns a plan with some of the differences.
func (p Plan) KeepSome(isKept func(Difference) bool) (Plan, error) {
	part := Plan{OrgID: p.OrgID, Before: p.Before}
	c := Changes{}
	for _, d := range p.Differences {
		if isKept(d) {
			part.Differences, c[d.Setting] = append(part.Differences, d), d.To
		}
	}
	var err error
	if part.After, err = c.applyTo(p.Before); err != nil {
		return Plan{}, fmt.Errorf("read the settings of %s again: %w", p.OrgID, err)
	}
	return part, nil
}

// FindChanged returns a setting whose present value differs from an earlier one, and "" for none.
func (p Plan) FindChanged(earlier Changes) (string, error) {
	earlierSettings, err := earlier.applyTo(p.Before)
	if err != nil {
		return "", fmt.Errorf("read earlier settings of %s: %w", p.OrgID, err)
	}
	if changed := findDifferences(p.Before, earlierSettings); len(changed) > 0 {
		return changed[0].Setting, nil
	}
	return "", nil
}

// Write writes the settings after the change, with a row in the audit log for each that changes. memberChange
// is the request behind it, or "".
func (p Plan) Write(ctx context.Context, tx pg.Tx, actor audit.Actor, memberChange string) (Settings, error) {
	return writeSettings(ctx, tx, actor, p.OrgID, p.Before, p.After, requestCause{"memberChange", memberChange})
}

// Outcome is the result of requested changes.
type Outcome struct {
	Settings Settings
	// The changes that wait for another operator; nil if none do.
	Pending *changerequest.Request
}

// RequestChange changes settings for an operator, where a second operator may have to approve.
// Changes that loosen a control then wait in a change request; the others are written at once.
// Errors: those of ChangeSettings and of changerequest.CreateRequest. Rules OP-7 and OP-10.
func RequestChange(
	ctx context.Context, tx pg.Tx, author operator.Key, rule changerequest.Rule, org string, c Changes,
) (outcome Outcome, err error) {
	before, after, err := planChange(ctx, tx, org, c)
	if err != nil {
		return outcome, err
	}
	holds, err := rule.IsActive(ctx, tx, identity.ChangeSettings)
	if err != nil {
		return outcome, err
	}
	held, wanted := changerequest.Values{}, changerequest.Values{}
	immediate := Changes{}
	for _, d := range findDifferences(before, after) {
		if holds && d.Loosening {
			held[d.Setting], wanted[d.Setting] = d.From, d.To
		} else {
			immediate[d.Setting] = d.To
		}
	}
	if len(wanted) > 0 {
		r, err := changerequest.CreateRequest(ctx, tx, author, org, changerequest.Settings, held, wanted)
		if err != nil {
			return outcome, err
		}
		outcome.Pending = &r
		if after, err = immediate.applyTo(before); err != nil {
			return outcome, fmt.Errorf("read the settings of %s again: %w", org, err)
		}
	}
	outcome.Settings, err = writeSettings(ctx, tx, author.Actor(), org, before, after, requestCause{})
	return outcome, err
}

// ApplyApproved returns the function that applies an approved change request of settings. Error:
// INVALID_STATE if a setting has changed since the request, because the approver then saw another
// value.
func ApplyApproved(approver operator.Key) func(ctx context.Context, tx pg.Tx, r changerequest.Request) error {
	return func(ctx context.Context, tx pg.Tx, r changerequest.Request) error {
		before, after, err := planChange(ctx, tx, r.OrgID, Changes(r.Wanted))
		if err != nil {
			return err
		}
		requested, err := Changes(r.Before).applyTo(before)
		if err != nil {
			return fmt.Errorf("read the settings at the time of the request of %s: %w", r.ID, err)
		}
		if changedSince := findDifferences(before, requested); len(changedSince) > 0 {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"%s has changed since this change request.", changedSince[0].Setting).
				WithAdvice("The requester has to withdraw the request and make a new one.").
				WithParam(changedSince[0].Setting)
		}
		_, err = writeSettings(
			ctx, tx, approver.Actor(), r.OrgID, before, after, requestCause{"changeRequest", r.ID},
		)
		return err
	}
}

// HistoryRow is a change of a setting, from the audit log.
type HistoryRow struct {
	Difference
	Actor         audit.Actor
	ChangedAt     time.Time
	ChangeRequest string // chg_…, if another operator had requested it
	MemberChange  string // mch_…, if a person of the organization had requested it
}

// SettingsHistory returns a page of the changes of an organization's settings. Error: NOT_FOUND.
func SettingsHistory(
	ctx context.Context, tx pg.Tx, org string, p pagination.Page,
) (result pagination.Result[HistoryRow], err error) {
	if _, err := ByID(ctx, tx, org); err != nil {
		return result, err
	}
	found, err := audit.List(ctx, tx, audit.Filter{OrgID: org, ResourceID: org, Action: SettingChanged}, p)
	if err != nil {
		return result, err
	}
	result.NextCursor = found.NextCursor
	for _, row := range found.Items {
		h := HistoryRow{Actor: row.Actor, ChangedAt: row.RecordedAt}
		var detail struct {
			Difference
			ChangeRequest string `json:"changeRequest"`
			MemberChange  string `json:"memberChange"`
		}
		if err := json.Unmarshal(row.Detail, &detail); err != nil {
			return result, fmt.Errorf("read row %d of the audit log: %w", row.ID, err)
		}
		h.Difference, h.ChangeRequest, h.MemberChange = detail.Difference, detail.ChangeRequest, detail.MemberChange
		result.Items = append(result.Items, h)
	}
	return result, nil
}

// planChange locks an organization's settings and returns them before and after the changes.
func planChange(ctx context.Context, tx pg.Tx, org string, c Changes) (before, after Settings, err error) {
	if err = pg.LockExclusive(ctx, tx, identity.SettingsLock(org)); err != nil {
		return before, after, err
	}
	if before, err = readSettings(ctx, tx, org, selectSettings+" FOR UPDATE"); err != nil {
		return before, after, err
	}
	if after, err = c.applyTo(before); err != nil {
		return before, after, err
	}
	if _, present := c["swappableMintIds"]; present {
		var missing *int64
		err = tx.QueryRow(
			ctx, `SELECT min(i) FROM unnest($1::bigint[]) i WHERE NOT EXISTS (SELECT FROM mints m WHERE m.mint_id = i)`,
			after.SwappableMintIDs,
		).Scan(&missing)
		if err != nil {
			return before, after, fmt.Errorf("look for the mints of %s: %w", org, err)
		}
		if missing != nil {
			return before, after, newSettingFault("swappableMintIds", "Mint %d does not exist.", *missing)
		}
	}
	return before, after, nil
}

// requestCause is the request behind a change: its id under the name that the audit log gives it. A request
// without an id is none.
type requestCause struct{ name, id string }

// writeSettings writes the settings after a change.
func writeSettings(
	ctx context.Context, tx pg.Tx, actor audit.Actor, org string, before, after Settings, cause requestCause,
) (Settings, error) {
	changes := findDifferences(before, after)
	if len(changes) == 0 {
		return before, nil
	}
	allowlist, err := json.Marshal(after.ApprovalAllowlist)
	if err != nil {
		return Settings{}, fmt.Errorf("write the approval allowlist of %s: %w", org, err)
	}
	_, err = tx.Exec(ctx, `
		UPDATE organization_settings SET
			screening_severity_threshold = nullif($2, ''), screening_usd_threshold = $3, customer_withdraw_usd_threshold = $4, two_factor_usd_threshold = $5,
			withdraw_severity_threshold = nullif($6, ''), approval_allowlist = $7, approval_quorum = $8, ip_allowlist = $9, customer_swaps_enabled = $10,
			organization_swaps_enabled = $11, swappable_mint_ids = $12, swap_fee_bps = $13, flagged_deposit_api_enabled = $14,
			auto_restore_failed_swaps = $15, require_withdraw_idempotency = $16, updated_at = $17, customer_fee_day_usd = $18, charge_customer_costs = $19,
			additional_api_keys = $20, batch_auto_approve_usd = $21
		WHERE org_id = $1`, org,
		after.ScreeningSeverityThreshold, after.ScreeningUSDThreshold, after.CustomerWithdrawUSDThreshold,
		after.TwoFactorUSDThreshold,
		after.WithdrawSeverityThreshold, string(allowlist), after.ApprovalQuorum, after.IPAllowlist,
		after.CustomerSwapsEnabled,
		after.OrganizationSwapsEnabled, after.SwappableMintIDs, after.SwapFeeBps, after.FlaggedDepositAPIEnabled,
		after.AutoRestoreFailedSwaps, after.RequireWithdrawIdempotency, tx.Now, after.CustomerFeeDayUSD,
		cmp.Or(after.ChargeCustomerCosts, ChargeNone), after.AdditionalAPIKeys, after.BatchAutoApproveUSD)
	if err != nil {
		return Settings{}, fmt.Errorf("change the settings of %s: %w", org, err)
	}
	entries := make([]audit.Entry, 0, len(changes))
	for _, d := range changes {
		detail := map[string]any{"setting": d.Setting, "from": d.From, "to": d.To}
		if cause.id != "" {
			detail[cause.name] = cause.id
		}
		entries = append(entries, audit.Entry{
			OrgID: org, Actor: actor, Action: SettingChanged, ResourceKind: "ORGANIZATION", ResourceID: org,
			Detail: detail,
		})
	}
	if err := audit.Record(ctx, tx, entries...); err != nil {
		return Settings{}, err
	}
	after.UpdatedAt = tx.Now
	return after, nil
}

// SettingChanged is the action of the audit log for every change of a setting. Its row has the
// value before, the value after, and the actor.
const SettingChanged = "settings.changed"

// SetWithdrawThreshold sets customerWithdrawUsdThreshold, nil for none, in a
// transaction of the system. Error: NOT_FOUND.
func SetWithdrawThreshold(ctx context.Context, tx pg.Tx, actor audit.Actor, org string, threshold *money.USD) error {
	return setSetting(ctx, tx, actor, org, "customerWithdrawUsdThreshold", threshold)
}

// SetRequireWithdrawIdempotency sets requireWithdrawIdempotency, in a
// transaction of the system. Error: NOT_FOUND.
func SetRequireWithdrawIdempotency(ctx context.Context, tx pg.Tx, actor audit.Actor, org string, required bool) error {
	return setSetting(ctx, tx, actor, org, "requireWithdrawIdempotency", required)
}

// SetIPAllowlist sets ipAllowlist, in the form of ParseIPAllowlist, in a transaction of the system.
// Every request admitted after the commit is checked against the new list. Error: NOT_FOUND.
func SetIPAllowlist(ctx context.Context, tx pg.Tx, actor audit.Actor, org string, list []netip.Prefix) error {
	if list == nil {
		list = []netip.Prefix{}
	}
	return setSetting(ctx, tx, actor, org, "ipAllowlist", list)
}

func setSetting(ctx context.Context, tx pg.Tx, actor audit.Actor, org, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s of %s: %w", name, org, err)
	}
	_, err = ChangeSettings(ctx, tx, actor, org, Changes{name: text})
	return err
}

// UnavailableSettings lists the settings that are stored and shown but have no effect in this
// version, each with what is missing.
var UnavailableSettings = map[string]string{}
