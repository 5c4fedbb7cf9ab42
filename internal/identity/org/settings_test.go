package org_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// A setting that is documented as without effect has none: no package that acts reads it. Rule
// OP-4.
func TestSettingsForLaterAreReadByNoOtherPackage(t *testing.T) {
	t.Parallel()
	read := regexp.MustCompile(`\.([A-Z]\w+)`)
	used := map[string]string{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		shows := path == filepath.Join(root, "http", "operatorapi", "settings.go") ||
			filepath.Dir(path) == filepath.Join(root, "identity", "org")
		if err != nil || entry.IsDir() || shows || !strings.HasSuffix(path, ".go") ||
			strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range read.FindAllSubmatch(text, -1) {
			used[strings.ToLower(string(m[1]))] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"requireWithdrawIdempotency", "customerWithdrawUsdThreshold"} {
		if used[strings.ToLower(name)] == "" {
			t.Fatalf("%s: found nothing that reads it, so this test finds nothing", name)
		}
	}
	for name := range org.UnavailableSettings {
		if path := used[strings.ToLower(name)]; path != "" {
			t.Errorf("%s is said to have no effect yet, and %s reads it", name, path)
		}
	}
}

// newOrganization creates an organization with two mints in the catalogue, 1 and 2.
func newOrganization(t *testing.T) (*pg.DB, org.Organization) {
	t.Helper()
	db := pgtest.New(t)
	usdc := mint.Mint{
		ID: 1, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token,
		Contract: "0x00000000000000000000000000000000000000aa", Symbol: "USDC", Name: "USD Coin",
		Decimals: 6, MinDeposit: money.Units(1), MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}
	eth := usdc
	eth.ID, eth.Kind, eth.Contract, eth.Symbol, eth.Name, eth.Decimals = 2, mint.Native, "", "ETH", "Ether", 18
	if err := mint.Sync(t.Context(), db, []mint.Mint{usdc, eth}); err != nil {
		t.Fatal(err)
	}
	o, _, err := org.Create(t.Context(), db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	return db, o
}

func changeTo(t *testing.T, db *pg.DB, field string, body string) (s org.Settings, err error) {
	t.Helper()
	var c org.Changes
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	err = db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		s, err = org.ChangeSettings(ctx, tx, audit.Operator("op"), field, c)
		return err
	})
	return s, err
}

func settingsOf(t *testing.T, db *pg.DB, field string) (s org.Settings) {
	t.Helper()
	err := db.ReadOrg(t.Context(), field, func(ctx context.Context, tx pg.Tx) (err error) {
		s, err = org.SettingsOf(ctx, tx, field)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shown(s org.Settings) string {
	var b strings.Builder
	for _, m := range s.ListValues() {
		fmt.Fprintf(&b, "%s=%s\n", m.Name, m.Value)
	}
	return b.String()
}

const everySetting = `{"screeningSeverityThreshold":"LOW","screeningUsdThreshold":"1000.50","customerWithdrawUsdThreshold":"10000","twoFactorUsdThreshold":"0",
	"withdrawSeverityThreshold":"MEDIUM","approvalAllowlist":[{"email":"Zo\u00eb@Example.com","customerId":"user_42"},{"email":"Ann@example.com","active":false}],
	"approvalQuorum":2,"ipAllowlist":["203.0.113.7"],"customerSwapsEnabled":true,"organizationSwapsEnabled":true,"swappableMintIds":[2,1,2],"swapFeeBps":25,
	"flaggedDepositApiEnabled":true,"autoRestoreFailedSwaps":true,"requireWithdrawIdempotency":true,"customerFeeDayUsd":"12.5","chargeCustomerCosts":"RENT","additionalApiKeys":true,"batchAutoApproveUsd":"500.00"}`

// Rule OP-4.
func TestEverySettingIsKeptAsItWasSetWithWhoChangedIt(t *testing.T) {
	t.Parallel()
	db, o := newOrganization(t)
	before := settingsOf(t, db, o.ID)
	const unset = `screeningSeverityThreshold=null
screeningUsdThreshold=null
customerWithdrawUsdThreshold=null
twoFactorUsdThreshold=null
withdrawSeverityThreshold=null
approvalAllowlist=[]
approvalQuorum=1
ipAllowlist=[]
customerSwapsEnabled=false
organizationSwapsEnabled=false
swappableMintIds=[]
swapFeeBps=0
flaggedDepositApiEnabled=false
autoRestoreFailedSwaps=false
requireWithdrawIdempotency=false
customerFeeDayUsd="50"
chargeCustomerCosts="NONE"
additionalApiKeys=false
batchAutoApproveUsd=null
`
	if got := shown(before); got != unset {
		t.Errorf("unset: got %s, want %s", got, unset)
	}
	const set = `screeningSeverityThreshold="LOW"
screeningUsdThreshold="1000.5"
customerWithdrawUsdThreshold="10000"
twoFactorUsdThreshold="0"
withdrawSeverityThreshold="MEDIUM"
approvalAllowlist=[{"email":"ann@example.com","active":false},{"email":"zoë@example.com","customerId":"user_42","active":true}]
approvalQuorum=2
ipAllowlist=["203.0.113.7/32"]
customerSwapsEnabled=true
organizationSwapsEnabled=true
swappableMintIds=[1,2]
swapFeeBps=25
flaggedDepositApiEnabled=true
autoRestoreFailedSwaps=true
requireWithdrawIdempotency=true
customerFeeDayUsd="12.5"
chargeCustomerCosts="RENT"
additionalApiKeys=true
batchAutoApproveUsd="500"
`
	told, err := changeTo(t, db, o.ID, everySetting)
	if err != nil {
		t.Fatal(err)
	}
	if got := settingsOf(t, db, o.ID); shown(told) != set || shown(got) != set || !got.UpdatedAt.Equal(told.UpdatedAt) {
		t.Errorf("got %s, told %s, want %s", shown(got), shown(told), set)
	}
	// The same values again change nothing and write no change.
	again, err := changeTo(t, db, o.ID, everySetting)
	if err != nil || shown(again) != set || !again.UpdatedAt.Equal(told.UpdatedAt) {
		t.Errorf("again: got %s %v, want what was", shown(again), err)
	}
	var rows []audit.Row
	err = db.ReadOrg(t.Context(), o.ID, func(ctx context.Context, tx pg.Tx) error {
		found, err := audit.List(ctx, tx, audit.Filter{Action: org.SettingChanged}, pagination.Page{Limit: 100})
		rows = found.Items
		return err
	})
	if err != nil || len(rows) != len(org.SettingNames()) {
		t.Fatalf("got %d rows of the audit log and %v, want one for each setting", len(rows), err)
	}
	for i, m := range told.ListValues() {
		var detail struct {
			Setting  string
			From, To json.RawMessage
		}
		if err := json.Unmarshal(rows[i].Detail, &detail); err != nil {
			t.Fatal(err)
		}
		if detail.Setting != m.Name || plain(detail.From) != plain(before.ListValues()[i].Value) ||
			plain(detail.To) != plain(m.Value) || rows[i].Actor != audit.Operator("op") {
			t.Errorf("got %s by %v, want %s from %s to %s by the operator", rows[i].Detail, rows[i].Actor, m.Name,
				before.ListValues()[i].Value, m.Value)
		}
	}
}

// plain returns a JSON text as Go reads it.
func plain(text []byte) string {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err.Error()
	}
	return fmt.Sprint(v)
}

func TestSettingsOutOfTheirBoundsAreRefusedWhole(t *testing.T) {
	t.Parallel()
	db, o := newOrganization(t)
	before := settingsOf(t, db, o.ID)
	entries := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"email":"a%d@example.com"}`, i))
		}
		return `[` + strings.Join(all, ",") + `]`
	}
	for _, c := range []struct{ setting, value string }{
		{"screeningSeverityThreshold", `"UNKNOWN"`},
		{"screeningSeverityThreshold", `"low"`},
		{"screeningSeverityThreshold", `""`},
		{"withdrawSeverityThreshold", `0`},
		{"screeningUsdThreshold", `"-1"`},
		{"screeningUsdThreshold", `10`},
		{"twoFactorUsdThreshold", `"1e3"`},
		{"customerWithdrawUsdThreshold", `"0.0000000000000000001"`},
		{"approvalQuorum", `0`},
		{"approvalQuorum", `11`},
		{"approvalQuorum", `1.5`},
		{"approvalQuorum", `2.0`},
		{"approvalQuorum", `"2"`},
		{"approvalQuorum", `null`},
		{"approvalQuorum", `99999999999999999999`},
		{"chargeCustomerCosts", `"FAILURES"`},
		{"chargeCustomerCosts", `"rent"`},
		{"chargeCustomerCosts", `""`},
		{"chargeCustomerCosts", `null`},
		{"swapFeeBps", `-1`},
		{"swapFeeBps", `1001`},
		{"swappableMintIds", `[3]`},
		{"swappableMintIds", `[1,null]`},
		{"swappableMintIds", `["1"]`},
		{"swappableMintIds", `null`},
		{"swappableMintIds", `[2147483648]`},
		{"approvalAllowlist", `null`},
		{"approvalAllowlist", `[null]`},
		{"approvalAllowlist", `{}`},
		{"approvalAllowlist", `["ann@example.com"]`},
		{"approvalAllowlist", `[{"email":"ann"}]`},
		{"approvalAllowlist", `[{"email":" ann@example.com"}]`},
		{"approvalAllowlist", `[{"email":"\uff41nn@example.com"}]`},
		{"approvalAllowlist", `[{"email":"ann@example\u200d.com"}]`},
		{"approvalAllowlist", `[{"email":"\u0130nn@example.com"}]`},
		{"approvalAllowlist", `[{"email":"ann\uff20evil.com@example.com"}]`},
		{"approvalAllowlist", `[{"email":"ann@example.com","customerId":""}]`},
		{"approvalAllowlist", `[{"email":"ann@example.com","customerId":"a\u0000"}]`},
		{"approvalAllowlist", `[{"email":"ann@example.com","customerId":7}]`},
		{"approvalAllowlist", `[{"email":"ann@example.com","active":"yes"}]`},
		{"approvalAllowlist", `[{"email":"ann@example.com","for":"ever"}]`},
		{"approvalAllowlist", `[{"email":"ann@example.com"},{"email":"ANN@example.com"}]`},
		{
			"approvalAllowlist",
			`[{"email":"ann@example.com","customerId":"x"},{"email":"ann@example.com","customerId":"x","active":false}]`,
		},
		{"approvalAllowlist", entries(501)},
		{"ipAllowlist", `["0.0.0.0/0"]`},
		{"ipAllowlist", `[null]`},
		{"flaggedDepositApiEnabled", `null`},
		{"flaggedDepositApiEnabled", `1`},
		{"requireWithdrawIdempotency", `"true"`},
	} {
		// A valid setting in the same request is not set either.
		other := `"autoRestoreFailedSwaps":true`
		_, err := changeTo(t, db, o.ID, `{`+other+`,"`+c.setting+`":`+c.value+`}`)
		if !fault.HasCode(err, fault.InvalidRequest) || fault.Find(err).Param != c.setting {
			t.Errorf("%s=%.80s: got %v, want %v on it", c.setting, c.value, err, fault.InvalidRequest)
		}
	}
	if _, err := changeTo(
		t, db, o.ID, `{"autoRestoreFailedSwaps":true,"approvalquorum":2}`,
	); !fault.HasCode(err, fault.UnknownField) {
		t.Errorf("got %v, want %v", err, fault.UnknownField)
	}
	if got := settingsOf(t, db, o.ID); shown(got) != shown(before) {
		t.Errorf("got %s, want %s", shown(got), shown(before))
	}
	if s, err := changeTo(
		t, db, o.ID, `{"approvalAllowlist":`+entries(500)+`,"approvalQuorum":10,"swapFeeBps":1000}`,
	); err != nil || len(s.ApprovalAllowlist) != 500 {
		t.Errorf("at the bounds: got %v, want it taken", err)
	}
}

func TestTheDatabaseKeepsTheBoundsOfSettings(t *testing.T) {
	t.Parallel()
	db, o := newOrganization(t)
	super := pgtest.OwnerPool(t, db)
	for set, constraint := range map[string]string{
		`screening_severity_threshold = 'WORSE'`: "organization_settings_screening_severity_known",
		`withdraw_severity_threshold = ''`:       "organization_settings_withdraw_severity_known",
		`screening_usd_threshold = -1`:           "organization_settings_screening_usd_not_negative",
		`two_factor_usd_threshold = -1`:          "organization_settings_two_factor_usd_not_negative",
		`approval_quorum = 0`:                    "organization_settings_quorum_bounded",
		`approval_quorum = 11`:                   "organization_settings_quorum_bounded",
		`swap_fee_bps = 1001`:                    "organization_settings_fee_bounded",
		`approval_allowlist = '{}'`:              "organization_settings_allowlist_bounded",
		`swappable_mint_ids = '{NULL}'`:          "organization_settings_mints_bounded",
	} {
		if _, err := super.Exec(
			t.Context(), `UPDATE organization_settings SET `+set+` WHERE org_id = $1`, o.ID,
		); !pg.ViolatesConstraint(err, constraint) {
			t.Errorf("%s: got %v, want %s", set, err, constraint)
		}
	}
}

func TestTheAllowlistSkipsWhoHasTheEMailAndIsMeant(t *testing.T) {
	t.Parallel()
	s := org.Settings{ApprovalAllowlist: []org.AllowlistEntry{
		{Email: "all@example.com", Active: true},
		{Email: "off@example.com"},
		{Email: "one@example.com", CustomerID: "user_1", Active: true},
		{Email: "off@example.com", CustomerID: "user_2", Active: true},
	}}
	for _, c := range []struct {
		customer, email string
		want            bool
	}{
		{"user_1", "all@example.com", true},
		{"user_9", "ALL@example.com", true},
		{"user_9", "\uff41ll@example.com", false},
		{"user_9", "al\u2113@example.com", false},
		{"user_9", "all@example\u200d.com", false},
		{"user_1", "one@example.com", true},
		{"user_2", "one@example.com", false},
		{"", "one@example.com", false},
		{"user_1", "off@example.com", false},
		{"user_2", "off@example.com", true},
		{"user_1", "", false},
		{"user_1", "all@example.com ", false},
		{"user_1", "all@example.co", false},
	} {
		if got := s.SkipsApproval(c.customer, c.email); got != c.want {
			t.Errorf("%s with %q: got %v, want %v", c.customer, c.email, got, c.want)
		}
	}
	if (org.Settings{}).SkipsApproval("user_1", "all@example.com") {
		t.Error("an empty list skips somebody")
	}
}
